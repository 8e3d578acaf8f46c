"""What this machine can do, and for each thing missing the one command that brings it. Never imports jax."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hawkeye_mcp import attached, content, state, taxonomy, workloads
from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.chips import CHIPS, Chip
from hawkeye_mcp.judge.workers import environment

Level = Literal["required", "recommended", "optional"]

PACKAGE = "hawkeye-mcp"
PINNED = ("jax", "jaxlib", "libtpu")
MEMORY_BYTES = 4 << 30  # one compile at full size and one sandbox
DISK_BYTES = 2 << 30
CORES = 2  # one compiles while the other verifies
_CHILD_LIMIT_S = 120


class Check(BaseModel):
    """One thing looked at. `fix` is the command that brings it, empty where nothing is missing."""

    model_config = ConfigDict(extra="forbid")

    name: str
    ok: bool
    level: Level
    found: str
    fix: str = ""


def diagnose() -> list[Check]:
    """Every check, in the order shown. Takes seconds: the compiler is started once per TPU generation."""
    compiles = _generations()
    return [
        python(),
        *(package(name) for name in PINNED),
        package("flatbuffers"),
        _compiler(compiles),
        *compiles,
        sandbox(),
        pytorch(),
        tpu(),
        memory(),
        disk(state.folder()),
        cores(),
        *contents(),
        writable(state.folder()),
    ]


def exit_code(checks: list[Check]) -> int:
    """1 if something required is missing, else 0."""
    return int(any(not check.ok and check.level == "required" for check in checks))


def show(checks: list[Check], console: Console) -> None:
    """Print the table, then one line for each thing missing."""
    table = Table(box=None, pad_edge=False)
    for column in ("", "check", "found"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark = "[green]ok[/green]" if check.ok else _MARK[check.level]
        table.add_row(mark, check.name, escape(check.found))
    console.print(table)
    for check in checks:
        if check.fix:
            console.print(f"\n{check.name} ({check.level}):", markup=False)
            console.print(f"  {check.fix}", markup=False, highlight=False, soft_wrap=True)


_MARK: dict[Level, str] = {
    "required": "[red]MISSING[/red]",
    "recommended": "[yellow]weak[/yellow]",
    "optional": "[dim]absent[/dim]",
}


# --- Python and packages


def python() -> Check:
    """The interpreter against the package's own Requires-Python."""
    try:
        wanted = metadata.metadata(PACKAGE)["Requires-Python"]
    except metadata.PackageNotFoundError:
        return Check(
            name="python",
            ok=False,
            level="required",
            found=f"{PACKAGE} is not installed",
            fix=_pip(_source()),
        )
    least = tuple(int(part) for part in re.findall(r"\d+", wanted))
    ok = sys.version_info[: len(least)] >= least
    fix = "" if ok else f"uv venv --python {'.'.join(map(str, least))}"
    return Check(name="python", ok=ok, level="required", found=f"{platform.python_version()} (needs {wanted})", fix=fix)


def pin(name: str) -> str | None:
    """The requirement that the installed package's metadata states for `name`, such as "jax==0.10.2"."""
    try:
        stated = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    plain = (requirement.split(";")[0].strip() for requirement in stated)
    return next((text for text in plain if re.match(rf"{re.escape(name)}(?![\w-])", text)), None)


def package(name: str) -> Check:
    """A dependency: installed, and at the version pinned for it if there is one."""
    requirement = pin(name) or name
    _, _, pinned = requirement.partition("==")
    fix = _pip(requirement)
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name=name, ok=False, level="required", found="not installed", fix=fix)
    if pinned and installed != pinned:
        found = f"{installed}, pinned at {pinned}"
        return Check(name=name, ok=False, level="required", found=found, fix=fix)
    return Check(name=name, ok=True, level="required", found=installed + (" (the pinned version)" if pinned else ""))


