"""Records of agents that never ran, with an effect that is known."""

import math
from typing import Any

import numpy as np
from hawkeye_bench.runs import Run


def run(workload: str = "w0", condition: str = "none", repeat: int = 1, **changed: Any) -> Run:
    """A correct run with a measured speedup of 1; a failed one has no speedup and no source."""
    fields: dict[str, Any] = {
        "workload": workload,
        "condition": condition,
        "repeat": repeat,
        "tpu": "v5e",
        "agent": "minimal",
        "model": "scripted",
        "status": "correct",
        "stop": "finished",
        "isolation": "bubblewrap",
        "speedup": 1.0,
        "source": "measured",
        "started": "2026-11-30T12:00:00+00:00",
        "seconds": 1.0,
    }
    if changed.get("status", "correct") != "correct":
        fields |= {"speedup": None, "source": None}
    return Run(**fields | changed)


def experiment(
    seed: int,
    workloads: int = 12,
    repeats: int = 3,
    *,
    effect: float = 1.3,
    sd_pairs: float = 0.2,
    success: tuple[float, float] = (0.9, 0.8),
    treatment: str = "taxonomy",
    control: str = "none",
    **changed: Any,
) -> list[Run]:
    """Runs of a treatment that multiplies speedups by `effect`; success: shares of correct runs with and without it."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(workloads):
        level = rng.normal(math.log(1.2), 0.4)
        for repeat in range(1, repeats + 1):
            for condition, gain, share in ((treatment, math.log(effect), success[0]), (control, 0.0, success[1])):
                speedup = math.exp(level + gain + rng.normal(0, sd_pairs / math.sqrt(2)))
                outcome = {"speedup": speedup} if rng.random() < share else {"status": "no_correct_kernel"}
                runs.append(run(f"w{number}", condition, repeat, **outcome | changed))
    return runs
