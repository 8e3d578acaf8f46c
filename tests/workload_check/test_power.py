"""Power counts the outputs that a trivial prediction misses."""

import numpy as np
import pytest

from hawkeye_mcp.workload_check.power import power, trivial_axis
from hawkeye_mcp.workloads import Tolerance


def _gate(metric, limit, axis=0):
    return Tolerance(metric=metric, limit=limit, axis=axis, reason="")


def test_elements_equal_to_their_columns_mean_carry_nothing():
    ref = np.zeros((4, 8))
    ref[:, 0] = [1, -1, 1, -1]  # one column of eight varies
    assert power([ref], [ref], _gate("E", 0.1)) == 1 / 8
    assert power([ref + 5], [ref], _gate("E", 0.1)) == 1 / 8  # a constant offset is predictable


def test_the_gate_is_in_units_of_the_spread_for_E_and_of_the_row_for_R():
    ref = np.array([[100.0, 100.0], [101.0, 99.0]])
    assert power([ref], [ref], _gate("E", 0.5)) == 1
    assert power([ref], [ref], _gate("R", 0.01)) == 0
    assert power([ref], [ref], _gate("R", 0.004)) == 1


def test_a_scalar_is_compared_with_another_draws():
    loss = np.array(2.0)
    assert power([loss], [np.array(2.001)], _gate("R", 0.001)) == 0
    assert power([loss], [np.array(2.1)], _gate("R", 0.001)) == 1


def test_the_worst_of_several_outputs_counts():
    varied, flat = np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]])
    assert power([varied, flat], [varied, flat], _gate("E", 0.1)) == 0


@pytest.mark.parametrize(
    ("shape", "axis", "expected"), [((1, 2, 5), 0, 1), ((3, 2), 0, 0), ((1, 8, 4, 1), 2, 2), ((1,), 0, 0)]
)
def test_an_axis_of_one_element_predicts_nothing(shape, axis, expected):
    assert trivial_axis(shape, _gate("E", 0.1, axis)) == expected