def pytorch() -> Check:
    """What importing PyTorch modules needs; nothing else does."""
    needed = [requirement for requirement in (pin("torch"), pin("torchax")) if requirement]
    found, lacking = list[str](), list[str]()
    for requirement in needed:
        name, _, wanted = requirement.partition("==")
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            lacking.append(name)
            continue
        found.append(f"{name} {installed}")
        if installed.partition("+")[0] != wanted:  # torch 2.13.0+cpu is torch 2.13.0
            lacking.append(f"{requirement} instead")
    words = f"{', '.join(found) or 'nothing'}; lacking: {', '.join(lacking)}" if lacking else ", ".join(found)
    fix = _pip(*needed) if lacking else ""
    return Check(name="PyTorch", ok=not lacking, level="optional", found=words, fix=fix)


def _pip(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])


def _source() -> str:
    """What pip installs this package from: the checkout it runs from, else its name."""
    root = Path(__file__).resolve().parents[1]
    return str(root) if (root / "pyproject.toml").is_file() else PACKAGE


# --- the TPU compiler

_TOPOLOGY = """
import sys
from jax.experimental import topologies
print(topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[1]).devices[0].device_kind)
"""


def generation(chip: Chip, interpreter: str = sys.executable) -> Check:
    """Whether libtpu presents this generation's devices, asked in a process of its own: libtpu may abort."""
    name = f"compile for {chip.name}"
    fix = _pip(pin("libtpu") or "libtpu")
    try:
        with tempfile.TemporaryDirectory(prefix="hawkeye-doctor-") as folder:
            done = subprocess.run(
                [interpreter, "-c", _TOPOLOGY, chip.topology],
                env=environment("compiler", Path(folder)),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_CHILD_LIMIT_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return Check(name=name, ok=False, level="recommended", found=f"no answer in {_CHILD_LIMIT_S} s", fix=fix)
    kind = done.stdout.strip()
    if done.returncode == 0 and kind == chip.device_kind:
        return Check(name=name, ok=True, level="recommended", found=kind)
    last = (done.stderr.strip() or f"libtpu calls it {kind!r}").splitlines()[-1][:200]
    return Check(name=name, ok=False, level="recommended", found=last, fix=fix)


def _generations() -> list[Check]:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(generation, CHIPS.values()))


def _compiler(generations: list[Check]) -> Check:
    """Nothing works without at least one generation."""
    able = [check.name.removeprefix("compile for ") for check in generations if check.ok]
    found = f"compiles for {', '.join(able)}" if able else "libtpu compiles for no generation"
    fix = "" if able else _pip(pin("libtpu") or "libtpu")
    return Check(name="TPU compiler", ok=bool(able), level="required", found=found, fix=fix)


# --- the machine


def sandbox(proc_sys: Path = Path("/proc/sys")) -> Check:
    """How strongly a candidate's Python is held: bubblewrap if it can make namespaces here, else rlimits."""

    def weak(why: str, fix: str) -> Check:
        found = f"rlimits only: {why}"
        return Check(name="sandbox", ok=False, level="recommended", found=found, fix=fix)

    if not shutil.which("bwrap"):
        return weak("bubblewrap is not installed", "apt-get install bubblewrap")
    try:
        strongest = isolation.isolation()
    except (subprocess.TimeoutExpired, OSError) as error:
        return weak(f"bubblewrap does not run: {error}", "apt-get install --reinstall bubblewrap")
    if strongest == "bubblewrap":
        return Check(name="sandbox", ok=True, level="recommended", found="bubblewrap, with its own namespaces")
    for key, bad, good in _NAMESPACE_SWITCHES:
        switch = proc_sys / key.replace(".", "/")
        if switch.is_file() and switch.read_text().strip() == bad:
            return weak(f"user namespaces are off ({key} = {bad})", f"sysctl -w {key}={good}")
    # No switch is off, so a container's seccomp or AppArmor profile refuses.
    return weak(
        "bubblewrap cannot make the sandbox here",
        "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined IMAGE",
    )


_NAMESPACE_SWITCHES = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user.max_user_namespaces", "0", "15000"),
)


