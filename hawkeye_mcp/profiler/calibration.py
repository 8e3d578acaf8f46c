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
    vector registers of 1024 elements that its largest array fills.
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
    compiler: str


@dataclass(frozen=True)
class Calibration:
    """registers: cycles that an operation of each sort takes for each vector register, median over those that the
    matrix units do not bind."""

    registers: dict[str, float]


LEAST_ROWS = 3
# Smaller operations are all overhead.
LEAST_REGISTERS = 256


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
    """Of one chip; a sort of which it has too few rows takes those of all chips."""
    own, everywhere = cycles_per_register([row for row in found if row.tpu == tpu]), cycles_per_register(found)
    medians = {}
    for sort, values in sorted(everywhere.items()):
        chosen = own.get(sort, [])
        chosen = chosen if len(chosen) >= LEAST_ROWS else values
        if len(chosen) >= LEAST_ROWS:
            medians[sort] = statistics.median(chosen)
    return Calibration(medians)


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
