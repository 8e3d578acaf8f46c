"""Operations of XLA that have a static profile, beside XLA's own estimate of them: what the estimate is worth.

The rows are shipped in workloads/baselines/calibration.json; `hawkeye baselines --calibrate` makes them,
`hawkeye baselines --calibration` prints what follows from them.
"""

import functools
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from hawkeye_mcp import content


class Row(BaseModel):
    """One operation of a workload at a reduced size, on one chip.

    at: the dimensions that differ from full size. profile_cycles: libtpu's static profile. xla_cycles: XLA's estimate.
    flop_cycles, hbm_cycles: least that its products at the matrix units' peak and its HBM traffic take. registers:
    vector registers of 1024 elements that its largest array fills. partial: as in `hlo.Op`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tpu: str
    workload: str
    at: dict[str, int]
    op: str
    sort: str
    profile_cycles: int
    xla_cycles: int | None
    flop_cycles: float
    hbm_cycles: float
    registers: float
    partial: int = 0
    compiler: str


@dataclass(frozen=True)
class Calibration:
    """product: cycles that a large matrix product takes over those at the matrix units' peak. estimate: what XLA makes
    of it, less partial sums, over the profile. registers: cycles that an operation of each sort takes for each vector register, median over those that the
    matrix units do not bind."""

    product: float
    estimate: float
    registers: dict[str, float]


# Smaller operations are all overhead.
LEAST_REGISTERS = 256
# Cycles at the matrix units' peak from which on the start of a product's transfers is a small part of its time; and
# from which on the profile has that part, but so has the estimate.
LARGE_PRODUCT, MIDDLE_PRODUCT = 200_000, 60_000


def path() -> Path:
    return content.folder("workloads") / "baselines" / "calibration.json"


@functools.cache
def rows() -> tuple[Row, ...]:
    """All shipped rows."""
    if not path().exists():
        return ()
    return tuple(Row.model_validate(row) for row in json.loads(path().read_text(encoding="utf-8")))


def bound_by_matrix_units(row: Row) -> bool:
    return row.flop_cycles >= max(row.hbm_cycles, row.profile_cycles / 2)


def calibration(tpu: str, found: Sequence[Row]) -> Calibration:
    """Of one chip; a sort of which it has no rows takes those of all chips."""
    products = [row for row in found if bound_by_matrix_units(row) and row.flop_cycles >= MIDDLE_PRODUCT]
    reached = [row.profile_cycles / row.flop_cycles for row in products if row.flop_cycles >= LARGE_PRODUCT]
    compared = [row for row in products if row.tpu == tpu and row.xla_cycles] or products
    estimates = [(row.xla_cycles - row.partial) / row.profile_cycles for row in compared if row.xla_cycles]
    own, everywhere = cycles_per_register([row for row in found if row.tpu == tpu]), cycles_per_register(found)
    medians = {sort: statistics.median(own.get(sort, values)) for sort, values in sorted(everywhere.items())}
    return Calibration(
        product=statistics.median(reached) if reached else 1.0,
        estimate=max(1.0, statistics.median(estimates)) if estimates else 1.0,
        registers=medians,
    )


def estimate_ratios(found: Sequence[Row]) -> list[float]:
    """XLA's estimate over the profile, of products that the matrix units bind."""
    return sorted(row.xla_cycles / row.profile_cycles for row in found if row.xla_cycles and bound_by_matrix_units(row))


def cycles_per_register(found: Sequence[Row]) -> dict[str, list[float]]:
    """Of each sort, of operations that the matrix units do not bind."""
    by_sort: dict[str, list[float]] = {}
    for row in found:
        if row.registers >= LEAST_REGISTERS and not bound_by_matrix_units(row):
            by_sort.setdefault(row.sort, []).append(row.profile_cycles / row.registers)
    return by_sort
