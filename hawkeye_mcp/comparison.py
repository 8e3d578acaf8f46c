"""Two candidates side by side, on the same workload and chip: every figure that both have, with its ratio.

A ratio is the other's figure over this one's: above 1 where the other takes more. It is null where either figure is
unknown or this one's is zero.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hawkeye_mcp.evaluation import Model
from hawkeye_mcp.profile import Profile

_WHOLE = (
    *("predicted_us", "executed_bundles", "stall_cycles", "spills"),
    *("vmem_bytes", "hbm_bytes", "hbm_temp_bytes"),
)


class Comparison(Model):
    this: Profile
    other: Profile
    ratios: dict[str, float | None]


@dataclass(frozen=True)
class Row:
    """One figure of both candidates; None is unknown."""

    name: str
    this: float | None
    other: float | None

    @property
    def ratio(self) -> float | None:
        return None if self.other is None or not self.this else self.other / self.this


def compare(this: Profile, other: Profile) -> Comparison:
    found = {
        f"{section}.{row.name}" if section else row.name: row.ratio
        for section, rows in sections(this, other).items()
        for row in rows
    }
    return Comparison(this=this, other=other, ratios=found)


def sections(this: Profile, other: Profile) -> dict[str, list[Row]]:
    """The figures by what they are of; "" those of the whole program."""
    whole = [Row(name, getattr(this, name), getattr(other, name)) for name in _WHOLE]
    return {
        "": [row for row in whole if (row.this, row.other) != (None, None)],
        "counters": [
            Row(name, *(p.counters[name].total if name in p.counters else None for p in (this, other)))
            for name in dict.fromkeys([*this.counters, *other.counters])
        ],
        "stalls": _rows(_stalls(this), _stalls(other)),
        "memory": _rows(_memory(this), _memory(other)),
        "traffic": _rows(_traffic(this), _traffic(other)),
    }


def _rows(this: dict[str, float] | None, other: dict[str, float] | None) -> list[Row]:
    """Figures of parts, largest first; a part that one of them does not have is zero there."""
    rows = [
        Row(name, *(None if parts is None else parts.get(name, 0.0) for parts in (this, other)))
        for name in dict.fromkeys([*(this or ()), *(other or ())])
    ]
    return sorted(rows, key=lambda row: -max(row.this or 0.0, row.other or 0.0))


def _stalls(found: Profile) -> dict[str, float] | None:
    """Cycles of all runs by what they wait for."""
    if all(kernel.executed_bundles is None for kernel in found.kernels):
        return None
    return _summed((s.cause, s.cycles * kernel.calls) for kernel in found.kernels for s in kernel.stalls)


def _memory(found: Profile) -> dict[str, float] | None:
    """Bytes on the chip by kind, of the kernel that takes the most of it."""
    each = [_summed((f"{b.space} {b.kind} bytes", float(b.bytes)) for b in kernel.buffers) for kernel in found.kernels]
    return max(each, key=lambda kinds: sum(kinds.values()), default=None) or None


def _traffic(found: Profile) -> dict[str, float] | None:
    """Bytes of all runs by operand and direction."""
    moved = _summed(
        (f"{t.operand} {t.direction}", float(t.bytes * kernel.calls))
        for kernel in found.kernels
        for t in kernel.traffic
    )
    return moved or None


def _summed(parts: Iterable[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for name, value in parts:
        total[name] = total.get(name, 0.0) + value
    return total
