"""Whole folders of runs that never ran: records, call logs, kernel texts, transcripts and last judgements, in the form
in which the bench and the server leave them.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import profiles
from bench_fixtures import plan
from hawkeye_bench import runs as records
from hawkeye_bench.runs import Client, Run

from hawkeye_mcp import conditions, workloads
from hawkeye_mcp.calllog import CellRead
from hawkeye_mcp.evaluation import ArtifactInfo, Diagnosis, Evaluation
from hawkeye_mcp.judge.verdict import NEXT_STEP
from hawkeye_mcp.tools import profile_report, reports

CELLS = ("01_mxu_feed", "02_vmem_tile_layout", "04_async_pipeline", "05_fused_epilogue", "06_lane_reduction")
FAILURES = ("incorrect", "compile_error", "trace_error", "rejected", "runtime_error", "timeout")
BEGAN = datetime(2026, 11, 30, 12, tzinfo=UTC)

_KERNEL = '''"""Row-wise kernel, try {number} of {name}."""
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = {block}


def kernel(x_ref, out_ref):
    x = x_ref[...].astype(jnp.float32)
{body}
    out_ref[...] = x.astype(out_ref.dtype)


def workload(x):
    rows, columns = x.shape
    grid = (rows // BLOCK,)
    spec = pl.BlockSpec((BLOCK, columns), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=x)(x)
'''


def kernel(name: str, number: int) -> str:
    """A text that differs from that of the number before in a few lines."""
    body = "\n".join(f"    x = x * {1 + place / 8:.3f} + jax.lax.rsqrt(x)  # step {place}" for place in range(number))
    return _KERNEL.format(name=name, number=number, block=8 * 2 ** (number % 5), body=body)


def on_workloads(runs: Iterable[Run]) -> list[Run]:
    """The same runs with names of workloads that come with the program instead of w0, w1, ..."""
    names = workloads.names()
    return [run.model_copy(update={"workload": names[int(run.workload[1:])]}) for run in runs]


def write(
    out: Path, runs: Sequence[Run], *, tries: int = 6, seed: int = 1, dollars: bool = True, **of_plan: Any
) -> None:
    """A folder of these runs and its plan. tries: kernels of each run at most; dollars: whether the client tells them."""
    rng = np.random.default_rng(seed)
    fields = {
        "workloads": list(dict.fromkeys(run.workload for run in runs)),
        "conditions": sorted({run.condition for run in runs}),
        "reps": max(run.repeat for run in runs),
        "model": runs[0].model,
        "agent": runs[0].agent,
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(plan(**fields | of_plan).model_dump_json())
    for run in runs:
        write_run(out, run, rng, tries=tries, dollars=dollars)


def write_run(
    out: Path,
    run: Run,
    rng: np.random.Generator,
    *,
    tries: int = 6,
    dollars: bool = True,
    texts: Sequence[str] = (),
    message: str = "",
) -> Run:
    """One run's folder; returns the record as written. texts: its kernels in order instead of made-up ones; message:
    what the judge says of each instead."""
    texts = texts or [kernel(run.workload, number) for number in range(1, int(rng.integers(2, tries + 1)) + 1)]
    texts = [] if run.status == "no_kernel" else texts
    verdicts = _verdicts(run, len(texts), rng)
    clock, calls, transcript, readings = _Clock(), [], [], []
    folder = records.folder(out, run.workload, run.condition, run.repeat)
    (folder / "kernels").mkdir(parents=True)
    for number, (text, (status, speedup)) in enumerate(zip(texts, verdicts, strict=True)):
        transcript.append(clock.line(kind="model", **_usage(rng, dollars=dollars)))
        if conditions.shows(conditions.parse(run.condition), "taxonomy") and rng.random() < 0.6:
            read = {"row": str(rng.choice(CELLS)), "part": "guide"}
            readings.append(CellRead(**read))
            calls.append(clock.line(event="call_end", tool="read_taxonomy_cell", outcome="ok", cell_read=read))
        found = judged(run, text, status, speedup, message)
        (folder / "kernels" / f"{found.kernel_sha256}.py").write_text(text, encoding="utf-8")
        calls += [clock.line(event="submitted", kind="evaluate", **_subject(found)), clock.line(**_verdict(found))]
        condition = conditions.parse(run.condition)
        report = reports.of_evaluation(found, condition, job_id="job", cached=False, evaluations_left=None)
        transcript.append(_answer(clock, "evaluate_kernel", report.model_dump_json()))
        if number % 2 and status == "correct":
            look = profiles.matmul().model_copy(update={"kernel_sha256": found.kernel_sha256})
            calls.append(clock.line(**_verdict(found) | {"kind": "profile", "status": "profiled"}))
            told = profile_report.of_profile(look, condition, job_id="job", full="profile://job")
            transcript.append(_answer(clock, "profile", told.model_dump_json()))
    kept = _record(run, texts, verdicts, calls, transcript, readings)
    if kept.kernel_sha256:
        best = next(text for text in texts if _sha256(text) == kept.kernel_sha256)
        again = judged(kept, best, "correct" if run.status == "correct" else "incorrect", run.speedup, message)
        (folder / "judged_again.json").write_text(again.model_dump_json())
    for name, lines in (("calls.jsonl", calls), ("transcript.jsonl", transcript)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "run.json").write_text(kept.model_dump_json(), encoding="utf-8")
    return kept


def judged(run: Run, text: str, status: str, speedup: float | None, message: str = "") -> Evaluation:
    """What a judge could have said of a text."""
    correct = status == "correct"
    baseline_us = baseline_of(run.workload)
    us = baseline_us / (speedup or 1)
    # A quarter of what the bandwidth would allow: plausible under every roof.
    ops = profiles.op("row_kernel", us, us / 4)
    known = profiles.timing(us, ops, speedup=speedup, source=run.source or "predicted", baseline_us=baseline_us)
    return Evaluation(
        id=_sha256(text)[:12],
        status=status,
        message=message
        or (f"Correct on 3 fresh draws (R <= 0.01), {speedup:.3g} times XLA." if correct else f"{status}."),
        next_step=NEXT_STEP[status],
        workload=run.workload,
        tpu=run.tpu,
        kernel_sha256=_sha256(text),
        isolation="bubblewrap",
        artifact=ArtifactInfo(sha256="a" * 64, bytes=1234),
        timing=known if correct else None,
        diagnosis=Diagnosis(findings=["Most of the time HBM is waited for."]) if correct else None,
        compiler_message="Mosaic failed to compile: vector.shape_cast of 8x128" if status == "compile_error" else None,
        versions=profiles.VERSIONS,
        created=BEGAN.isoformat(),
    )


def baseline_of(workload: str) -> float:
    """Microseconds: six times what the work takes at a v5e's peaks, or some figure for a name that is no workload's."""
    if workload not in workloads.names():
        return 1_000.0
    return 6e6 * max(workloads.load(workload).flops / 197e12, workloads.load(workload).least_bytes / 819e9)


def _verdicts(run: Run, number: int, rng: np.random.Generator) -> list[tuple[str, float | None]]:
    """Statuses and speedups that rise to the run's own at the last kernel."""
    found: list[tuple[str, float | None]] = []
    for place in range(number):
        last = place == number - 1
        if run.status == "no_correct_kernel" or (not last and rng.random() < 0.4):
            found.append((str(rng.choice(FAILURES)), None))
        else:
            found.append(("correct", (run.speedup or 1.0) * (1.0 if last else float(rng.uniform(0.4, 0.98)))))
    return found