def tpu(root: Path = Path("/")) -> Check:
    """Whether a TPU is attached: kernels for its generation are then timed on it."""
    if chips := attached.tpus(root):
        known = chips[0] in CHIPS
        means = "times for it are measured, which was never tried on a TPU" if known else "all times are predicted"
        found = f"{len(chips)} x {chips[0]}: {means}"
        return Check(name="TPU", ok=True, level="optional", found=found)
    return Check(
        name="TPU",
        ok=False,
        level="optional",
        found="none: timing is predicted",
        fix="gcloud compute tpus tpu-vm create NAME --zone ZONE --accelerator-type v5litepod-1 "
        "--version v2-alpha-tpuv5-lite",
    )


def memory(root: Path = Path("/"), need_bytes: int = MEMORY_BYTES) -> Check:
    """Memory that can still be had: of the machine, or of the control group if that is tighter."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", (root / "proc/meminfo").read_text())
    free = int(found.group(1)) * 1024 if found else 0
    group = root / "sys/fs/cgroup"
    limit, used = group / "memory.max", group / "memory.current"
    if limit.is_file() and used.is_file() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    fix = f"fallocate -l {need_bytes} /swapfile && chmod 600 /swapfile && mkswap /swapfile && swapon /swapfile"
    return _amount("free memory", free, need_bytes, fix)


def disk(folder: Path, need_bytes: int = DISK_BYTES) -> Check:
    """Free space where the state folder is or would be."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    fix = f"export XDG_STATE_HOME=FOLDER_ON_A_LARGER_DISK  # {existing} is full"
    return _amount("free disk", shutil.disk_usage(existing).free, need_bytes, fix)


def _amount(name: str, have_bytes: int, need_bytes: int, fix: str) -> Check:
    ok = have_bytes >= need_bytes
    found = f"{have_bytes / 2**30:.1f} GiB (wants {need_bytes / 2**30:.0f})"
    return Check(name=name, ok=ok, level="recommended", found=found, fix="" if ok else fix)


def cores(need: int = CORES) -> Check:
    """CPU cores that this process may use."""
    have = len(os.sched_getaffinity(0))
    ok = have >= need
    fix = "" if ok else f"docker update --cpuset-cpus 0-{need - 1} CONTAINER"
    return Check(name="cores", ok=ok, level="recommended", found=f"{have} (wants {need})", fix=fix)


# --- content and state


def contents() -> list[Check]:
    """The plain-file content: each folder found and not empty, with what is in it."""
    counted: dict[str, Callable[[], str]] = {
        "workloads": lambda: _some(len(workloads.names()), "workloads"),
        "taxonomy": lambda: ", ".join(f"{len(taxonomy.rows(tpu))} cells for {tpu}" for tpu in taxonomy.tpus()),
        "placebo": lambda: _some(
            len(list((content.folder("taxonomy") / "placebo").glob("*.*"))), "files of other text"
        ),
        "agent_configs": lambda: _some(
            sum(path.is_dir() for path in content.folder("agent_configs").iterdir()), "clients"
        ),
    }
    return [_content(name, count) for name, count in counted.items()]


def _some(number: int, what: str) -> str:
    return f"{number} {what}" if number else ""


def _content(name: str, count: Callable[[], str]) -> Check:
    fix = _pip("--force-reinstall", "--no-deps", _source())
    try:
        found = count()
    except FileNotFoundError as error:
        return Check(name=name, ok=False, level="required", found=str(error), fix=fix)
    if not found:
        return Check(name=name, ok=False, level="required", found="the folder is empty", fix=fix)
    return Check(name=name, ok=True, level="required", found=found)


def writable(folder: Path) -> Check:
    """Whether the state folder can be made and written; leaves it there."""
    probe = folder / f".doctor-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("", encoding="utf-8")
        probe.unlink()
    except OSError as error:
        found = f"{folder}: {error.strerror}"
        owner = shlex.join(["sudo", "install", "-d", "-o", str(os.geteuid()), str(folder)])
        return Check(name="state folder", ok=False, level="required", found=found, fix=owner)
    return Check(name="state folder", ok=True, level="required", found=str(folder))
