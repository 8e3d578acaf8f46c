"""The first rung of a search: how long a compiled kernel may take, before anything of its schedule is known.

For each kernel its matmuls at the peak, its transfers step by step and what a step costs; for what is around it XLA's
own estimate. Vector work, waits inside a step and spills are left out, so it ranks kernels that differ in their blocks;
no verdict rests on it, and it is called an estimate wherever it is shown.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hawkeye_mcp.profiler.anatomy import Anatomy
from hawkeye_mcp.profiler.timing import MODELS, Cost, Pipeline, op_time, total_us
from hawkeye_mcp.profiler.view import matmul_rate


@dataclass(frozen=True)
class Outline:
    """Of a program that the compiler took. estimate_us: None where traffic depends on data."""

    estimate_us: float | None


GoesOn = Callable[[Outline], bool]


def outline(compiled: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]], tpu: str) -> Outline:
    """compiled: what the compiler's worker replies. kernels: the profiler's plan of each, see `static_profile`."""
    peaks = compiled["peaks"]
    costs = []
    for number, kernel in enumerate(kernels):
        if kernel["window_bytes"] is None:
            return Outline(None)
        places = [op for op in compiled["ops"] if op["mosaic"] and op["point"] == number]
        costs += [_kernel(kernel, calls, peaks) for calls in [op["calls"] for op in places] or [kernel["calls"]]]
    for op in compiled["ops"]:
        if not op["mosaic"]:
            costs.append(
                Cost(
                    op["name"], "xla", op["xla_cycles"], "xla_estimate", op["hbm_bytes"], max(op["calls"], 1),
                    hidden=op["ahead"], product=op["sort"] == "product",
                )
            )  # fmt: skip
    model, rates = MODELS[tpu], {name: peaks[name] for name in ("clock_hz", "hbm_bytes_per_s")}
    times = [op_time(cost, model, **rates) for cost in costs]
    return Outline(total_us([time for time in times if time], model))


def _kernel(kernel: Mapping[str, Any], calls: int, peaks: Mapping[str, float]) -> Cost:
    """Where a loop of unknown length hides what a step computes, it counts with its transfers alone."""
    anatomy = Anatomy.model_validate(kernel["anatomy"])
    steps = math.prod(kernel["grid"])
    cycles = float(steps)  # at least one each
    if anatomy.step:
        rates = [matmul_rate(peaks, matmul.lhs, matmul.rhs) for matmul in anatomy.matmuls]
        per_cycle = min(rates, default=peaks["bf16_flops_per_s"]) / peaks["clock_hz"]
        cycles = max(cycles, (steps - anatomy.idle_steps) * anatomy.step.flops / per_cycle)
    known = kernel["pipeline"]
    pipeline = known and Pipeline(tuple((b, n, each) for b, n, each in known["transfers"]), known["edge_bytes"])
    moved = sum(kernel["window_bytes"]) + kernel["own_hbm_bytes"]
    return Cost(kernel["name"], "mosaic", cycles, "estimate", moved, max(calls, 1), pipeline=pipeline)
