"""The judge: one candidate in, one Evaluation out. Read `Judge.evaluate` from top to bottom.

The process that runs this never imports jax and never runs a candidate's Python: sandboxes trace, workers judge data.
"""

import contextlib
import datetime
import hashlib
import math
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio

from hawkeye_mcp.candidate import sandbox
from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import (
    ArtifactInfo,
    Audit,
    Correctness,
    Counter,
    Evaluation,
    Profile,
    Status,
    Timing,
)
from hawkeye_mcp.judge import hints
from hawkeye_mcp.judge.baseline import Baselines
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler import diagnosis
from hawkeye_mcp.profiler.timing import Cost, op_time, total_us
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Size, Workload

Progress = Callable[[str], None]

SEEDS = {"check": 3, "full": 1}
LIMITS_S = {
    "audit": 60.0,
    "plan": 60.0,
    "check": 180.0,
    "full": 900.0,
    "compile": 180.0,
    "predict": 240.0,
    "around": 120.0,
    "count": 240.0,
}


def _ignore(stage: str) -> None:
    pass


class Verdict(Exception):
    """Ends an evaluation early: the candidate is at fault, or the harness is."""

    def __init__(self, status: Status, message: str, next_step: str = "", compiler_message: str | None = None) -> None:
        super().__init__(message)
        self.status: Status = status
        self.message, self.compiler_message = message, compiler_message
        self.next_step = next_step or hints.hint(message) or _NEXT[status]


_NEXT: dict[Status, str] = {
    "correct": "Profile it to see what binds, change one thing, and evaluate again.",
    "incorrect": "Mend the result first: compare the worst element with what the reference computes there.",
    "rejected": "Do the work inside pl.pallas_call kernels, with nothing but plain operations around them.",
    "trace_error": "Mend the Python so that workload(...) can be traced on abstract arrays, then evaluate again.",
    "compile_error": "Change what the compiler refuses, then evaluate again.",
    "runtime_error": "Make the kernel need less memory or fewer steps, or do not index out of bounds, then evaluate again.",
    "timeout": "Remove endless or very long loops; the kernel must trace and run at the check size within its limits.",
    "harness_error": "This is not the kernel's fault: evaluate again; if it persists, run `hawkeye doctor`.",
}


@dataclass
class _Work:
    """What is known of a candidate so far."""

    source: str
    workload: Workload
    tpu: str
    progress: Progress
    stages_s: dict[str, float] = field(default_factory=dict)
    artifacts: dict[str, dict[str, str]] = field(default_factory=dict)
    verify_at: Size = "check"
    audit: Audit | None = None
    artifact: ArtifactInfo | None = None
    correctness: Correctness | None = None
    timing: Timing | None = None
    peaks: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self.stages_s[name] = round(self.stages_s.get(name, 0.0) + time.monotonic() - start, 4)


