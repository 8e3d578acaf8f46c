"""How fresh values of an array are to be drawn, from what the program gave at several seeds.

Each element is drawn by itself, from a normal or a uniform distribution, whichever makes the sample likelier: at its best a
uniform distribution has the density 1 / range everywhere and a normal one 1 / (std sqrt(2 pi e)) on geometric average, so
uniform it is where the range is below 4.13 std. That takes 3 of 1000 normal samples of 128 elements for uniform ones, none
of 256, and no uniform sample for a normal one. Values that would lose their meaning so are kept as they are.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from hawkeye_mcp.intake.capture import Normal, Uniform
from hawkeye_mcp.intake.inside.agreement import same_bits
from hawkeye_mcp.intake.inside.record import Array, is_float, wide

SEEDS = 4  # samples of each array
CONSTANT_STD = 0.1
_FEW_LEVELS = 16
_SMALL = 100  # elements, below which no sample tells a uniform distribution from a normal one
_LARGEST_SAMPLE = 1 << 15  # elements looked at, of each array, evenly spread
_LIKELIER = math.sqrt(2 * math.pi * math.e)
_WORST_FIT = 0.1  # largest distance between the distributions' functions that still counts as a fit


@dataclass(frozen=True)
class Choice:
    """draw: None for an array that is kept. note: why, where that is not plain, without the array's name.

    fixed: whether the program gave the same at every seed.
    """

    draw: Normal | Uniform | None
    note: str = ""
    fixed: bool = False


def constant(array: Array) -> float | None:
    """The value of an array of floats whose elements are all the same."""
    if not is_float(array.dtype) or not array.size:
        return None
    first = float(wide(array).flat[0])
    return first if math.isfinite(first) and bool((wide(array) == first).all()) else None


def constant_throughout(samples: Sequence[Array]) -> float | None:
    """The value of an array that has this one value everywhere at every seed."""
    value = constant(samples[0])
    return value if all(constant(sample) == value for sample in samples[1:]) else None


def around(value: float) -> Normal:
    """Of an array that is constant: a missing multiplication by 1, or addition of 0, would not show otherwise."""
    return Normal(mean=value, std=CONSTANT_STD * abs(value) if value else CONSTANT_STD)


def perturbed(array: Array, choice: Choice, name: str, seed: int) -> Array:
    """An array that no seed of the program's changes, drawn: a constant always, any other but at seed 0; the rest as they are.

    Else one set of inputs would be recorded several times, and whatever returns what is right for it would pass.
    """
    draw = choice.draw
    if draw is None or not choice.fixed or (seed == 0 and constant(array) is None):
        return array
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if isinstance(draw, Uniform):
        return np.asarray(random.uniform(draw.low, draw.high, array.shape)).astype(array.dtype)
    return np.asarray(draw.mean + draw.std * random.standard_normal(array.shape)).astype(array.dtype)


def choose(samples: Sequence[Array]) -> Choice:
    """From one array at several seeds, all of one shape and type."""
    fixed = len(samples) > 1 and all(same_bits(samples[0], other) for other in samples[1:])
    return replace(_chosen(samples, fixed), fixed=fixed)


def _chosen(samples: Sequence[Array], fixed: bool) -> Choice:
    if not is_float(samples[0].dtype):
        return Choice(None)
    step = -(-max(samples[0].size, 1) // _LARGEST_SAMPLE)
    values = [wide(sample.ravel()[::step]) for sample in samples]
    pooled = np.concatenate(values)
    if not pooled.size:
        return Choice(Normal(mean=0, std=1))
    if not np.isfinite(pooled).all():
        return Choice(None, "infinite values or NaN, which mean something: kept as recorded")
    if (value := constant_throughout(samples)) is not None:
        draw = around(value)
        return Choice(
            draw, f"{value:g} everywhere, which would hide a missing operation: drawn around it, std {draw.std:g}"
        )
    if pooled.size > _FEW_LEVELS * 4 and len(np.unique(pooled)) <= _FEW_LEVELS:
        return Choice(None, f"{len(np.unique(pooled))} different values only: kept as recorded")
    zeros = values[0] == 0
    if len(values) > 1 and zeros.mean() > 0.01 and all(np.array_equal(zeros, other == 0) for other in values):
        return Choice(None, "zeros in the same places at every seed: kept as recorded")
    drawn = fit(pooled)
    if fixed and (_ordered(values[0]) or _distance(pooled, drawn) > _WORST_FIT):
        return Choice(None, "the same at every seed, and does not look random: kept as recorded")
    if (pooled.min() >= 0 or pooled.max() <= 0) and isinstance(drawn, Normal) and _other_sign(pooled, drawn) >= 5:
        low, high = _rounded(float(pooled.min())), _rounded(float(pooled.max()))
        return Choice(
            Uniform(low=low, high=high),
            f"one sign only, which a normal distribution would not keep: drawn evenly from [{low:g}, {high:g}]",
        )
    if pooled.size >= _SMALL and (off := _distance(pooled, drawn)) > _WORST_FIT:
        return Choice(
            drawn, f"neither normal nor uniform: drawn as {drawn.kind}, whose distribution function is {off:.2f} off"
        )
    return Choice(drawn)


def fit(values: Array) -> Normal | Uniform:
    """Of finite values that are not all the same."""
    std = float(values.std())
    low, high = float(values.min()), float(values.max())
    if values.size >= _SMALL and high - low < _LIKELIER * std:
        return _uniform(values)
    return _normal(values)


def refitted(draw: Normal | Uniform, values: Array) -> Normal | Uniform:
    """The same kind of draw from the array at another size: what an initialisation draws from depends on shapes."""
    pooled = wide(values).ravel()
    if not pooled.size or not np.isfinite(pooled).all():
        return draw
    if (value := constant(values)) is not None:
        return around(value)
    return _uniform(pooled) if isinstance(draw, Uniform) else _normal(pooled)


def _normal(values: Array) -> Normal:
    """Mean and standard deviation to as few digits as three of their standard errors allow: a sample knows no more."""
    std = float(values.std())
    mean_error, std_error = 3 * std / math.sqrt(values.size), 3 * std / math.sqrt(2 * values.size)
    return Normal(mean=_plain(float(values.mean()), mean_error), std=_plain(std, std_error) or _rounded(std))


def _uniform(values: Array) -> Uniform:
    """Ends as plain as the gaps between that many elements allow, the same on both sides of zero where they may be."""
    low, high = float(values.min()), float(values.max())
    gap = 10 * (high - low) / values.size
    if abs(low + high) <= gap:
        end = _outer(max(-low, high), gap)
        return Uniform(low=-end, high=end)
    return Uniform(low=0.0 - _outer(-low, gap), high=_outer(high, gap))


def _outer(end: float, gap: float) -> float:
    """A plain number not below the upper end of a sample, and at most a gap above it; never across zero."""
    plain = _plain(end + gap / 2, gap / 2)
    if plain < end:
        return _rounded(end)
    return 0.0 if end < 0 < plain else plain


def _plain(value: float, slack: float) -> float:
    """The number of fewest digits that lies within slack of the value; 0 if that does, four digits at most."""
    if abs(value) <= slack:
        return 0.0
    plain = (float(f"{value:.{digits}e}") for digits in range(3))
    return next((number for number in plain if abs(number - value) <= slack), _rounded(value))


def _ordered(values: Array) -> bool:
    """Whether neighbours are alike (or unlike) beyond four standard deviations of chance, as on a ramp or a wave."""
    if values.size < 8 or not values.std():
        return False
    centred = values - values.mean()
    correlation = float((centred[1:] * centred[:-1]).mean() / values.var())
    return abs(correlation) > 4 / math.sqrt(values.size)


def _distance(values: Array, drawn: Normal | Uniform) -> float:
    """Kolmogorov's: the largest difference between the sample's distribution function and that drawn from."""
    if isinstance(drawn, Normal):
        return float(stats.kstest(values, "norm", args=(drawn.mean, drawn.std or 1)).statistic)
    return float(stats.kstest(values, "uniform", args=(drawn.low, (drawn.high - drawn.low) or 1)).statistic)


def _other_sign(values: Array, drawn: Normal) -> float:
    """How many elements of a sample of this size the normal distribution would give the other sign."""
    share = float(stats.norm.cdf(0, drawn.mean, drawn.std or 1))
    return values.size * (share if values.min() >= 0 else 1 - share)


def _rounded(value: float) -> float:
    """To four digits: a sample knows no more, and never across zero."""
    return float(f"{value:.4g}")


def notes(choices: Mapping[str, Choice]) -> list[str]:
    """What is not plain about them, arrays of the same kind together."""
    grouped: dict[str, list[str]] = {}
    for name, choice in choices.items():
        if choice.note:
            grouped.setdefault(choice.note, []).append(name)
    return [f"{', '.join(names)}: {note}." for note, names in grouped.items()]
