"""Which points to look at, in which order, and which of them are worth a full prediction.

Points are drawn without repeats. Successive halving and the tree-structured Parzen estimator are optuna's, told of each
point through its ask-and-tell interface. The same seed and the same results give the same points, which is what lets a
killed search go on: it runs again, and what was looked at answers from the store.
"""

import math
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hawkeye_mcp.autotune.model import Strategy
from hawkeye_mcp.autotune.space import BadSpace, Point, Space

if TYPE_CHECKING:
    from optuna import Trial

PROMOTED = 3  # one of so many goes from the first rung to the second
DEFAULT_POINTS = 64
_REPEATS = 16  # of known points that a sampler may suggest in a row before one is drawn


def number(strategy: Strategy, wanted: int | None, allowed: int) -> int:
    """How many points a search looks at.

    Raises:
        BadSpace: a grid is to leave some out.
    """
    if strategy == "grid":
        if wanted is not None and wanted < allowed:
            raise BadSpace(
                f"A grid looks at all {allowed} points, and {wanted} are asked for. Choose the strategy random, halving or "
                "tpe, or leave the number out."
            )
        return allowed
    return min(allowed, DEFAULT_POINTS if wanted is None else wanted)


class Proposals:
    """Iterate over it, and tell it of each point before asking for the next but those in flight.

    own: the file's own values; looked at first if the space holds them.
    """

    def __init__(
        self, space: Space, allowed: Sequence[Point], own: Point, strategy: Strategy, count: int, seed: int
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._values = {name: sorted(values) for name, values in space.parameters.items()}
        self._strategy, self._count = strategy, count
        self._allowed, drawn = allowed, list(allowed)
        if strategy != "grid":
            random.Random(seed).shuffle(drawn)
        self._left = sorted(drawn, key=lambda point: point != own)
        self._study = optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=PROMOTED),
        )

    def __iter__(self) -> "Iterator[tuple[Trial, Point]]":
        for place in range(self._count):
            # what the estimator knows nothing of yet, or has nothing new to say of, is drawn
            suggested = self._suggested() if self._strategy == "tpe" and place else None
            yield suggested or self._drawn()

    def _drawn(self) -> "tuple[Trial, Point]":
        point = self._left.pop(0)
        self._study.enqueue_trial({name: self._values[name].index(value) for name, value in point.items()})
        trial = self._study.ask()
        return trial, self._point(trial)

    def _suggested(self) -> "tuple[Trial, Point] | None":
        from optuna.trial import TrialState

        for _ in range(_REPEATS):
            trial = self._study.ask()
            point = self._point(trial)
            if point in self._left:
                self._left.remove(point)
                return trial, point
            # it learns nothing of a failed trial, and of a pruned one that it is bad
            self._study.tell(trial, state=TrialState.FAIL if point in self._allowed else TrialState.PRUNED)
        return None

    def _point(self, trial: "Trial") -> Point:
        # by the place among the sorted values, so that the estimator knows which are near each other
        return {name: values[trial.suggest_int(name, 0, len(values) - 1)] for name, values in self._values.items()}

    def goes_on(self, trial: "Trial", estimate_us: float | None) -> bool:
        """Whether a point is among the best third of those estimated so far; yes where nothing can be estimated."""
        if self._strategy != "halving" or estimate_us is None or not math.isfinite(estimate_us):
            return True
        trial.report(estimate_us, step=1)
        return not trial.should_prune()

    def tell(self, trial: "Trial", us: float | None) -> None:
        """us: None of a point without a time."""
        from optuna.trial import TrialState

        self._study.tell(trial, us) if us is not None else self._study.tell(trial, state=TrialState.PRUNED)