class Judge:
    """Pools of warm sandboxes and workers. Make one with `open_judge`."""

    def __init__(self, sandboxes: SandboxPool, pools: dict[str, WorkerPool]) -> None:
        self._sandboxes, self._pools = sandboxes, pools
        self._baselines = Baselines(pools["compiler"], versions())

    @property
    def isolation(self) -> str:
        return sandbox.isolation()

    async def warm(self, tpu: str) -> None:
        """Start what the first evaluation on this chip needs."""
        self._sandboxes.refill(CHIPS[tpu])
        async with anyio.create_task_group() as tasks:
            for kind in ("compiler", "profiler", "verifier"):
                for _ in range(self._pools[kind].size):
                    tasks.start_soon(self._warm_one, kind, {} if kind == "verifier" else {"tpu": tpu})

    async def _warm_one(self, kind: str, params: dict[str, str]) -> None:
        with contextlib.suppress(WorkerDied, WorkerError, WorkerTimeout):  # the evaluation will say what is wrong
            await self._pools[kind].call("warm", 60.0, **params)

    async def evaluate(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Evaluation:
        """Judge one kernel file for one workload on one chip.

        Nothing a candidate does raises: every fault is a status. Cancelling kills the work.
        """
        start = time.monotonic()
        work = _Work(source, workload, tpu, progress)
        compiler_message = None
        try:
            await self._trace(work)
            await self._audit(work)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._verify, work)
                tasks.start_soon(self._compile_and_predict, work)
            status, message, next_step = _conclude(work)
        except* Verdict as group:
            first = _first_verdict(group)
            status, message, next_step = first.status, first.message, first.next_step
            compiler_message = first.compiler_message
        except* (WorkerDied, WorkerError, WorkerTimeout, OSError) as errors:
            status, next_step = "harness_error", _NEXT["harness_error"]
            message = "; ".join(f"{type(e).__name__}: {e}" for e in _leaves(errors))[:2000]
        self._sandboxes.refill(CHIPS[tpu])
        work.stages_s["total"] = round(time.monotonic() - start, 4)
        if status != "correct" and work.timing:
            work.timing = work.timing.model_copy(update={"speedup": None})
        return Evaluation(
            id=uuid.uuid4().hex[:12],
            status=status,
            message=message,
            next_step=next_step,
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=hashlib.sha256(source.encode()).hexdigest(),
            isolation=self.isolation,
            artifact=work.artifact,
            audit=work.audit,
            correctness=work.correctness,
            timing=work.timing,
            diagnosis=diagnosis.diagnose(work.timing, workload, work.peaks) if work.timing and work.peaks else None,
            compiler_message=compiler_message,
            versions=versions(),
            stages_s=work.stages_s,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )

    async def profile(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Profile:
        """Look into a kernel without verifying it: predicted time, counters of the executed schedule, memory."""
        work = _Work(source, workload, tpu, progress)
        counters: list[Counter] = []
        memory: list[Counter] = []
        compiler_message = None
        status: Status = "correct"
        message, next_step = (
            "Profiled; correctness was not checked.",
            "Address the first finding, then evaluate.",
        )
        try:
            await self._trace(work)
            await self._audit(work)
            await self._compile_and_predict(work)
            with work.stage("count"):
                counters, memory = await self._count(work)
        except Verdict as verdict:
            status, message, next_step = verdict.status, verdict.message, verdict.next_step
            compiler_message = verdict.compiler_message
        except (WorkerDied, WorkerError, WorkerTimeout, OSError) as error:
            status, message, next_step = "harness_error", f"{error}"[:2000], _NEXT["harness_error"]
        self._sandboxes.refill(CHIPS[tpu])
        return Profile(
            status=status,
            message=message,
            next_step=next_step,
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=hashlib.sha256(source.encode()).hexdigest(),
            timing=work.timing,
            counters=counters,
            memory=memory,
            diagnosis=diagnosis.diagnose(work.timing, workload, work.peaks) if work.timing and work.peaks else None,
            compiler_message=compiler_message,
            versions=versions(),
        )

    # The stages, in order.

    async def _trace(self, work: _Work) -> None:
        chip = CHIPS[work.tpu]
        inputs = {size: work.workload.shapes(work.workload.inputs, size) for size in ("full", "check")}
        with work.stage("trace"):
            async with self._sandboxes.take(chip) as box:
                ended = await box.trace(work.source, inputs, chip)
        if ended.timed_out:
            raise Verdict(
                "timeout",
                f"Tracing did not end: {ended.why}.",
                _with_output(_NEXT["timeout"], ended.stderr_tail),
            )
        if ended.reply is None:
            raise Verdict(
                "trace_error",
                f"Tracing failed: {ended.why}.",
                _with_output(_NEXT["trace_error"], ended.stderr_tail),
            )
        reply = _Reply(ended.reply)
        if reply.failed:
            raise reply.failed.verdict("The file cannot be loaded")
        if failure := reply.failures.get("full"):
            raise failure.verdict("The workload cannot be traced at its full size")
        if "full" not in reply.artifacts:
            raise Verdict("trace_error", "The sandbox sent back no artifact.")
        work.artifacts = reply.artifacts
        work.verify_at = "check" if "check" in reply.artifacts else "full"

    async def _audit(self, work: _Work) -> None:
        with work.stage("audit"):
            for size in dict.fromkeys(("full", work.verify_at)):
                pair = work.artifacts[size]
                try:
                    reply = await self._pools["verifier"].call(
                        "audit",
                        LIMITS_S["audit"],
                        workload=work.workload.name,
                        size=size,
                        tpu=pair["tpu"],
                        cpu=pair["cpu"],
                    )
                except (WorkerDied, WorkerTimeout) as error:
                    raise Verdict("rejected", f"The artifact broke its reader: {error}") from error
                if "unreadable" in reply:
                    raise Verdict("rejected", f"At {size} size: {reply['unreadable']}")
                found = Audit.model_validate(reply["audit"])
                if size == "full":
                    work.audit = found
                    work.artifact = ArtifactInfo(sha256=reply["sha256"], bytes=reply["bytes"])
                if not found.ok:
                    raise Verdict("rejected", " ".join(found.problems))
                outputs = [(tuple(shape), dtype) for shape, dtype in reply["outputs"]]
                declared = work.workload.shapes(work.workload.outputs, size)
                if outputs != declared:
                    raise Verdict(
                        "incorrect",
                        f"At {size} size the workload returns {_shapes(outputs)} and must return {_shapes(declared)}.",
                        "Return outputs of exactly these shapes and dtypes, in this order.",
                    )

    async def _verify(self, work: _Work) -> None:
        size = work.verify_at
        tolerance = work.workload.tolerance
        with work.stage("verify"):
            try:
                reply = await self._pools["verifier"].call(
                    "verify",
                    LIMITS_S[size],
                    workload=work.workload.name,
                    size=size,
                    cpu=work.artifacts[size]["cpu"],
                    seeds=SEEDS[size],
                )
            except WorkerTimeout as error:
                raise Verdict(
                    "timeout", f"Running the kernel at {size} size took longer than {LIMITS_S[size]:g} s."
                ) from error
            except WorkerDied as error:
                raise Verdict(
                    "runtime_error", f"Running the kernel at {size} size ended the process: {error}"
                ) from error
        if "runtime_error" in reply:
            raise Verdict("runtime_error", f"Running the kernel at {size} size failed: {reply['runtime_error']}")
        work.correctness = Correctness(
            ok=reply["ok"],
            size=size,
            seeds=reply["seeds"],
            gate=f"{tolerance.metric} <= {tolerance.limit:g}",
            outputs=reply["outputs"],
            problem=reply["problem"],
        )

    async def _compile_and_predict(self, work: _Work) -> None:
        """Compile as it is and profile short grids side by side; a baseline unless one is known."""
        replies: dict[str, Any] = {}
        notes: list[str] = []

        async def compile_as_is() -> None:
            with work.stage("compile"):
                replies["compile"] = await self._compiled(work)

        async def predict() -> None:
            with work.stage("predict"):
                replies["kernels"] = await self._profiled(work, notes)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compile_as_is)
            tasks.start_soon(predict)
        compiled = replies["compile"]
        if "compiler" in compiled:
            text = compiled["compiler"]
            raise Verdict(
                "compile_error",
                f"The TPU compiler refuses the kernel: {_first_line(text)}",
                hints.hint(text) or "",
                text,
            )
        work.peaks = compiled["peaks"]
        kernels = replies["kernels"]
        costs = await self._costs(work, compiled["ops"], kernels, notes)
        rates = {key: work.peaks[key] for key in ("clock_hz", "hbm_bytes_per_s")}
        ops = [time for cost in costs if (time := op_time(cost, **rates)) and (time.us or time.hbm_floor_us)]
        complete = bool(kernels) and all(k["cycles"] is not None for k in kernels)
        lower_bound = any("lower bound" in note or "unknown" in note for note in notes)
        candidate_us = total_us(ops) if complete else None
        try:
            with work.stage("baseline"):
                baseline = await self._baselines.get(work.workload, work.tpu)
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            baseline = None
            notes.append(f"no baseline: the plain JAX does not compile for {work.tpu}: {_first_line(str(error))}")
        exact = baseline is not None and candidate_us is not None and not lower_bound
        work.timing = Timing(
            source="predicted" if candidate_us is not None else None,
            candidate_us=candidate_us,
            baseline_us=baseline.us if baseline else None,
            speedup=float(f"{baseline.us / candidate_us:.4g}") if exact and baseline and candidate_us else None,
            lower_bound=lower_bound,
            ops=ops,
            baseline_method=baseline.method if baseline else None,
            notes=notes,
        )

    async def _compiled(self, work: _Work) -> dict[str, Any]:
        try:
            return await self._pools["compiler"].call(
                "compile", LIMITS_S["compile"], artifact_b64=work.artifacts["full"]["tpu"], tpu=work.tpu
            )
        except WorkerTimeout as error:
            raise Verdict("timeout", f"The TPU compiler took longer than {LIMITS_S['compile']:g} s.") from error
        except WorkerDied as error:
            raise Verdict(
                "compile_error",
                f"The TPU compiler aborted on this kernel: {error}",
                compiler_message=str(error),
            ) from error

    async def _profiled(self, work: _Work, notes: list[str]) -> list[dict[str, Any]]:
        """Each kernel's plan with its cycles over the whole grid (None where the profile is unavailable)."""
        artifact = {"artifact_b64": work.artifacts["full"]["tpu"], "tpu": work.tpu}
        reply = await self._pools["profiler"].call("plan", LIMITS_S["plan"], **artifact)
        kernels: list[dict[str, Any]] = reply["kernels"]

        async def profile(kernel: dict[str, Any], number: int, at: int) -> None:
            point = kernel["points"][at]
            try:
                reply = await self._pools["profiler"].call(
                    "profile_point", LIMITS_S["predict"], **artifact, kernel=number, point=point
                )
                kernel["point_cycles"][at] = reply["cycles"]
            except (WorkerDied, WorkerTimeout, WorkerError) as error:
                notes.append(f"kernel {kernel['name']}: static profile unavailable: {str(error)[:300]}")

        async with anyio.create_task_group() as tasks:
            for number, kernel in enumerate(kernels):
                kernel["point_cycles"] = [None] * len(kernel["points"])
                steps = [math.prod(point) for point in kernel["points"]]
                for at in sorted(range(len(steps)), key=steps.__getitem__, reverse=True):
                    tasks.start_soon(profile, kernel, number, at)
        for kernel in kernels:
            known = [cycles for cycles in kernel["point_cycles"] if cycles is not None]
            whole = bool(known) and len(known) == len(kernel["points"])
            kernel["cycles"] = sum(w * c for w, c in zip(kernel["weights"], known, strict=True)) if whole else None
        return kernels

    async def _costs(
        self, work: _Work, ops: list[dict[str, Any]], kernels: list[dict[str, Any]], notes: list[str]
    ) -> list[Cost]:
        """Costs of the kernels from their profile, of everything around them from a profile in place or XLA's estimate."""
        costs = []
        placed = {op["point"]: op["on_chip"] for op in ops if op["mosaic"]}
        for number, kernel in enumerate(kernels):
            notes += kernel["notes"]
            method = "static_profile_sampled" if len(kernel["points"]) > 1 else "static_profile"
            if not kernel["calls"]:
                notes.append(f"kernel {kernel['name']}: runs in a loop of unknown length, so its time is a lower bound")
            costs.append(
                Cost(
                    kernel["name"],
                    "mosaic",
                    kernel["cycles"],
                    method,
                    _over_hbm(kernel, placed.get(number)),
                    max(kernel["calls"], 1),
                )
            )
        around = [op for op in ops if not op["mosaic"]]
        profiled: dict[str, Any] = {}
        if any(op["xla_cycles"] for op in around):
            try:
                with work.stage("predict"):
                    reply = await self._pools["profiler"].call(
                        "profile_around",
                        LIMITS_S["around"],
                        artifact_b64=work.artifacts["full"]["tpu"],
                        tpu=work.tpu,
                    )
                profiled = {op["name"]: op["profile_cycles"] for op in reply["ops"]}
            except (WorkerDied, WorkerTimeout, WorkerError) as error:
                notes.append(
                    f"XLA operations: static profile unavailable ({str(error)[:200]}); XLA's own estimate is used"
                )
        for op in around:
            cycles, method = profiled.get(op["name"]), "static_profile"
            if cycles is None:
                cycles, method = op["xla_cycles"], "xla_estimate"
            if not op["calls"]:
                notes.append(f"{op['name']}: runs an unknown number of times, so the time is a lower bound")
            costs.append(
                Cost(
                    op["name"],
                    "xla",
                    cycles,
                    method,
                    op["hbm_bytes"],
                    max(op["calls"], 1),
                    hidden=op["ahead"],
                )
            )
        return costs

    async def _count(self, work: _Work) -> tuple[list[Counter], list[Counter]]:
        try:
            reply = await self._pools["tracer"].call(
                "count", LIMITS_S["count"], artifact_b64=work.artifacts["full"]["tpu"], tpu=work.tpu
            )
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            if work.timing:
                work.timing.notes.append(f"counters unavailable: {str(error)[:500]}")
            return [], []
        return [Counter(**c) for c in reply["counters"]], [Counter(**c) for c in reply["memory"]]


