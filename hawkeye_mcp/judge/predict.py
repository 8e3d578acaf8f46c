"""Time on the chip without the chip: compile the artifact as it is, profile its kernels, cost what is around them."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from hawkeye_mcp.evaluation import OpTime, Timing
from hawkeye_mcp.judge import hints
from hawkeye_mcp.judge.baseline import Baseline, Baselines
from hawkeye_mcp.judge.outlining import Outline, outline
from hawkeye_mcp.judge.plans import plans
from hawkeye_mcp.judge.reason import reason, some
from hawkeye_mcp.judge.verdict import Verdict, first_line
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import Kind, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler import interval, totals
from hawkeye_mcp.profiler.timing import MODELS, Cost, Pipeline, corrected_us, floor_us, op_time, total_us

# Below this share of the hardware's floor a time cannot be that of the whole work; the rest is room for rounding.
IMPOSSIBLE = 0.9
# Operations around the kernels are not profiled if XLA estimates that together they take less than this share of the
# kernels' time: its estimates of copies can be far too low.
NEGLIGIBLE = 0.003
# A look at what is executed takes seconds for each 100,000 cycles. Grids of up to so many steps are looked at at once,
# longer ones only if they prove to take no longer than so many cycles.
COUNTED_STEPS = 256
COUNTED_CYCLES = 600_000
LIMITS_S = {"compile": 180.0, "predict": 240.0, "whole": 120.0, "around": 120.0, "count": 240.0}


@dataclass
class _Doubts:
    """What a reader of the time must know; lower_bound: some of it makes the time a lower bound."""

    notes: list[str] = field(default_factory=list)
    lower_bound: bool = False

    def at_least(self, note: str) -> None:
        self.notes.append(note)
        self.lower_bound = True


class Predictor:
    """Sets a candidate's timing; its pools are the judge's."""

    def __init__(self, pools: Mapping[Kind, WorkerPool], baselines: Baselines) -> None:
        self._pools, self._baselines = pools, baselines

    async def outline(self, work: Work) -> Outline:
        """Compile as it is and estimate: nothing is profiled. `predict` goes on from there."""
        await self._compile(work)
        compiled = _accepted(work)
        try:
            with work.stage("estimate"):
                return outline(compiled, await plans(self._pools["profiler"], work), work.tpu)
        except (WorkerDied, WorkerTimeout, WorkerError):
            return Outline(None)  # `predict` meets the same and says what it is

    async def predict(self, work: Work) -> None:
        """Compile as it is and profile short grids side by side; a baseline unless one is known."""
        found: list[dict[str, Any]] = []
        doubts = _Doubts()

        async def predict() -> None:
            with work.stage("predict"):
                found.extend(await self._profiled(work, doubts))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._compile, work)
            tasks.start_soon(predict)
        compiled = _accepted(work)
        work.peaks, work.hbm_temp_bytes = compiled["peaks"], compiled["hbm_temp_bytes"]
        if compiled["unread"]:
            doubts.at_least(
                f"the compiled program cannot be read ({first_line(compiled['unread'])}), so the time is that of its kernels"
            )
        kernels = work.kernels = found
        costs = await self._costs(work, compiled["ops"], kernels, doubts)
        model = MODELS[work.tpu]
        clock_hz, hbm_bytes_per_s = work.peaks["clock_hz"], work.peaks["hbm_bytes_per_s"]
        times = [op_time(cost, model, clock_hz=clock_hz, hbm_bytes_per_s=hbm_bytes_per_s) for cost in costs]
        ops = [time for time in times if time and (time.us or time.hbm_floor_us)]
        complete = bool(kernels) and all(k["cycles"] is not None for k in kernels)
        predicted_us = total_us(ops, model) if complete else None
        least_us, ceiling = work.floor = _floor_us(work, kernels)
        candidate_us = predicted_us
        impossible = False
        if predicted_us is not None and predicted_us < least_us:
            impossible = not doubts.lower_bound and predicted_us < IMPOSSIBLE * least_us
            if not impossible:
                candidate_us = least_us
                doubts.notes.append(f"raised from {predicted_us:g} us to the {least_us:g} us that {ceiling} take")
        baseline = await self._baseline(work, doubts)
        baseline_us = corrected_us(baseline.us, baseline.ops, model) if baseline else None
        speedup = None
        if baseline_us and candidate_us and not doubts.lower_bound:
            speedup = float(f"{baseline_us / candidate_us:.4g}")
        # nothing is known of how far above its lower bound a time may lie
        candidate_interval = None if doubts.lower_bound else _interval(candidate_us, ops, work.tpu, least_us)
        baseline_interval = _interval(baseline_us, baseline.ops if baseline else [], work.tpu, 0.0)
        speedup_interval = None
        if speedup and baseline_us and candidate_us and baseline_interval and candidate_interval:
            speedup_interval = interval.speedup_interval(
                baseline_us, baseline_interval, candidate_us, candidate_interval
            )
        if note := interval.borrowed(work.tpu, [*ops, *(baseline.ops if baseline else [])]):
            doubts.notes.append(note)
        work.timing = Timing(
            source="predicted" if candidate_us is not None else None,
            candidate_us=candidate_us,
            baseline_us=baseline_us,
            speedup=speedup,
            candidate_interval_us=candidate_interval,
            baseline_interval_us=baseline_interval,
            speedup_interval=speedup_interval,
            indistinguishable=bool(speedup_interval and speedup_interval[0] <= 1 <= speedup_interval[1]),
            lower_bound=doubts.lower_bound,
            baseline_lower_bound=bool(baseline and baseline.lower_bound),
            ops=ops,
            baseline_method=baseline.method if baseline else None,
            notes=doubts.notes + [f"baseline: {note}" for note in (baseline.notes if baseline else [])],
        )
        if impossible:
            raise Verdict(
                "rejected",
                f"At full size the program takes {predicted_us:.4g} us (predicted), but {ceiling} alone take"
                f" {least_us:.4g} us on {work.tpu}: it does not do the work there.",
                "Compute the same thing at every size: check grids and index maps for sizes at which blocks are skipped.",
            )

    async def _baseline(self, work: Work, doubts: _Doubts) -> Baseline | None:
        if not work.compared:
            return None
        try:
            with work.stage("baseline"):
                return await self._baselines.get(work.workload, work.tpu)
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            doubts.notes.append(f"no baseline: the plain JAX does not compile for {work.tpu}: {reason(error)}")
            return None

    async def _compile(self, work: Work) -> None:
        if work.compiled is not None:
            return
        try:
            with work.stage("compile"):
                work.compiled = await self._pools["compiler"].call(
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

    async def _profiled(self, work: Work, doubts: _Doubts) -> list[dict[str, Any]]:
        """Each kernel's plan with its cycles over the whole grid (None where the profile is unavailable)."""
        artifact = {"artifact_b64": work.artifacts["full"]["tpu"], "tpu": work.tpu}
        try:
            kernels = await plans(self._pools["profiler"], work)
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            doubts.notes.append(f"static profile unavailable: {reason(error)}")
            return []
        faults: list[list[Exception]] = [[] for _ in kernels]

        async def profile(kernel: dict[str, Any], number: int, at: int) -> None:
            point = kernel["points"][at]
            short = math.prod(point) <= COUNTED_STEPS
            if work.counted and short and await self._traced(work, kernel, number, at):
                return
            try:
                reply = await self._pools["profiler"].call(
                    "profile_point", LIMITS_S["predict"], **artifact, kernel=number, point=point, **_kind(kernel, at)
                )
                kernel["point_cycles"][at] = reply["cycles"]
            except (WorkerDied, WorkerTimeout, WorkerError) as error:
                faults[number].append(error)
                return
            if work.counted and not short and reply["cycles"] is not None:
                if reply["cycles"] <= COUNTED_CYCLES:
                    await self._traced(work, kernel, number, at)
                else:
                    kernel["uncounted"] = (
                        f"a run of {reply['cycles']:,} cycles that no shorter grid stands for is too long to walk through"
                    )

        async with anyio.create_task_group() as tasks:
            for number, kernel in enumerate(kernels):
                kernel["point_cycles"] = [None] * len(kernel["points"])
                kernel["looks"] = [None] * len(kernel["points"])
                steps = [math.prod(point) for point in kernel["points"]]
                for at in sorted(range(len(steps)), key=steps.__getitem__, reverse=True):
                    tasks.start_soon(profile, kernel, number, at)
        for number, kernel in enumerate(kernels):
            died = any(isinstance(fault, WorkerDied) for fault in faults[number])
            if died and len(kernel["points"]) > 1 and not any(kernel.get("kinds") or ()):
                await self._whole_instead(kernel, number, artifact, doubts)
            known = [cycles for cycles in kernel["point_cycles"] if cycles is not None]
            whole = bool(known) and len(known) == len(kernel["points"])
            kernel["cycles"] = sum(w * c for w, c in zip(kernel["weights"], known, strict=True)) if whole else None
            if kernel["points"] and not whole:
                why = reason(faults[number][0]) if faults[number] else "libtpu noted no cycles with the kernel"
                doubts.notes.append(f"kernel {kernel['name']}: static profile unavailable: {why}")
        return kernels

    async def _whole_instead(
        self, kernel: dict[str, Any], number: int, artifact: dict[str, str], doubts: _Doubts
    ) -> None:
        """Profile the grid as it is, where libtpu ends on a shorter one; nothing changes if it ends on both."""
        with contextlib.suppress(WorkerDied, WorkerTimeout, WorkerError):
            reply = await self._pools["profiler"].call(
                "profile_point", LIMITS_S["whole"], **artifact, kernel=number, point=kernel["grid"]
            )
            kernel |= {"points": [kernel["grid"]], "weights": [1.0], "point_cycles": [reply["cycles"]], "looks": [None]}
            doubts.notes.append(
                f"kernel {kernel['name']}: libtpu does not profile a part of its run, so the whole was profiled"
            )

    async def _traced(self, work: Work, kernel: dict[str, Any], number: int, at: int) -> bool:
        """Whether one compilation gave a point's cycles; if all is well, also what is done in them."""
        steps = [math.prod(point) for point in kernel["points"]]
        # of the longest grid, and of each kind of step, the schedule is looked at too, which costs more
        longest = steps.index(max(steps)) == at or (bool(_kind(kernel, at)) and steps[at] == max(steps))
        kind: Kind = "tracer" if longest else "walker"
        try:
            reply = await self._pools[kind].call(
                "count_point",
                LIMITS_S["count"],
                artifact_b64=work.artifacts["full"]["tpu"],
                tpu=work.tpu,
                kernel=number,
                point=kernel["points"][at],
                **_kind(kernel, at),
            )
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            kernel["uncounted"] = reason(error)
            return False
        kernel["point_cycles"][at], kernel["looks"][at] = reply["cycles"], reply["look"]
        if reply["note"]:
            kernel["uncounted"] = reply["note"]
        return reply["cycles"] is not None

    async def _costs(
        self, work: Work, ops: list[dict[str, Any]], kernels: list[dict[str, Any]], doubts: _Doubts
    ) -> list[Cost]:
        """Costs of the kernels from their profile, of everything around them from a profile in place or XLA's estimate."""
        costs = []
        work.kernel_calls = []
        for number, kernel in enumerate(kernels):
            for note in kernel["notes"]:
                doubts.at_least(note) if kernel["lower_bound"] else doubts.notes.append(note)
            method = "static_profile_sampled" if len(kernel["points"]) > 1 else "static_profile"
            # a kernel may stand in several places; the compiled program knows more of its loops than the artifact
            places = [op for op in ops if op["mosaic"] and op["point"] == number]
            runs = [(op["calls"], op["on_chip"]) for op in places] or [(kernel["calls"], None)]
            kernel["runs"] = runs
            kernel["vmem_bytes"] = max((op["vmem_bytes"] or 0 for op in places), default=None)
            if not all(calls for calls, _ in runs):
                doubts.at_least(
                    f"kernel {kernel['name']}: runs in a loop of unknown length, so its time is a lower bound"
                )
            for calls, on_chip in runs:
                bytes_over_hbm = _over_hbm(kernel, on_chip)
                costs.append(
                    Cost(
                        kernel["name"], "mosaic", kernel["cycles"], method, bytes_over_hbm, max(calls, 1),
                        pipeline=_pipeline(kernel, bytes_over_hbm), by_hand=kernel["moves_by_hand"],
                    )
                )  # fmt: skip
            work.kernel_calls.append(sum(max(calls, 1) for calls, _ in runs))
        kernel_cycles = sum((cost.cycles or 0.0) * cost.calls for cost in costs)
        around = [op for op in ops if not op["mosaic"]]
        profiled = await self._profiled_around(work, around, kernel_cycles, doubts)
        unknown, endless = [], []
        for op in around:
            cycles, method = profiled.get(op["name"]), "static_profile"
            if cycles is None:
                cycles, method = op["xla_cycles"], "xla_estimate"
            if cycles is None and not op["small"] and not op["ahead"]:
                unknown.append(op["name"])
            if not op["calls"]:
                endless.append(op["name"])
            costs.append(
                Cost(
                    op["name"],
                    "xla",
                    cycles,
                    method,
                    op["hbm_bytes"],
                    max(op["calls"], 1),
                    hidden=op["ahead"],
                    product=op["sort"] == "product",
                )
            )
        if unknown:
            doubts.at_least(
                f"XLA operations without profile or estimate ({some(unknown)}): they count with their HBM bytes alone,"
                " so the time is a lower bound"
            )
        if endless:
            doubts.at_least(
                f"XLA operations that run an unknown number of times ({some(endless)}): they count once, so the time is"
                " a lower bound"
            )
        return costs

    async def _profiled_around(
        self, work: Work, around: list[dict[str, Any]], kernel_cycles: float, doubts: _Doubts
    ) -> dict[str, Any]:
        """Cycles by name of the operations around the kernels; of none where they cannot matter or the profile fails."""
        estimated = sum((op["xla_cycles"] or 0) * max(op["calls"], 1) for op in around)
        guessed = any(op["xla_cycles"] is None and not op["small"] and not op["ahead"] for op in around)
        if not guessed and estimated <= NEGLIGIBLE * kernel_cycles:
            return {}
        try:
            with work.stage("predict"):
                reply = await self._pools["profiler"].call(
                    "profile_around",
                    LIMITS_S["around"],
                    artifact_b64=work.artifacts["full"]["tpu"],
                    tpu=work.tpu,
                )
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            doubts.notes.append(
                f"XLA operations: static profile unavailable ({reason(error)}); XLA's own estimates are used"
            )
            return {}
        return {op["name"]: op["profile_cycles"] for op in reply["ops"]}

    def count(self, work: Work) -> None:
        """Set what the executed schedules show, from the looks that predicting left."""
        if not work.timing:
            return
        runs = [
            totals.run(kernel, calls, work.source)
            for kernel, calls in zip(work.kernels, work.kernel_calls, strict=True)
        ]
        sized = True
        for kernel, run in zip(work.kernels, runs, strict=True):
            if run is None:
                why = kernel.get("uncounted") or "its cycles are unknown"
                work.timing.notes.append(f"kernel {kernel['name']}: counters unavailable: {why}")
                continue
            if kernel["lower_bound"]:
                work.timing.notes.append(
                    f"kernel {kernel['name']}: what it executes depends on data; its counters are of the run that the"
                    " compiler's profile supposes"
                )
            if kernel["window_bytes"] is None:  # blocks that depend on data, which the notes say already
                sized = False
            elif run.counts["unsized_transfers"] and not kernel.get("moved_bytes"):
                sized = False
                work.timing.notes.append(
                    f"kernel {kernel['name']}: the sizes of some transfers are computed at run time, so there are no"
                    " counters of bytes"
                )
        counted = [run for run in runs if run is not None]
        if not counted or len(counted) < len(runs):  # totals over some of the kernels would pass for those of all
            work.look = {"kernels": [run.profile if run else None for run in runs]}
            return
        counters = totals.counters(
            counted,
            work.peaks,
            sum(op.us for op in work.timing.ops if op.kind == "mosaic"),  # of all calls
            eight_bit=all(kernel["eight_bit_matmul"] for kernel in work.kernels),
            sized=sized,
        )
        work.look = {
            "kernels": [run.profile for run in counted],
            "counters": counters,
            "executed_bundles": counters["executed_bundles"].total,
            "stall_cycles": counters["stall_cycles"].total,
            "spills": counters["vector_spills"].total,
        }


