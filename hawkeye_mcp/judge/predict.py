"""Time on the chip without the chip: compile the artifact as it is, profile its kernels, cost what is around them."""

import math
from collections.abc import Mapping
from typing import Any

import anyio

from hawkeye_mcp.evaluation import Counter, Timing
from hawkeye_mcp.judge import hints
from hawkeye_mcp.judge.baseline import Baselines
from hawkeye_mcp.judge.verdict import Verdict, first_line
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import Kind, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.profiler.timing import Cost, op_time, total_us

# Below this share of the hardware's floor a time cannot be that of the whole work; the rest is room for rounding.
IMPOSSIBLE = 0.9
# Operations around the kernels that together take less than this share of the kernels' time are not profiled.
NEGLIGIBLE = 0.01
LIMITS_S = {"compile": 180.0, "plan": 60.0, "predict": 240.0, "around": 120.0, "count": 240.0}


class Predictor:
    """Sets a candidate's timing; its pools are the judge's."""

    def __init__(self, pools: Mapping[Kind, WorkerPool], baselines: Baselines) -> None:
        self._pools, self._baselines = pools, baselines

    async def predict(self, work: Work) -> None:
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
                f"The TPU compiler refuses the kernel: {first_line(text)}",
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
            notes.append(f"no baseline: the plain JAX does not compile for {work.tpu}: {first_line(str(error))}")
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
        if exact:
            _refuse_the_impossible(work, kernels)

    async def _compiled(self, work: Work) -> dict[str, Any]:
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

    async def _profiled(self, work: Work, notes: list[str]) -> list[dict[str, Any]]:
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
        self, work: Work, ops: list[dict[str, Any]], kernels: list[dict[str, Any]], notes: list[str]
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
        kernel_cycles = sum((kernel["cycles"] or 0.0) * max(kernel["calls"], 1) for kernel in kernels)
        around_cycles = sum((op["xla_cycles"] or 0) * max(op["calls"], 1) for op in around)
        # XLA's estimates are not too low, so where they are next to nothing there is nothing to look into.
        if around_cycles > NEGLIGIBLE * kernel_cycles:
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

    async def count(self, work: Work) -> tuple[list[Counter], list[Counter]]:
        try:
            reply = await self._pools["tracer"].call(
                "count", LIMITS_S["count"], artifact_b64=work.artifacts["full"]["tpu"], tpu=work.tpu
            )
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            if work.timing:
                work.timing.notes.append(f"counters unavailable: {str(error)[:500]}")
            return [], []
        return [Counter(**c) for c in reply["counters"]], [Counter(**c) for c in reply["memory"]]


def _refuse_the_impossible(work: Work, kernels: list[dict[str, Any]]) -> None:
    """Reject a program that needs less time than its chip needs for the work: it does not do the work.

    It guards against programs that differ between the size (or the platform) that is verified and the one timed.

    Raises:
        Verdict: rejected.
    """
    workload, timing = work.workload, work.timing
    assert timing and timing.candidate_us
    eight_bit = any(kernel["eight_bit_matmul"] for kernel in kernels)
    flops_per_s = max(work.peaks["bf16_flops_per_s"], work.peaks["eight_bit_ops_per_s"] if eight_bit else 0.0)
    flop_floor_us = (workload.least_flops or workload.flops) / flops_per_s * 1e6
    hbm_floor_us = workload.least_bytes / work.peaks["hbm_bytes_per_s"] * 1e6
    floor_us, what = max((flop_floor_us, "its FLOPs at peak"), (hbm_floor_us, "its inputs and outputs over HBM"))
    if timing.candidate_us < IMPOSSIBLE * floor_us:
        raise Verdict(
            "rejected",
            f"At full size the program takes {timing.candidate_us:.4g} us (predicted), but {what} alone take {floor_us:.4g} us"
            f" on {work.tpu}: it does not do the work there.",
            "Compute the same thing at every size: check grids and index maps for sizes at which blocks are skipped.",
        )


def _over_hbm(kernel: dict[str, Any], on_chip: list[bool] | None) -> int | None:
    """Bytes that a kernel's windows move over HBM: not those of operands that XLA keeps in VMEM between kernels."""
    windows: list[int] | None = kernel["window_bytes"]
    if windows is None:
        return None
    if on_chip is None or len(on_chip) != len(windows):
        return sum(windows)
    return sum(moved for moved, kept in zip(windows, on_chip, strict=True) if not kept)
