"""Results against recorded ones: what must never pass for agreement."""

import ml_dtypes
import numpy as np
import pytest

from hawkeye_mcp.intake.values import agreement, problem

GOOD = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def against(actual, recorded=GOOD, atol=1e-2, rtol=1e-2):
    (found,) = agreement([[actual]], [[recorded]], atol, rtol)
    return found, problem(found, atol, rtol)


def test_what_is_within_the_tolerance_agrees_and_its_error_is_told():
    found, wrong = against(GOOD + np.float32(0.005))
    assert (found.ok, found.failing, found.elements, wrong) == (True, 0, 12, "")
    assert found.max_abs_error == pytest.approx(0.005, rel=1e-3)


def test_all_nan_fails_at_every_element():
    found, wrong = against(np.full_like(GOOD, np.nan))
    assert (found.ok, found.failing, found.nonfinite) == (False, 12, 12)
    assert "12 of 12 elements are wrong, 12 of them NaN or infinite on one side alone" in wrong


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_nan_or_an_infinity_agrees_with_itself_alone(value):
    recorded = GOOD.copy()
    recorded[1, 2] = value
    assert against(recorded.copy(), recorded)[0].ok
    for other in {np.nan, np.inf, -np.inf, 0.0} - {value}:
        if other is value:
            continue
        actual = recorded.copy()
        actual[1, 2] = other
        found, wrong = against(actual, recorded)
        assert (found.ok, found.failing, found.worst_index) == (False, 1, [1, 2])
        assert f"index [1, 2]: recorded {np.float32(value)}, got {np.float32(other)}" in wrong


def test_another_dtype_of_the_same_values_fails():
    found, wrong = against(GOOD.astype(np.float16))
    assert (found.ok, found.failing) == (False, 0)
    assert wrong == "Output 0 has dtype float16 and must have float32: cast it before returning it."


def test_bfloat16_is_compared_as_the_numbers_that_it_holds():
    half = GOOD.astype(ml_dtypes.bfloat16)
    assert against(half, half)[0].ok
    worse = half.copy()
    worse[2, 3] = 2.5
    found, _ = against(worse, half)
    assert (found.failing, found.dtype, found.expected, found.actual) == (1, "bfloat16", "2", "2.5")


def test_the_worst_element_is_that_furthest_beyond_its_own_tolerance():
    recorded = np.array([100.0, 1.0], np.float32)
    found, _ = against(recorded + np.array([0.9, 0.5], np.float32), recorded)
    assert (found.failing, found.worst_index) == (1, [1])


def test_integers_must_be_equal():
    indices = np.array([1000, 2000], np.int32)
    found, wrong = against(indices + np.array([0, 1], np.int32), indices)
    assert (found.ok, found.failing, found.worst_index) == (False, 1, [1])
    assert "integers and booleans must be equal" in wrong


def test_another_shape_with_the_same_elements_fails():
    found, wrong = against(GOOD.T)
    assert not found.ok
    assert wrong == "Output 0 has shape [4, 3] and must have [3, 4]."


def test_missing_and_further_outputs_are_told():
    missing, further = agreement([[GOOD]], [[GOOD, GOOD]], 0.1, 0.1), agreement([[GOOD, GOOD]], [[GOOD]], 0.1, 0.1)
    assert [one.ok for one in missing] == [True, False]
    assert problem(missing[1], 0.1, 0.1) == "Output 1 is missing: it must be float32[3, 4]."
    assert [one.ok for one in further] == [True, False]
    assert "one too many" in problem(further[1], 0.1, 0.1)


def test_every_trial_counts_and_the_worst_is_named():
    (found,) = agreement([[GOOD], [GOOD + 1], [GOOD]], [[GOOD]] * 3, 1e-2, 1e-2)
    assert (found.elements, found.failing, found.worst_trial) == (36, 12, 1)


def test_a_constant_output_is_said_to_be_one():
    same = np.zeros_like(GOOD)
    (found,) = agreement([[same], [same]], [[GOOD], [GOOD * 2]], 1e-2, 1e-2)
    assert found.constant
    assert "does not depend on the arguments" in problem(found, 1e-2, 1e-2)
    (other,) = agreement([[same], [same + 1]], [[GOOD], [GOOD * 2]], 1e-2, 1e-2)
    assert not other.constant
