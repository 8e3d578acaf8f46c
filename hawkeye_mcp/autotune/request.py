"""What is to be searched, and what that comes to."""

from dataclasses import dataclass

from hawkeye_mcp.autotune import parameters, space
from hawkeye_mcp.autotune.model import Strategy
from hawkeye_mcp.autotune.proposals import number
from hawkeye_mcp.autotune.space import Point, Space
from hawkeye_mcp.workloads import Workload


@dataclass(frozen=True)
class Request:
    """What to search. points: None is the strategy's own number. seconds: of looking at points; None is no limit."""

    source: str
    workload: Workload
    tpu: str
    space: Space
    strategy: Strategy = "halving"
    points: int | None = None
    seed: int = 0
    seconds: float | None = None

    def planned(self) -> "Plan":
        """Raises NoParameter or BadSpace: there is nothing to search."""
        own = parameters.values(self.source, self.space.parameters)
        others = {name: found.value for name, found in parameters.constants(self.source).items()}
        allowed = space.points(self.space, others)
        return Plan(own, allowed, number(self.strategy, self.points, len(allowed)))


@dataclass(frozen=True)
class Plan:
    """own: the file's own values. allowed: the points there are. count: how many are looked at."""

    own: Point
    allowed: list[Point]
    count: int