@dataclass
class _Failure:
    stage: str
    text: str
    where: list[str]

    def verdict(self, what: str) -> Verdict:
        text = self.text if not self.where else f"{self.text} ({'; '.join(self.where[-2:])})"
        if self.stage == "lower":
            return Verdict("compile_error", f"{what} for the TPU: {_first_line(text)}", hints.hint(text) or "", text)
        if self.stage == "interpret":
            return Verdict(
                "trace_error",
                f"{what} for the CPU interpreter, which verifies it: {text[:1500]}",
                "Use operations that Pallas can interpret (pallas_call kernels, DMA, semaphores within one device).",
            )
        return Verdict("trace_error", f"{what}: {text[:1500]}", hints.hint(text) or "")


class _Reply:
    """A sandbox's reply, taken apart as the hostile data it is."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.artifacts: dict[str, dict[str, str]] = {}
        artifacts = reply.get("artifacts")
        for size in ("full", "check"):
            pair = artifacts.get(size) if isinstance(artifacts, dict) else None
            if isinstance(pair, dict) and isinstance(pair.get("tpu"), str) and isinstance(pair.get("cpu"), str):
                self.artifacts[size] = {"tpu": pair["tpu"], "cpu": pair["cpu"]}
        failures = reply.get("failures")
        self.failures = {
            size: found
            for size in ("full", "check")
            if isinstance(failures, dict) and (found := self._failure(failures.get(size)))
        }
        self.failed = self._failure(reply.get("failed"))

    @staticmethod
    def _failure(value: Any) -> _Failure | None:
        if not isinstance(value, dict):
            return None
        where = value.get("where")
        lines = [str(line)[:300] for line in where[:6]] if isinstance(where, list) else []
        return _Failure(str(value.get("stage")), str(value.get("text"))[:20_000], lines)


def _conclude(work: _Work) -> tuple[Status, str, str]:
    correctness, timing = work.correctness, work.timing
    assert correctness and timing
    if not correctness.ok:
        return "incorrect", f"Wrong at {correctness.size} size: {correctness.problem}", _NEXT["incorrect"]
    message = f"Correct on {correctness.seeds} fresh draws at {correctness.size} size ({correctness.gate})."
    if timing.candidate_us is None:
        return (
            "correct",
            f"{message} No time could be predicted: {'; '.join(timing.notes) or 'unknown'}.",
            _NEXT["correct"],
        )
    message += f" Predicted {timing.candidate_us:.5g} us on {work.tpu}"
    if timing.speedup is not None:
        message += (
            f", {timing.speedup:.3g} times the speed of the XLA baseline ({timing.baseline_us:.5g} us, predicted)"
        )
    elif timing.lower_bound:
        message += " at least; no speedup is claimed, because the cost depends on data"
    return "correct", message + ".", _NEXT["correct"]


def _over_hbm(kernel: dict[str, Any], on_chip: list[bool] | None) -> int | None:
    """Bytes that a kernel's windows move over HBM: not those of operands that XLA keeps in VMEM between kernels."""
    windows: list[int] | None = kernel["window_bytes"]
    if windows is None:
        return None
    if on_chip is None or len(on_chip) != len(windows):
        return sum(windows)
    return sum(moved for moved, kept in zip(windows, on_chip, strict=True) if not kept)


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _first_verdict(group: BaseExceptionGroup[Any]) -> Verdict:
    """Of several, the one the author should mend first."""
    order = ["rejected", "trace_error", "compile_error", "runtime_error", "timeout", "incorrect"]
    verdicts = [error for error in _leaves(group) if isinstance(error, Verdict)]
    return min(verdicts, key=lambda v: order.index(v.status) if v.status in order else len(order))


def _shapes(arrays: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:600]


def _with_output(text: str, tail: str) -> str:
    return f"{text} The end of what it printed: {tail[-600:].strip()}" if tail.strip() else text


@contextlib.asynccontextmanager
async def open_judge(*, warm: str | None = None) -> AsyncIterator[Judge]:
    """A judge whose processes all end with the context; `warm` names a chip to get ready for at once."""
    cores = os.cpu_count() or 1
    pools = {
        "verifier": WorkerPool("verifier", max(1, cores // 2)),
        "compiler": WorkerPool("compiler", max(1, cores // 2)),
        "profiler": WorkerPool("profiler", cores),
        "tracer": WorkerPool("tracer", 1),
    }
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks)
        judge = Judge(sandboxes, pools)
        try:
            if warm:
                tasks.start_soon(judge.warm, warm)
            yield judge
        finally:
            with anyio.CancelScope(shield=True):
                tasks.cancel_scope.cancel()
                await sandboxes.close()
                for pool in pools.values():
                    await pool.close()
