"""The judge: one candidate in, one Evaluation out. Read `Judge.evaluate` from top to bottom.

The process that runs this never imports jax and never runs a candidate's Python: sandboxes trace, workers judge data.
"""

import contextlib
import datetime
import functools
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import anyio

from hawkeye_mcp import attached
from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import Limits, Sandbox, Sandboxes, SandboxPool, SharedSandbox
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.evaluation import (
    ArtifactInfo,
    Audit,
    Correctness,
    Diagnosis,
    Evaluation,
)
from hawkeye_mcp.judge import conclusion, look, tracing
from hawkeye_mcp.judge.baseline import Baselines
from hawkeye_mcp.judge.conclusion import Outcome
from hawkeye_mcp.judge.measure import Measurer
from hawkeye_mcp.judge.outlining import GoesOn
from hawkeye_mcp.judge.predict import Predictor
from hawkeye_mcp.judge.verdict import NEXT_STEP, SAME_WORK, Verdict, first_verdict, leaves
from hawkeye_mcp.judge.work import Progress, Work
from hawkeye_mcp.judge.workers import (
    Kind,
    WorkerDied,
    WorkerError,
    WorkerPool,
    WorkerTimeout,
    WorkerUnavailable,
    discard_left_folders,
    memory_bytes,
)
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.mosaic_eval.run import bound
from hawkeye_mcp.profile import Finding, Profile
from hawkeye_mcp.sanitizer import run as sanitizing
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.sanitizer.run import Sanitizer
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Size, Workload

logger = logging.getLogger(__name__)

SEEDS = {"check": 3, "full": 1}
GRACE_S = 5.0
LIMITS_S = {"audit": 60.0, "check": 180.0, "full": 600.0}


def _ignore(stage: str) -> None:
    pass


@dataclass(frozen=True)
class Examined:
    """profile: its status is "incorrect" or worse if results are wrong. seeds: draws on which they were right."""

    profile: Profile
    seeds: int


