"""How fresh values are drawn, decided from samples, and whether results agree: numbers alone, no program."""

import ml_dtypes
import numpy as np
import pytest

from hawkeye_mcp.intake.capture import CaptureFailed, Normal, Uniform
from hawkeye_mcp.intake.inside import agreement, draws
from hawkeye_mcp.intake.inside.agreement import Allowed
from hawkeye_mcp.intake.inside.naming import identifiers
from hawkeye_mcp.intake.inside.record import Array, Record, narrowed, raw

RNG = np.random.default_rng(0)


def drawn(*args: float, kind: str = "normal", shape: tuple[int, ...] = (40, 50), fixed: bool = False) -> list[Array]:
    first = getattr(RNG, kind)(*args, size=shape)
    return [first if fixed else getattr(RNG, kind)(*args, size=shape) for _ in range(draws.SEEDS)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("fixed", [False, True])
def test_normal_and_uniform_samples_are_told_apart(dtype: str, fixed: bool) -> None:
    def of(samples: list[Array]) -> draws.Choice:
        return draws.choose([sample.astype(dtype) for sample in samples])

    normal = of(drawn(2, 3, fixed=fixed)).draw
    assert isinstance(normal, Normal) and (normal.mean, normal.std) == pytest.approx((2, 3), rel=0.1)
    uniform = of(drawn(-1, 5, kind="uniform", fixed=fixed)).draw
    assert isinstance(uniform, Uniform) and (uniform.low, uniform.high) == pytest.approx((-1, 5), abs=0.03)


def test_small_samples_are_hardly_ever_taken_for_the_other_kind() -> None:
    """32 elements at 4 seeds, 100 times over."""
    wrong = {"normal": 0, "uniform": 0}
    for kind in wrong:
        for _ in range(100):
            found = draws.choose(drawn(0, 1, kind=kind, shape=(32,))).draw
            wrong[kind] += found is None or found.kind != kind
    assert wrong["normal"] <= 1
    assert wrong["uniform"] <= 1


KEPT = {
    "an infinite mask": [np.triu(np.full((8, 8), -np.inf, np.float32), 1)] * 4,
    "a 0/1 mask": [(RNG.random((30, 30)) > 0.5).astype(np.float32) for _ in range(4)],
    "a triangle": [np.triu(RNG.normal(size=(30, 30))) for _ in range(4)],
    "a ramp": [np.linspace(0, 1, 400)] * 4,
    "a wave": [np.sin(np.arange(400) / 7)] * 4,
    "indices": [RNG.integers(0, 99, 400) for _ in range(4)],
    "a bool mask": [RNG.random(400) > 0.5 for _ in range(4)],
}


@pytest.mark.parametrize("name", KEPT)
def test_what_would_lose_its_meaning_is_kept(name: str) -> None:
    assert draws.choose(KEPT[name]).draw is None


def test_what_is_positive_stays_positive() -> None:
    """A variance drawn from a normal distribution would go below zero, and its square root would be NaN."""
    found = draws.choose(drawn(1.0, kind="exponential"))
    assert isinstance(found.draw, Uniform)
    assert 0 <= found.draw.low < 0.01
    assert "one sign" in found.note
    # far from zero, nothing is at stake
    assert isinstance(draws.choose(drawn(50, 1)).draw, Normal)


@pytest.mark.parametrize(("value", "std"), [(1.0, 0.1), (0.0, 0.1), (1e-6, 1e-7), (-8.0, 0.8)])
def test_a_constant_is_drawn_around_its_value(value: float, std: float) -> None:
    sample = np.full((20, 30), value, np.float32)
    choice = draws.choose([sample] * 4)
    assert isinstance(choice.draw, Normal)
    assert (choice.draw.mean, choice.draw.std) == pytest.approx((value, std))
    assert "would hide" in choice.note
    one, other = (draws.perturbed(sample, choice, name, 0) for name in ("a", "b"))
    assert one.std() == pytest.approx(std, rel=0.1)
    assert not np.array_equal(one, other)
    assert np.array_equal(one, draws.perturbed(sample, choice, "a", 0))


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_what_no_seed_changes_is_drawn_from_the_second_set_on(kind: str) -> None:
    samples = drawn(0.5, 2, kind=kind, fixed=True)
    choice = draws.choose(samples)
    first, second, third = (draws.perturbed(samples[0], choice, "x", seed) for seed in range(3))
    assert np.array_equal(first, samples[0])
    assert (second.mean(), second.std()) == pytest.approx((first.mean(), first.std()), rel=0.15)
    assert not (second == first).any()
    assert not (third == second).any()
    changing = drawn(0.5, 2, kind=kind)
    assert draws.perturbed(changing[1], draws.choose(changing), "x", 1) is changing[1]


def test_what_fits_neither_says_so() -> None:
    found = draws.choose([np.concatenate([RNG.normal(-9, 1, 500), RNG.normal(9, 1, 500)]) for _ in range(4)])
    assert "neither normal nor uniform" in found.note


# --- agreement

EXACT = np.linspace(-2, 2, 1000).reshape(20, 50)
GOLDEN = EXACT.astype(np.float32)


def test_nan_never_agrees_with_a_number_nor_a_number_with_nan() -> None:
    within = Allowed(1e9, 1, "")
    nan = GOLDEN.copy()
    nan[3, 4] = np.nan
    for result, golden in ((nan, GOLDEN), (GOLDEN, nan), (np.full_like(GOLDEN, np.nan), GOLDEN)):
        found = agreement.compare(result, golden, within)
        assert not found.ok
    assert agreement.compare(nan, GOLDEN, within).worst == (3, 4)
    assert agreement.compare(np.full_like(GOLDEN, np.nan), GOLDEN, within).wrong == 1000
    assert agreement.compare(nan, nan, within).ok
    infinite = np.where(np.isnan(nan), np.inf, nan)
    assert agreement.compare(infinite, infinite, Allowed(0, 0, "")).ok
    assert not agreement.compare(np.where(np.isnan(nan), -np.inf, nan), infinite, within).ok


def test_a_result_of_another_type_or_shape_does_not_agree() -> None:
    within = Allowed(1e9, 1, "")
    assert "float16" in agreement.compare(GOLDEN.astype(np.float16), GOLDEN, within).what
    assert not agreement.compare(GOLDEN[:, :49], GOLDEN, within).ok


def test_small_results_are_not_let_off() -> None:
    """Probabilities over a million classes are all below 1e-4."""
    small = (GOLDEN * 1e-6).astype(np.float32)
    within = agreement.allowed(small, small.astype(np.float64))
    assert agreement.compare(small * np.float32(1 + 5e-5), small, within).ok
    assert not agreement.compare(small * np.float32(1.001), small, within).ok


def test_a_bfloat16_result_is_held_to_a_few_of_its_own_roundings() -> None:
    golden = EXACT.astype(ml_dtypes.bfloat16)
    within = agreement.allowed(golden, EXACT)
    again = (EXACT + 0.004 * np.cos(np.arange(1000)).reshape(20, 50)).astype(ml_dtypes.bfloat16)  # rounded elsewhere
    assert agreement.compare(again, golden, within).ok
    assert not agreement.compare((EXACT * 1.05).astype(ml_dtypes.bfloat16), golden, within).ok
    assert not agreement.compare((EXACT + 0.07).astype(ml_dtypes.bfloat16), golden, within).ok


def test_the_recommended_tolerance_is_ten_times_the_distance_from_float64_and_bounded() -> None:
    noise = RNG.uniform(-1, 1, EXACT.shape)
    found = agreement.recommended([(EXACT + 1e-4 * noise, EXACT)])
    assert found
    assert found.atol == pytest.approx(1e-3, rel=0.02)
    assert 1e-3 < found.rtol < 1e-2  # of those above a tenth of the usual size, the smallest
    assert "from what float64 gives" in found.reason
    exact = agreement.recommended([(EXACT, EXACT)])
    wild = agreement.recommended([(EXACT + 100 * noise, EXACT)])
    assert exact and (exact.atol, exact.rtol) == (1e-6, 1e-6)
    assert wild and (wild.atol, wild.rtol) == (0.5, 0.5)
    assert agreement.recommended([]) is None


def test_names_are_identifiers_and_each_is_there_once() -> None:
    given = ["x", "layers.0.weight", "layers_0.weight", "p['scale']", "lax", "lambda", "0", "Größe"]
    found = identifiers(given)
    assert found == ["x", "layers_0_weight", "layers_0_weight_2", "p_scale", "x_lax", "x_lambda", "x_0", "Gr_e"]


def test_arrays_are_stored_raw_within_a_limit() -> None:
    value = np.array([[1.5, -2]], ml_dtypes.bfloat16)
    assert raw(value).view(ml_dtypes.bfloat16).tolist() == value.tolist()
    record = Record(100)
    record.add("check/0/in/x", value)
    with pytest.raises(CaptureFailed, match=r"check/0/out/0 \[25\]"):
        record.add("check/0/out/0", np.zeros(25, np.float32))
    with pytest.raises(CaptureFailed, match="beyond int32"):
        narrowed(np.array([2**31]), "ids")
    assert narrowed(np.array([2**31 - 1]), "ids").dtype == np.int32


@pytest.mark.parametrize("size", [1_000, 30_000])
def test_what_is_drawn_from_plain_numbers_is_drawn_from_these(size):
    """A sample's own mean, deviation and ends are noise that no reader should be shown, nor differ by at two sizes."""
    rng = np.random.default_rng(size)
    assert draws.fit(rng.standard_normal(size)) == Normal(mean=0, std=1)
    assert draws.fit(3 + 0.2 * rng.standard_normal(size)) == Normal(mean=3, std=0.2)
    assert draws.fit(rng.random(size)) == Uniform(low=0, high=1)
    assert draws.fit(-rng.random(size)) == Uniform(low=-1, high=0)
    symmetric = draws.fit(rng.uniform(-0.0625, 0.0625, size))
    assert symmetric.low == -symmetric.high
    assert 0.0625 <= symmetric.high <= 0.063
    # What is not plain stays as exact as it is known.
    assert draws.fit(np.float64(0.1234) + 1e-6 * rng.standard_normal(size)).mean == 0.1234
