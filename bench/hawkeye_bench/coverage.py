"""How often an interval holds the true effect: `python -m hawkeye_bench.coverage`. Why `statistics` has the one it has.

Synthetic experiments whose true mean is known, of several shapes. Prints a Markdown table, asserts nothing.
"""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from hawkeye_bench import statistics
from hawkeye_bench.statistics import Values

Draw = Callable[[np.random.Generator, tuple[int, int]], Values]

# Log ratios of a workload's two conditions, with their true mean.
SHAPES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.normal(0, 0.3, shape), 0.0),
    "skewed (exponential)": (lambda rng, shape: rng.exponential(0.3, shape), 0.3),
    "heavy tails (Student, 3 degrees)": (lambda rng, shape: 0.3 * rng.standard_t(3, shape), 0.0),
    "one workload in five gains": (
        lambda rng, shape: np.where(rng.random(shape) < 0.2, rng.normal(1, 0.3, shape), rng.normal(0, 0.1, shape)),
        0.2,
    ),
}
COMPARED: dict[str, dict[str, Any]] = {
    "percentile": {"expand": False},
    "percentile, expanded": {},
    "BCa": {"method": "BCa", "expand": False},
    "BCa, expanded": {"method": "BCa"},
}


def covered(low: Values, high: Values, truth: float) -> float:
    """Share of the intervals that hold the truth."""
    return float(np.mean((low <= truth) & (truth <= high)))


def main(
    experiments: Annotated[int, typer.Option(min=100, help="Synthetic experiments for each figure.")] = 1000,
    workloads: Annotated[str, typer.Option(help="Numbers of workloads, separated by commas.")] = "6,10,20,50",
    seed: Annotated[int, typer.Option(help="Of the experiments and the bootstrap.")] = 1,
) -> None:
    """Compare what intervals at 95 % cover."""
    error = 1.96 * np.sqrt(0.95 * 0.05 / experiments)
    print(
        f"Share of {experiments} experiments whose 95 % interval holds the truth; chance is +-{error:.3f} (2 sigma).\n"
    )
    print(f"| workloads | effects | {' | '.join(COMPARED)} |")
    print("|---:|---|" + "---:|" * len(COMPARED))
    for count in map(int, workloads.split(",")):
        for name, (draw, truth) in SHAPES.items():
            values = draw(np.random.default_rng([seed, count]), (experiments, count))
            figures = [
                covered(*statistics.interval_of_mean(values, seed=seed, resamples=1999, **options), truth)
                for options in COMPARED.values()
            ]
            print(f"| {count} | {name} | {' | '.join(f'{figure:.3f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
