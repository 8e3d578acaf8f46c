"""What a profile costs beyond compiling once: `python -m hawkeye_bench.profile_cost`. Prints figures, asserts nothing.

One warm judge profiles each kernel several times, each text distinct, with a pause before each as an agent makes. The same
kernels are traced and compiled in one bare warm process, which is the least that any look must do.
"""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.table import Table

from hawkeye_bench.benchmark import bare, spread
from hawkeye_bench.processes import tree
from hawkeye_mcp import workloads as workload_store
from hawkeye_mcp.judge.evaluate import Judge, open_judge

GOAL_S = 3.0  # median beyond compiling once
_KERNELS = Path(__file__).resolve().parents[2] / "tests" / "kernels"
_PAUSE_S = 4.0

console = Console()


async def profiled(
    judge: Judge, workload: str, text: str, tpu: str, repeats: int
) -> tuple[list[float], list[float], str]:
    """Seconds of each profile, by the clock and of processors in workers, a first one that warms the processes up left
    out, and why counters are missing if so."""
    seconds: list[float] = []
    busy: list[float] = []
    why = ""
    for number in range(repeats + 1):
        await anyio.sleep(_PAUSE_S)
        start, before = time.monotonic(), processor_s(os.getpid())
        found = await judge.profile(f"{text}\n# {number}\n", workload_store.load(workload), tpu)
        seconds.append(time.monotonic() - start)
        busy.append(sum(processor_s(os.getpid()).values()) - sum(before.values()))
        if not found.counters:
            notes = found.timing.notes if found.timing else [found.message]
            why = next((note for note in notes if "counters" in note), notes[-1] if notes else found.message)
    return seconds[1:], busy[1:], why


def processor_s(root: int) -> dict[int, float]:
    """Seconds of processor time that each process of a tree has used."""
    found = {}
    for pid in tree(root):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def peak_bytes(root: int) -> list[tuple[str, int]]:
    """The most memory that each process of a tree has held so far: what it is, bytes."""
    found = []
    for pid in tree(root):
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
        except OSError:  # it has ended
            continue
        peak = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)
        if "hawkeye_mcp.judge.service" in words:
            found.append((words[words.index("hawkeye_mcp.judge.service") + 1], peak))
    return found


async def measure(kernels: dict[str, str], tpu: str, repeats: int) -> None:
    rows = Table(
        "workload",
        "profile, s: median (p95)",
        "of processors, s",
        "compiling once, s",
        "beyond it, s",
        "counters missing because",
    )
    with tempfile.TemporaryDirectory(prefix="hawkeye-profile-cost-") as folder:
        tempfile.tempdir = folder  # so that what profiles leave can be counted
        async with open_judge(warm=tpu) as judge:
            for workload, text in kernels.items():
                seconds, busy, why = await profiled(judge, workload, text, tpu, repeats)
                took, alone = spread(seconds), spread(await anyio.to_thread.run_sync(bare, workload, text, tpu))
                beyond = took.median - alone.median
                over = " over the goal" if beyond > GOAL_S else ""
                used = f"{spread(busy).median:.2f}"
                rows.add_row(
                    workload, f"{took.median} ({took.p95})", used, f"{alone.median}", f"{beyond:.2f}{over}", why
                )
                console.print(f"{workload}: {took.median} s, {beyond:.2f} s beyond compiling once{over}", markup=False)
            left = [
                path for path in Path(folder).glob("hawkeye-tracer-*/*") if path.is_file() and path.name != "stderr"
            ]
            peaks = sorted(peak_bytes(os.getpid()), key=lambda item: -item[1])
        remaining = [path for path in Path(folder).rglob("*") if path.is_file()]
    console.print(rows)
    console.print(f"{tpu}, {os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f} over the last five minutes")
    console.print("Most memory held: " + ", ".join(f"{kind} {peak >> 20} MiB" for kind, peak in peaks), markup=False)
    console.print(f"Dumps left between profiles: {len(left)}; files left at the end: {len(remaining)}")


def main(
    workloads: Annotated[list[str] | None, typer.Argument(help="Those that have a kernel, if none is named.")] = None,
    tpu: Annotated[str, typer.Option()] = "v5e",
    repeats: Annotated[int, typer.Option(min=1)] = 5,
    kernels: Annotated[Path, typer.Option(help="Folder with a correct kernel per workload.")] = _KERNELS,
) -> None:
    """Measure what a profile costs on this machine."""
    known = {path.stem for path in kernels.glob("*.py")} & set(workload_store.names())
    names = workloads or sorted(known)
    if unknown := set(names) - known:
        raise typer.BadParameter(f"{kernels} has no kernel for {', '.join(sorted(unknown))}")
    texts = {name: (kernels / f"{name}.py").read_text(encoding="utf-8") for name in names}
    anyio.run(measure, texts, tpu, repeats)


if __name__ == "__main__":
    typer.run(main)
