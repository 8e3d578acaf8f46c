"""What an operation of XLA costs where nobody profiles it: from XLA's own estimate, or from a calibrated roofline.

Profiles of XLA programs take minutes and gigabytes at full size and abort on many operations, so a baseline cannot
rest on them. They do serve, on a spread of small programs, to say what the cheaper figures are worth:

- Of a matrix product that the matrix units bind, XLA's estimate is near the profile, but for one thing: it charges a
  cycle for every register of partial sums, which the schedule adds up while the matrix units work. Without these, and
  not below what the profile makes of large products, it is taken.
- Of anything else it is far too high: it grows with the vector registers that pass and not with the time they take. So
  it is set aside, and the operation counts with what its kind takes for each vector register of the largest array that
  it touches, median of the profiles; its HBM traffic may bind instead.
"""

from dataclasses import dataclass

from hawkeye_mcp.profiler.calibration import Calibration
from hawkeye_mcp.profiler.flops import Product

# XLA's estimate of a product is believed between its work at the peak of the matrix units and this many times that.
# Of products that the matrix units do not bind it is four and more times the traffic's time.
BELIEVED = 2.0
# The same of products that fill less than half of the matrix units, as convolutions of few channels do, against the
# work with that filling.
BELIEVED_PADDED = 1.3
REGISTER = 1024  # elements


@dataclass(frozen=True)
class Chip:
    """flops_per_cycle: of all matrix units of a device. side: of a matrix unit, elements."""

    flops_per_cycle: float
    side: int


def mxu_side(tpu: str) -> int:
    """Elements along a side of a matrix unit (Google Cloud TPU documentation, system architecture)."""
    return 256 if tpu in ("v6e", "7x") else 128


def cycles(
    *,
    sort: str,
    xla_cycles: float | None,
    elements: int,
    partial: int,
    products: list[Product],
    chip: Chip,
    calibration: Calibration,
) -> tuple[float | None, str]:
    """Cycles of one operation without those of its HBM traffic, None if unknown, and the method.

    The arguments are those of `hlo.Op`.
    """
    flops = sum(product.flops for product in products)
    if flops:
        least = flops / chip.flops_per_cycle
        padded = sum(product.padded_flops(chip.side) for product in products) / chip.flops_per_cycle
        poorly_filled = padded >= BELIEVED * least
        most = max(BELIEVED * least, BELIEVED_PADDED * padded if poorly_filled else 0.0)
        reached = least * calibration.product
        if xla_cycles and least <= xla_cycles and xla_cycles - partial <= most:
            return max((xla_cycles - partial) / calibration.estimate, reached), "xla_estimate"
        vectors = calibration.registers.get("product", 0.0) * elements / REGISTER
        return max(reached, vectors), "roofline_calibrated"
    if sort not in calibration.registers:
        return None, "hbm_floor"
    return calibration.registers[sort] * elements / REGISTER, "roofline_calibrated"