def _record(
    run: Run,
    texts: Sequence[str],
    verdicts: Sequence[tuple[str, float | None]],
    calls: Iterable[dict[str, Any]],
    transcript: Iterable[dict[str, Any]],
    readings: list[CellRead],
) -> Run:
    events = list(transcript)
    models = [line for line in events if line.get("kind") == "model"]
    best = texts[-1] if texts and verdicts[-1][0] == "correct" else None
    costs = [line["cost_usd"] for line in models if "cost_usd" in line]
    return run.model_copy(
        update={
            "evaluations": len(texts),
            "cells_read": readings,
            "productive_turns": len(texts) + len(readings),
            "turns": len(models),
            "prompt_tokens": sum(line["prompt_tokens"] for line in models) if models else None,
            "completion_tokens": sum(line["completion_tokens"] for line in models) if models else None,
            "cost_usd": sum(costs) if costs else None,
            "kernel_sha256": _sha256(best) if best else None,
            "first_speedup": verdicts[-1][1] if best else None,
            "candidate_us": baseline_of(run.workload) / run.speedup if run.speedup else None,
            "baseline_us": baseline_of(run.workload) if run.speedup else None,
            "client": Client(name="client", version="1.2", command=["client", "--model", run.model]),
            "seconds": 60.0 * len(texts),
        }
    )


def _verdict(found: Evaluation) -> dict[str, Any]:
    timing = found.timing
    return {
        "event": "verdict",
        "kind": "evaluate",
        "cached": False,
        "status": found.status,
        "evaluation_id": found.id,
        "source": timing.source if timing else None,
        "speedup": timing.speedup if timing else None,
        "speedup_interval": timing.speedup_interval if timing else None,
        "candidate_us": timing.candidate_us if timing else None,
        "lower_bound": False,
        "baseline_lower_bound": False,
    } | _subject(found)


def _subject(found: Evaluation) -> dict[str, str]:
    return {"kernel_sha256": found.kernel_sha256, "workload": found.workload, "tpu": found.tpu}


def _usage(rng: np.random.Generator, *, dollars: bool) -> dict[str, Any]:
    tokens = {"prompt_tokens": int(rng.integers(3_000, 9_000)), "completion_tokens": int(rng.integers(500, 2_500))}
    return tokens | ({"cost_usd": sum(tokens.values()) / 1e5} if dollars else {})


def _answer(clock: "_Clock", tool: str, text: str) -> dict[str, Any]:
    return clock.line(kind="tool_result", tool=tool, is_error=False, text=text)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Clock:
    """Lines a few seconds apart."""

    def __init__(self) -> None:
        self._now = BEGAN

    def line(self, **facts: Any) -> dict[str, Any]:
        self._now += timedelta(seconds=7)
        return {"time": self._now.isoformat(timespec="milliseconds"), **facts}