def _accepted(work: Work) -> dict[str, Any]:
    """What the compiler replied.

    Raises:
        Verdict: it refused.
    """
    compiled = work.compiled
    assert compiled is not None
    if "compiler" in compiled:
        text = compiled["compiler"]
        raise Verdict(
            "compile_error",
            f"The TPU compiler refuses the kernel: {first_line(text)}",
            hints.hint(text) or "",
            text,
        )
    return compiled


def _kind(kernel: dict[str, Any], at: int) -> dict[str, Any]:
    """What to ask of a point beside its grid: the kind of its steps, if the kernel has several."""
    kind = (kernel.get("kinds") or [None] * len(kernel["points"]))[at]
    return {"kind": kind} if kind else {}


def _floor_us(work: Work, kernels: list[dict[str, Any]]) -> tuple[float, str]:
    """The least time that the chip needs for the work, and which ceiling says so.

    A program far below it does not do the work: it differs between the size (or the platform) that is verified and
    the one timed.
    """
    eight_bit = any(kernel["eight_bit_matmul"] for kernel in kernels)
    return floor_us(
        work.workload.least_flops or work.workload.flops,
        work.workload.least_bytes,
        flops_per_s=max(work.peaks["bf16_flops_per_s"], work.peaks["eight_bit_ops_per_s"] if eight_bit else 0.0),
        hbm_bytes_per_s=work.peaks["hbm_bytes_per_s"],
    )


