"""What stands around a candidate's process: bubblewrap where it works, else resource limits alone."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Literal

from hawkeye_mcp import content
from hawkeye_mcp.candidate import tracer

Isolation = Literal["bubblewrap", "rlimits"]
SCRATCH_BYTES = 64 << 20
# What runs beside a candidate when it is sanitized; it imports nothing of the rest of the package either.
_SANITIZER = Path(__file__).parents[1] / "sanitizer" / "inside"
# What runs beside a port, or a file that stands for a program, when it is traced, and all that this imports.
_INTAKE = Path(__file__).parents[1] / "intake"
_BESIDE_A_PORT = ("port_inside.py", "stand_in_inside.py", "seeded.py", "structure.py", "emit.py", "emit_*.py")


@functools.cache
def isolation() -> Isolation:
    """The strongest isolation that works here, found by trying it."""
    if not shutil.which("bwrap"):
        return "rlimits"
    probe = [*_bubblewrap(), "--", sys.executable, "-I", "-c", "pass"]
    done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    return "bubblewrap" if done.returncode == 0 else "rlimits"


def becomes_another_user() -> bool:
    """Whether the tracer drops from root to a user of its own, for whom alone limits on processes then count."""
    return isolation() == "bubblewrap" and os.geteuid() == 0


def tracer_command() -> list[str]:
    """The command that runs the tracer inside the isolation; its one argument is still missing."""
    python = [sys.executable, "-I", "-B", "-X", "utf8"]
    if isolation() == "rlimits":
        return [*python, tracer.__file__]
    return [*_bubblewrap(), "--", *python, "/tracer.py"]


def sanitizer_folder() -> str:
    """Where a sandbox finds the package `inside`."""
    return str(_SANITIZER.parent) if isolation() == "rlimits" else "/sanitizer"


def port_folder() -> str:
    """Where a sandbox finds `hawkeye_mcp.intake.port_inside` and `stand_in_inside`."""
    return str(_INTAKE.parents[1]) if isolation() == "rlimits" else "/port"


def environment() -> dict[str, str]:
    """All that a candidate sees of the environment."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "JAX_PLATFORMS": "cpu",
        "LANG": "C.UTF-8",
        "JAX_TRACEBACK_FILTERING": "off",
        "OPENBLAS_NUM_THREADS": "1",  # tracing multiplies nothing, and threads take time to start
    }


def _bubblewrap() -> list[str]:
    command = ["bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:  # root sets up the mounts without a user namespace, then the tracer becomes another user
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user"]
    command += ["--die-with-parent", "--new-session", "--clearenv"]
    for name, value in environment().items():
        command += ["--setenv", name, value]
    scratch = ["--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs"]
    command += [*scratch, "/tmp"]  # first: Python itself may lie below it
    visible = [Path(sys.prefix), Path(sys.base_prefix), Path("/usr")]
    for path in map(Path, ("/bin", "/lib", "/lib64", "/lib32")):
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            visible.append(path)
    for path in dict.fromkeys(visible):
        for parent in (
            p for p in reversed(path.parents[:-1]) if p != Path("/tmp")
        ):  # bubblewrap's own are closed to the user the tracer becomes
            command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind", str(path), str(path)]
    for file in ("/etc/ld.so.cache", "/etc/localtime"):
        command += ["--ro-bind-try", file, file]
    for private in _private():
        if any(private.is_relative_to(path) for path in visible):
            command += ["--tmpfs", str(private)] if private.is_dir() else ["--ro-bind", "/dev/null", str(private)]
    return [
        *command,
        *("--proc", "/proc", "--dev", "/dev", *scratch, "/dev/shm"),
        *("--ro-bind", tracer.__file__, "/tracer.py"),
        *("--perms", "0755", "--dir", "/sanitizer", "--ro-bind", str(_SANITIZER), "/sanitizer/inside"),
        *_beside_a_port(),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
    ]


def _beside_a_port() -> list[str]:
    arguments = []
    for folder in ("/port", "/port/hawkeye_mcp", "/port/hawkeye_mcp/intake"):
        arguments += ["--perms", "0755", "--dir", folder]
    for file in sorted(file for pattern in _BESIDE_A_PORT for file in _INTAKE.glob(pattern)):
        arguments += ["--ro-bind", str(file), f"/port/hawkeye_mcp/intake/{file.name}"]
    return arguments


def _private() -> list[Path]:
    """Content and the judge's code, where they lie and wherever the installation has put copies or traces of them."""
    site_packages = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    installed = [path for folder in site_packages for path in folder.glob("*hawkeye*")]
    return sorted({*content.private_paths(), *installed})
