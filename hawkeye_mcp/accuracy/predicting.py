"""From a row's features to microseconds, by the same functions that the judge uses."""

import math
from collections.abc import Callable
from typing import Any

from hawkeye_mcp.accuracy.shipped import Features
from hawkeye_mcp.profiler import interval
from hawkeye_mcp.profiler.interval import Class
from hawkeye_mcp.profiler.timing import Cost, Model, Pipeline, op_time, total_us


def costs(features: Features) -> list[Cost]:
    """Of the kernels, from their profiled kinds of step, then of what XLA does around them."""
    found = [
        Cost(
            kernel["name"],
            "mosaic",
            cycles(kernel),
            "static_profile_sampled",
            kernel["window_bytes"] + kernel["by_hand_bytes"],
            max(kernel["calls"], 1),
            pipeline=Pipeline(
                tuple((moved, transfers, steps) for moved, transfers, steps in kernel["transfers"]),
                kernel["first_bytes"] + kernel["last_bytes"],
            ),
            by_hand=kernel["by_hand_bytes"] > 0,
        )
        for kernel in features["kernels"]
    ]
    for op in features["ops"]:
        if op["mosaic"]:
            continue
        estimated = None if op["ahead"] else op["xla_cycles"]
        found.append(
            Cost(
                op["name"], "xla", estimated, "xla_estimate", op["hbm_bytes"], max(op["calls"], 1), hidden=op["ahead"],
                product=op["sort"] == "product",
            )
        )  # fmt: skip
    return found


def cycles(kernel: dict[str, Any]) -> float:
    """Of the whole grid: as if every step were of the commonest kind, then each other kind's difference per step."""
    commonest, *others = kernel["jobs"]
    total = sum(weight * value for weight, value in zip(kernel["weights"], commonest["cycles"], strict=True))
    sizes = [math.prod(point) for point in commonest["points"]]
    longest = sizes.index(max(sizes))
    for kind in others:
        total += kind["count"] * (kind["cycles"][0] - commonest["cycles"][longest]) / sizes[longest]
    return float(total)


def predicted_us(features: Features, model: Model) -> float:
    return predictor(features)(model)


def predictor(features: Features) -> Callable[[Model], float]:
    """Of one row, for many models."""
    clock_hz, hbm_bytes_per_s = features["peaks"]["clock_hz"], features["peaks"]["hbm_bytes_per_s"]
    known = costs(features)

    def predict(model: Model) -> float:
        times = [op_time(cost, model, clock_hz=clock_hz, hbm_bytes_per_s=hbm_bytes_per_s) for cost in known]
        return total_us([time for time in times if time], model)

    return predict


def xla_share(features: Features) -> float:
    """Of the time by the datasheet, that of operations outside kernels."""
    rates = {key: features["peaks"][key] for key in ("clock_hz", "hbm_bytes_per_s")}
    times = [time for cost in costs(features) if (time := op_time(cost, **rates))]
    total = sum(time.us for time in times)
    return sum(time.us for time in times if time.kind == "xla") / total if total else 0.0


def class_of(features: Features, model: Model) -> Class:
    """Of the operations that take most of the time; kernels whose steps are too short to hide latency apart."""
    rates = {key: features["peaks"][key] for key in ("clock_hz", "hbm_bytes_per_s")}
    spent: dict[Class, float] = {}
    for cost in costs(features):
        time = op_time(cost, model, **rates)
        if time is None:
            continue
        cls = interval.class_of(time)
        if cls == "large_blocks" and cost.pipeline and cost.cycles is not None:
            if cost.cycles / cost.pipeline.steps < 2 * model.latency_cycles:
                cls = "small_blocks"
        spent[cls] = spent.get(cls, 0.0) + time.us
    return max(spent, key=lambda cls: spent[cls])