@dataclass
class Known:
    """What was found of programs that were run for verification. lock: held while one is, so that none is run twice."""

    programs: dict[str, Correctness] = field(default_factory=dict)
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class Judge:
    """Pools of warm sandboxes and workers. Make one with `open_judge`."""

    def __init__(self, sandboxes: Sandboxes, pools: Mapping[Kind, WorkerPool]) -> None:
        self._sandboxes, self._pools = sandboxes, pools
        self._predictor = Predictor(pools, Baselines(pools["compiler"], versions()))
        self._measurer = Measurer(attached.tpus())
        self._sanitizer = Sanitizer(sandboxes, pools["verifier"])

    @property
    def isolation(self) -> str:
        return isolation.isolation()

    @contextlib.asynccontextmanager
    async def of_one_author(self) -> AsyncIterator["Judge"]:
        """The same workers, and one sandbox for all kernels: see `SharedSandbox`. Not for several kernels at once."""
        shared = SharedSandbox(self._sandboxes.limits)
        try:
            yield Judge(shared, self._pools)
        finally:
            await shared.close()

    async def warm(self, tpu: str) -> None:
        """Start what the first evaluation on this chip needs."""
        self._sandboxes.refill(CHIPS[tpu])
        async with anyio.create_task_group() as tasks:
            kinds: tuple[Kind, ...] = ("compiler", "profiler", "verifier")
            for kind in kinds:
                for _ in range(self._pools[kind].size):
                    tasks.start_soon(self._warm_one, kind, {} if kind == "verifier" else {"tpu": tpu})

    async def _warm_one(self, kind: Kind, params: dict[str, str]) -> None:
        with contextlib.suppress(
            WorkerDied, WorkerError, WorkerTimeout, WorkerUnavailable
        ):  # the evaluation will say what is wrong
            await self._pools[kind].call("warm", 60.0, **params)

    async def evaluate(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Evaluation:
        """Judge one kernel file for one workload on one chip.

        Nothing a candidate does raises: every fault is a status. Cancelling kills the work.
        """
        work = Work(source, workload, tpu, progress)

        async def stages() -> Outcome:
            async with self._traced(work) as box:
                await self._audit(work)
                sanitize = functools.partial(self._sanitize, box)
                await _side_by_side(work, sanitize, self._verify_both, self._predictor.predict)
            if work.correctness and work.correctness.ok:
                await self._measurer.measure(work)
            return conclusion.conclude(work)

        start = time.monotonic()
        outcome = await self._outcome(work, stages)
        work.stages_s["total"] = round(time.monotonic() - start, 4)
        if outcome.status != "correct" and work.timing:
            work.timing = work.timing.model_copy(update={"speedup": None})
        return Evaluation(
            id=uuid.uuid4().hex[:12],
            status=outcome.status,
            message=outcome.message,
            next_step=outcome.next_step,
            workload=workload.name,
            tpu=tpu,
            kernel_sha256=sha256(source),
            isolation=self.isolation,
            artifact=work.artifact,
            audit=work.audit,
            correctness=work.correctness,
            sanitized=work.sanitized,
            timing=work.timing,
            predicted=work.predicted,
            diagnosis=_told(look.findings(work)) if work.timing else None,
            compiler_message=outcome.compiler_message,
            versions=versions(),
            stages_s=work.stages_s,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        )

    async def profile(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        counters: bool = True,
        goes_on: GoesOn | None = None,
        progress: Progress = _ignore,
    ) -> Profile:
        """Look into a kernel without verifying it: predicted time, counters of the executed schedule, memory;
        measured time where this machine has the TPU.

        Without `counters` it answers with the time alone, some seconds sooner. goes_on: asked once the compiler took the
        kernel, with an estimate; False ends it there, without a time.
        """
        work = Work(source, workload, tpu, progress, verified=False, counted=counters)

        async def stages() -> Outcome:
            await self._trace(work)
            await self._audit(work)
            if goes_on and not goes_on(await self._predictor.outline(work)):
                return Outcome("profiled", "Compiled and estimated; no time was predicted.", "")
            await self._predictor.predict(work)
            if counters:
                with work.stage("count"):
                    self._predictor.count(work)
            await self._measurer.measure(work)
            message = "Profiled; whether its results are correct was not checked."
            if work.timing and work.timing.measurement:
                message += f" {conclusion.measured(work.timing, work.timing.measurement)}"
            return Outcome(
                "profiled",
                message,
                "Address the first finding, then evaluate.",
            )

        return self._profile(work, await self._outcome(work, stages))

    async def examine(self, source: str, workload: Workload, second: Workload, tpu: str, known: Known) -> Examined:
        """A profile of a kernel, after its results were found right at the check sizes of two workloads.

        second: the same problem at another size. known: what was found of programs that were run for verification,
        filled here; the same program is not run again, though another chip's kernel is the same for the interpreter.
        """
        work = Work(source, workload, tpu, _ignore, counted=True, compared=False)
        other = Work(source, second, tpu, _ignore)

        async def stages() -> Outcome:
            await self._trace(work, other)
            for each in (work, other):
                await self._audit(each)
                program = f"{each.workload.reference} {sha256(each.artifacts[each.verify_at]['cpu'])}"
                async with known.lock:
                    each.correctness = known.programs.get(program)
                    if not each.correctness:
                        await self._verify(each)
                    assert each.correctness
                    if not each.correctness.ok:
                        return conclusion.wrong(each.correctness)
                    known.programs[program] = each.correctness
            await self._predictor.predict(work)
            self._predictor.count(work)
            return Outcome("profiled", "Right at both sizes, and profiled.", "")

        outcome = await self._outcome(work, stages)
        seeds = sum(each.correctness.seeds for each in (work, other) if each.correctness and each.correctness.ok)
        return Examined(self._profile(work, outcome), seeds)

    def _profile(self, work: Work, outcome: Outcome) -> Profile:
        predicted = work.predicted or work.timing
        return Profile(
            status=outcome.status,
            message=outcome.message,
            next_step=outcome.next_step,
            workload=work.workload.name,
            tpu=work.tpu,
            kernel_sha256=sha256(work.source),
            isolation=self.isolation,
            artifact=work.artifact,
            predicted_us=predicted.candidate_us if predicted else None,
            timing=predicted,
            measured=work.timing if work.predicted else None,
            hbm_temp_bytes=work.hbm_temp_bytes,
            **look.fields(work),
            compiler_message=outcome.compiler_message,
            versions=versions(),
        )

    async def sanitize(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Sanitized:
        """What a TPU would do wrong with a kernel; no verdict. Its processes start and end with the call."""
        return await sanitizing.sanitize(source, workload, tpu, progress=progress)

    async def _outcome(self, work: Work, stages: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Run the stages; whatever ends them early becomes a status."""
        outcome: Outcome | None = None
        try:
            outcome = await stages()
        except* Verdict as group:
            verdict = first_verdict(group)
            outcome = Outcome(verdict.status, verdict.message, verdict.next_step, verdict.compiler_message)
        except* Exception as group:
            logger.error("the harness failed on %s", work.workload.name, exc_info=group)
            message = "; ".join(f"{type(error).__name__}: {error}" for error in leaves(group))[:2000]
            outcome = outcome or Outcome("harness_error", message, NEXT_STEP["harness_error"])
        finally:
            self._sandboxes.refill(CHIPS[work.tpu])
        assert outcome
        return outcome

    # The stages, in order; prediction has a room of its own.

    async def _trace(self, work: Work, other: Work | None = None) -> None:
        """other: of the same kernel, for another workload; only verified, at its check size."""
        async with self._traced(work, other):
            pass

    @contextlib.asynccontextmanager
    async def _traced(self, work: Work, other: Work | None = None) -> AsyncIterator[Sandbox]:
        """As `_trace`; the sandbox stays open, with the kernel in it."""
        sizes: tuple[Size, ...] = ("full", "check") if work.verified else ("full",)
        inputs = {str(size): work.workload.shapes(work.workload.inputs, size) for size in sizes}
        if other:
            inputs["other"] = other.workload.shapes(other.workload.inputs, "check")
        chip = CHIPS[work.tpu]
        async with contextlib.AsyncExitStack() as held:
            with work.stage("trace"):
                for _ in range(2):  # an end by a kill says nothing of the candidate, which gets one more
                    box = await held.enter_async_context(self._sandboxes.take(chip))
                    ended = await box.trace(work.source, inputs, chip, interpreted=work.verified)
                    if not ended.killed:
                        break
            artifacts = tracing.artifacts(ended, inputs.keys())
            if other:
                other.artifacts = dict.fromkeys(("full", "check"), artifacts.pop("other"))
            work.artifacts = artifacts
            work.verify_at = "check" if "check" in artifacts else "full"
            yield box

    async def _audit(self, work: Work) -> None:
        with work.stage("audit"):
            for size in dict.fromkeys(("full", work.verify_at)):
                pair = work.artifacts[size]
                try:
                    reply = await self._pools["verifier"].call(
                        "audit",
                        LIMITS_S["audit"],
                        workload=work.workload.reference,
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

    async def _sanitize(self, box: Sandbox, work: Work) -> None:
        """No verdict depends on it: what says what was seen is the kernel's own process."""
        with work.stage("sanitize"):
            try:
                work.sanitized = await self._sanitizer.beside(box, work.source, work.workload, work.tpu)
            except Exception:
                logger.warning("the sanitizer failed on %s", work.workload.name, exc_info=True)

    async def _verify_both(self, work: Work) -> None:
        """The artifact for the CPU, then that for the TPU: nothing else says that the two are one computation."""
        await self._verify(work)
        if not (work.correctness and work.correctness.ok):
            return
        if work.verify_at == "check":
            await self._bind(work)
        else:  # who fails to trace at the check size must not thereby look as if this had been seen to
            note = "not run: the workload cannot be traced at its check size, and to run it at full size would take too long"
            work.correctness = work.correctness.model_copy(update={"on_tpu": "exhausted", "on_tpu_note": note})
        await self._compare_work(work)

    async def _compare_work(self, work: Work) -> None:
        """Of the programs themselves: the same kinds of work on both platforms, and no less of it at the full size."""
        assert work.correctness
        with work.stage("census"):
            try:
                reply = await self._pools["verifier"].call(
                    "same_work",
                    LIMITS_S["audit"],
                    workload=work.workload.reference,
                    artifacts={size: work.artifacts[size] for size in ("full", "check") if size in work.artifacts},
                )
            except (WorkerDied, WorkerError, WorkerTimeout) as error:
                reply = {"problem": None, "note": f"its work was not compared with what was verified: {error}"}
        if reply["problem"]:
            raise Verdict("rejected", reply["problem"], SAME_WORK)
        if reply["note"]:
            note = f"{work.correctness.on_tpu_note or work.correctness.on_tpu}; {reply['note']}"
            work.correctness = work.correctness.model_copy(update={"on_tpu_note": note})

    async def _bind(self, work: Work) -> None:
        """Run the kernels of the artifact for the TPU operation by operation, on draws of their own."""
        assert work.correctness
        with work.stage("bind"):
            found = await bound(
                self._pools["verifier"], work.workload, "check", work.artifacts["check"]["tpu"], seeds=1
            )
        if found.outcome == "differs":
            raise Verdict(
                "rejected",
                f"The kernel is right in the interpreter and not on the TPU. {found.message}",
                "Both must be the same computation: write every element that is read, and do not let the code ask where it "
                "runs.",
            )
        if found.outcome == "fault":
            raise Verdict(
                "incorrect",
                f"The kernel is right in the interpreter and at fault on the TPU. {found.message}",
                NEXT_STEP["incorrect"],
            )
        note = None if found.outcome == "agrees" else found.message
        work.correctness = work.correctness.model_copy(update={"on_tpu": found.outcome, "on_tpu_note": note})

    async def _verify(self, work: Work) -> None:
        size = work.verify_at
        tolerance = work.workload.tolerance
        with work.stage("verify"):
            try:
                reply = await self._pools["verifier"].call(
                    "verify",
                    LIMITS_S[size],
                    workload=work.workload.reference,
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


def _told(findings: list[Finding]) -> Diagnosis:
    rows = dict.fromkeys(finding.taxonomy_row for finding in findings if finding.taxonomy_row)
    return Diagnosis(findings=[finding.text for finding in findings], taxonomy_rows=list(rows))


async def _side_by_side(work: Work, *stages: Callable[[Work], Awaitable[None]]) -> None:
    """Run stages at the same time. Once one has a verdict the others get a moment to end by themselves: cutting one
    off costs its warm worker, which the next evaluation would have to wait for.

    Raises:
        Verdict: of the stages that have one, the one to mend first.
    """
    verdicts: list[Verdict] = []
    async with anyio.create_task_group() as tasks:

        async def run(stage: Callable[[Work], Awaitable[None]]) -> None:
            try:
                await stage(work)
            except* Verdict as group:
                verdicts.append(first_verdict(group))
                tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, anyio.current_time() + GRACE_S)

        for stage in stages:
            tasks.start_soon(run, stage)
    if verdicts:
        raise first_verdict(ExceptionGroup("", verdicts))


def _shapes(arrays: list[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays) or "nothing"


@contextlib.asynccontextmanager
async def open_judge(*, warm: str | None = None, limits: Limits | None = None) -> AsyncIterator[Judge]:
    """A judge whose processes all end with the context.

    warm: a chip to get ready for at once. limits: what a candidate may use while it is traced.
    """
    discard_left_folders()
    # A worker takes up to a gigabyte and a core; more than these are not busy in one evaluation.
    most = max(1, min(len(os.sched_getaffinity(0)), memory_bytes() // (4 << 30)))
    sizes: dict[Kind, int] = {
        "verifier": min(2, -(-most // 2)),
        "compiler": min(2, -(-most // 2)),
        "profiler": min(4, most),
    }
    pools = {kind: WorkerPool(kind, size) for kind, size in {**sizes, "tracer": 1, "walker": 1}.items()}
    async with anyio.create_task_group() as tasks:
        sandboxes = SandboxPool(tasks, limits=limits)
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
