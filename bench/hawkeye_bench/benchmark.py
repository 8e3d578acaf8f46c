"""What an evaluation costs: `python -m hawkeye_bench.benchmark`. Prints and keeps figures, asserts nothing.

Drives the real server over stdio with correct kernels, each text distinct so that every one is judged.
Afterwards the same kernels are traced and compiled in one bare warm process, which is the least any judge
must do.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextResourceContents
from pydantic import BaseModel
from rich.console import Console

from hawkeye_bench.agents.session import CLIENT
from hawkeye_bench.processes import Footprint, footprint
from hawkeye_mcp import calllog
from hawkeye_mcp import workloads as workload_store
from hawkeye_mcp.evaluation import Evaluation, Versions
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.tools.answering import LONGEST_WAIT_S

WORKLOADS = ("8p_GEMM", "12p_RMSNorm", "50k_Matmul_GELU_Softmax")
TPU = "v5e"
_KERNELS = Path(__file__).resolve().parents[2] / "tests" / "kernels"
_CALL_TIMEOUT_S = 600.0
_REPEATS = 7
_PAUSE_S = 4.0

console = Console()


class Spread(BaseModel):
    """Seconds over several evaluations."""

    median: float
    p95: float
    count: int


class WorkloadFigures(BaseModel):
    """stages: by the judge's own clock; verify, compile and predict overlap, so they do not add up to the
    total.

    round_trip: as the client sees it, one evaluation straight after the other, so that the start of the next
    sandbox competes with it. unverified: the same pipeline without verification, in one warm judge, each after a
    pause as an agent makes. bare: trace, lower and compile alone, in one warm process. ratio: medians of
    unverified over bare.
    """

    round_trip: Spread
    stages: dict[str, Spread]
    unverified: Spread
    bare: Spread
    ratio: float
    not_correct: int


class Figures(BaseModel):
    command: str
    created: str
    machine: dict[str, str]
    versions: Versions
    tpu: str
    evaluations: int
    seconds: float
    workloads: dict[str, WorkloadFigures]
    footprints: list[Footprint]


class Sample(BaseModel):
    workload: str
    round_trip_s: float
    evaluation: Evaluation


def spread(values: list[float]) -> Spread:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return Spread(median=round(statistics.median(ordered), 3), p95=round(p95, 3), count=len(ordered))


async def soak(evaluations: int, kernels: dict[str, str], folder: Path) -> tuple[list[Sample], list[Footprint]]:
    """Judge `evaluations` distinct texts in one server, and look at its processes and files along the way.

    The first text of each workload only warms the server up and is not among the samples.
    """
    temporary, state, workspace = folder / "tmp", folder / "state", folder / "workspace"
    log = folder / "log" / "calls.jsonl"
    temporary.mkdir()
    workspace.mkdir()
    options = {
        "--condition": "none",
        "--tpu": TPU,
        "--state": state,
        "--workspace": workspace,
        "--call-log": log,
    }
    arguments = [str(part) for option in options.items() for part in option]
    env = {"TMPDIR": str(temporary)}
    if "XDG_CACHE_HOME" in os.environ:
        env["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
    server = StdioServerParameters(command=sys.executable, args=["-m", "hawkeye_mcp.server", *arguments], env=env)
    samples: list[Sample] = []
    looks: list[Footprint] = []
    with (folder / "server.log").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(server, errlog=errors), client_info=CLIENT) as client:
            for name, text in kernels.items():
                await _judge(client, name, f"{text}\n# warm-up\n")
            pid = calllog.read(log)[0]["pid"]
            every = max(1, evaluations // 10)
            for number in range(evaluations):
                if number % every == 0:
                    looks.append(await footprint(pid, number, {"state": state, "tmp": temporary}))
                name = WORKLOADS[number % len(WORKLOADS)]
                sample = await _judge(client, name, f"{kernels[name]}\n# {number}\n")
                samples.append(sample)
                said = f"{sample.evaluation.status}, {sample.round_trip_s:.2f} s"
                console.print(f"{number + 1}/{evaluations} {name}: {said}")
            looks.append(await footprint(pid, evaluations, {"state": state, "tmp": temporary}))
    return samples, looks


async def _judge(client: Client, workload: str, source: str) -> Sample:
    start = time.monotonic()
    arguments = {"workload": workload, "source": source, "wait_s": LONGEST_WAIT_S}
    result = await client.call_tool("evaluate_kernel", arguments, read_timeout_seconds=_CALL_TIMEOUT_S)
    answer = _fields(result)
    while answer.get("status") == "running":
        waiting = {"job_id": answer["job_id"], "action": "wait", "wait_s": LONGEST_WAIT_S}
        answer = _fields(await client.call_tool("job", waiting, read_timeout_seconds=_CALL_TIMEOUT_S))
    round_trip_s = time.monotonic() - start
    whole = (await client.read_resource(answer["full"])).contents[0]
    assert isinstance(whole, TextResourceContents)
    evaluation = Evaluation.model_validate_json(whole.text)
    return Sample(workload=workload, round_trip_s=round_trip_s, evaluation=evaluation)


def _fields(result: Any) -> dict[str, Any]:
    fields: dict[str, Any] = result.structured_content or {}
    if not fields:
        raise SystemExit(f"the server answered with an error: {result.content}")
    return fields


def bare(workload: str, text: str, tpu: str = TPU) -> list[float]:
    """Seconds to trace, lower and compile the kernel, each time anew, in one warm child process."""
    child = [sys.executable, "-m", "hawkeye_bench.bare_compile", workload, tpu, str(_REPEATS)]
    done = subprocess.run(child, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        raise SystemExit(f"the bare compile of {workload} failed:\n{done.stderr[-2000:]}")
    seconds: list[float] = json.loads(done.stdout)
    return seconds


async def unverified(kernels: dict[str, str]) -> dict[str, list[float]]:
    """Seconds from a kernel's text to its predicted time, in one warm judge, without verification."""
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    async with open_judge(warm=TPU) as judge:
        for number in range(_REPEATS + 1):
            for name, text in kernels.items():
                await anyio.sleep(_PAUSE_S)  # the next sandbox gets ready while an agent thinks
                start = time.monotonic()
                found = await judge.profile(f"{text}\n# {number}\n", workload_store.load(name), TPU, counters=False)
                if found.status != "profiled":
                    raise SystemExit(f"{name} could not be profiled: {found.message}")
                seconds[name].append(time.monotonic() - start)
    # The first ones warm the processes up.
    return {name: values[1:] for name, values in seconds.items()}