def _over_hbm(kernel: dict[str, Any], on_chip: list[bool] | None) -> int | None:
    """Bytes that a kernel moves over HBM: not those of operands that XLA keeps in VMEM between kernels."""
    windows: list[int] | None = kernel["window_bytes"]
    if windows is None:
        return None
    own: int = kernel["own_hbm_bytes"]
    if on_chip is None or len(on_chip) != len(windows):
        return sum(windows) + own
    return sum(moved for moved, kept in zip(windows, on_chip, strict=True) if not kept) + own


def _pipeline(kernel: dict[str, Any], bytes_over_hbm: int | None) -> Pipeline | None:
    """What moves during each of a kernel's steps, unless XLA keeps some of that in VMEM."""
    known = kernel["pipeline"]
    if known is None or bytes_over_hbm is None or bytes_over_hbm < 0.98 * sum(kernel["window_bytes"]):
        return None
    return Pipeline(tuple((b, n, steps) for b, n, steps in known["transfers"]), known["edge_bytes"])


def _interval(us: float | None, ops: list[OpTime], tpu: str, least_us: float) -> tuple[float, float] | None:
    """Where a predicted time may lie, and never below what the chip needs."""
    found = interval.program_interval_us(us, ops, tpu) if us else None
    if found is None:
        return None
    low, high = (float(f"{end:.4g}") for end in found)
    return max(low, min(least_us, us or least_us)), high