def figures_of(workload: str, samples: list[Sample], unverified_s: list[float], bare_s: list[float]) -> WorkloadFigures:
    mine = [sample for sample in samples if sample.workload == workload]
    good = [sample for sample in mine if sample.evaluation.status == "correct"]
    if not good:
        why = mine[0].evaluation.message if mine else "none was made"
        raise SystemExit(f"no evaluation of {workload} was correct: {why}")
    names = dict.fromkeys(name for sample in good for name in sample.evaluation.stages_s)
    without = spread(unverified_s)
    alone = spread(bare_s)
    return WorkloadFigures(
        round_trip=spread([sample.round_trip_s for sample in good]),
        stages={name: spread([s.evaluation.stages_s.get(name, 0.0) for s in good]) for name in names},
        unverified=without,
        bare=alone,
        ratio=round(without.median / alone.median, 2),
        not_correct=len(mine) - len(good),
    )


def machine() -> dict[str, str]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "cpu": cpu,
        "cores": str(os.cpu_count()),
        "memory": f"{gib:.1f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def markdown(figures: Figures) -> str:
    versions = figures.versions.model_dump()
    lines = [
        f"# What an evaluation costs ({figures.created})",
        "",
        f"Command: `{figures.command}`. TPU compiled for: {figures.tpu}.",
        f"Machine: {', '.join(f'{name} {value}' for name, value in figures.machine.items())}.",
        f"Versions: {', '.join(f'{name} {value}' for name, value in versions.items())}.",
        "",
        "| workload | judged | not correct | round trip, s | unverified, s | bare trace+compile, s | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in figures.workloads.items():
        seconds = [_shown(value) for value in (row.round_trip, row.unverified, row.bare)]
        cells = [name, str(row.round_trip.count), str(row.not_correct), *seconds, str(row.ratio)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Seconds are median (p95). Round trip: evaluations straight after one another. Unverified: the pipeline without",
        f"verification in a warm judge, each after {_PAUSE_S:g} s of pause. Ratio: medians of unverified over bare.",
    ]
    lines += ["", "Stages, seconds, median (p95); verify, compile and predict overlap.", ""]
    stages = list(dict.fromkeys(name for row in figures.workloads.values() for name in row.stages))
    lines += [f"| workload | {' | '.join(stages)} |", "|---" * (len(stages) + 1) + "|"]
    for name, row in figures.workloads.items():
        cells = [_shown(row.stages[stage]) if stage in row.stages else "" for stage in stages]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", f"One server over {figures.evaluations} evaluations ({figures.seconds:.0f} s):", ""]
    lines += ["| after | RSS of the tree, MiB | processes | open files | files in state | files in tmp |"]
    lines += ["|---|---|---|---|---|---|"]
    for look in figures.footprints:
        lines.append(
            f"| {look.after} | {look.rss_bytes / 2**20:.0f} | {look.processes} | {look.descriptors} "
            f"| {look.files['state']} | {look.files['tmp']} |"
        )
    return "\n".join(lines) + "\n"


def _shown(value: Spread) -> str:
    return f"{value.median} ({value.p95})"


def main(
    evaluations: Annotated[int, typer.Option(min=3, help="Evaluations in one server.")] = 200,
    out: Annotated[Path | None, typer.Option(help="JSON file; a .md is written beside it.", dir_okay=False)] = None,
    kernels: Annotated[Path, typer.Option(help="Folder with a correct kernel per workload.")] = _KERNELS,
) -> None:
    """Measure what an evaluation costs on this machine, and whether a server grows over many of them."""
    missing = [name for name in WORKLOADS if not (kernels / f"{name}.py").is_file()]
    if missing:
        raise typer.BadParameter(f"{kernels} has no kernel for {', '.join(missing)}", param_hint="--kernels")
    texts = {name: (kernels / f"{name}.py").read_text(encoding="utf-8") for name in WORKLOADS}
    target = out or Path("runs") / f"benchmark-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}.json"
    with tempfile.TemporaryDirectory(prefix="hawkeye-benchmark-") as folder:
        start = time.monotonic()
        samples, looks = anyio.run(soak, evaluations, texts, Path(folder))
        seconds = time.monotonic() - start
    without = anyio.run(unverified, texts)
    found = Figures(
        command=f"python -m hawkeye_bench.benchmark --evaluations {evaluations}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine(),
        versions=samples[0].evaluation.versions,
        tpu=TPU,
        evaluations=evaluations,
        seconds=round(seconds, 1),
        workloads={name: figures_of(name, samples, without[name], bare(name, texts[name])) for name in WORKLOADS},
        footprints=looks,
    )
    write_atomically(target, found.model_dump_json(indent=1))
    write_atomically(target.with_suffix(".md"), markdown(found))
    console.print(markdown(found), markup=False, soft_wrap=True)
    console.print(f"Kept in {target} and {target.with_suffix('.md')}")


if __name__ == "__main__":
    typer.run(main)
