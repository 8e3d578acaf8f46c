import ml_dtypes
import numpy as np
import pytest

from hawkeye_mcp.judge.correctness import compare, merge, worst_lines
from hawkeye_mcp.workloads import Tolerance

E = Tolerance(metric="E", limit=0.01, reason="test")
R = Tolerance(metric="R", limit=0.01, reason="test")


def _reference(shape=(8, 16), seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def _compare(out, ref, tolerance=E, dtype=None):
    errors, problem = compare([out], [ref], [(ref.shape, dtype or str(out.dtype))], tolerance)
    return errors[0], problem


def test_rounding_to_bfloat16_passes_both_gates():
    ref = _reference()
    for tolerance in (E, R):
        error, problem = _compare(ref.astype(ml_dtypes.bfloat16), ref, tolerance)
        assert problem is None
        assert 0 < error.error_e < 0.005
        assert 0 < error.error_r < 0.005
        assert error.dtype == "bfloat16"


def test_e_is_the_error_over_the_spread_around_the_mean_over_axis_0():
    ref = np.array([[1.0, 10.0], [3.0, 10.0]])
    out = ref + np.array([[0.5, 0.0], [0.0, 0.0]])
    error, problem = _compare(out, ref)
    assert error.error_e == pytest.approx(0.5 / np.sqrt(2.0))
    assert "E is 0.353553, limit 0.01" in problem
    assert "Worst element [0, 0]: expected 1, got 1.5" in problem


def test_r_is_the_error_of_the_worst_row_and_names_an_element_of_that_row():
    ref = np.array([[100.0, 0.0], [3.0, 4.0]])
    out = ref + np.array([[2.0, 0.0], [0.0, 1.0]])
    error, problem = _compare(out, ref, R)
    assert error.error_r == pytest.approx(1.0 / 5.0)
    assert error.worst_index == [1, 1]
    assert (error.expected, error.actual) == (4.0, 5.0)
    assert error.max_abs_error == 2.0
    assert error.max_rel_error == pytest.approx(0.25)
    assert "R is 0.2, limit 0.01" in problem


def test_rows_are_of_the_last_axis_and_the_mean_is_over_the_first():
    ref = _reference((3, 4, 5))
    out = ref.copy()
    out[2, 1] = 0
    error, _ = _compare(out, ref, R)
    assert error.error_r == pytest.approx(1.0)
    assert error.worst_index[:2] == [2, 1]
    want = np.linalg.norm(ref[2, 1]) / np.linalg.norm(ref - ref.mean(axis=0))
    assert error.error_e == pytest.approx(want, rel=1e-5)


def test_tiny_outputs_do_not_let_zeros_or_a_constant_pass():
    ref = 1e-4 + _reference(scale=1e-6)
    zeros, problem = _compare(np.zeros_like(ref), ref)
    assert zeros.failing_fraction == 0.0  # the elementwise rule would have passed it
    assert "all zeros" in problem
    constant, problem = _compare(np.full_like(ref, ref.mean()), ref)
    assert constant.error_e > 0.9
    assert "constant, every element is" in problem


def test_a_constant_per_column_scores_one_on_e():
    ref = 100 + _reference()
    error, _ = _compare(np.broadcast_to(ref.mean(axis=0), ref.shape), ref)
    assert error.error_e == pytest.approx(1.0, rel=1e-4)


def test_the_mean_is_over_the_axis_that_the_tolerance_names():
    ref = np.arange(1.0, 9.0).reshape(1, 2, 4, 1)  # over axis 0 there is nothing to take a mean of
    out = ref.copy()
    out[0, 1, 2, 0] += 1
    error, _ = _compare(out, ref, E.model_copy(update={"axis": 2}))
    assert error.error_e == pytest.approx(1 / np.linalg.norm([-1.5, -0.5, 0.5, 1.5] * 2))


def test_failing_fraction_uses_the_workloads_rtol_and_atol():
    ref = np.array([[1.0, 1.0, 1.0, 100.0]])
    out = ref + np.array([[0.019, 0.021, -0.03, 1.0]])
    error, _ = _compare(out, ref, R)
    assert error.failing_fraction == pytest.approx(0.5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("tolerance", [E, R])
def test_one_nonfinite_element_fails_and_is_named(value, tolerance):
    ref = _reference((64, 128))
    out = ref.copy()
    out[3, 5] = value
    error, problem = _compare(out, ref, tolerance)
    assert error.nonfinite == 1
    assert error.worst_index == [3, 5]
    assert error.error_e is None
    assert error.error_r is None
    assert error.max_abs_error is None
    assert error.actual is None
    assert error.expected == float(ref[3, 5])
    assert "at [3, 5]" in problem


def test_the_oracles_own_infinities_are_right_where_they_are_and_only_there():
    ref = _reference()
    ref[1, 1], ref[2, 2], ref[4, 4] = np.inf, -np.inf, np.nan
    error, problem = _compare(ref.copy(), ref)
    assert problem is None
    assert error.error_e == 0.0
    flipped = ref.copy()
    flipped[2, 2] = np.inf
    error, problem = _compare(flipped, ref)
    assert "is inf at [2, 2] where -inf is expected" in problem
    assert error.nonfinite == 0  # the oracle is not finite there either
    finite = ref.copy()
    finite[4, 4] = 0.0
    assert "where nan is expected" in _compare(finite, ref)[1]


def test_a_scalar_is_gated_by_its_relative_error():
    ref = np.float64(2.0)
    tight = Tolerance(metric="R", limit=1e-3, reason="test")
    assert _compare(np.float32(2.001), ref, tight)[1] is None
    error, problem = _compare(np.float32(2.1), ref, tight)
    assert error.error_r == pytest.approx(0.05)
    assert error.shape == []
    assert error.worst_index == []
    assert error.error_e is None  # no spread to compare with
    assert "R is 0.05, limit 0.001" in problem


def test_a_zero_denominator_gives_no_error_only_for_an_exact_answer():
    one_row = _reference((1, 8))
    error, problem = _compare(one_row.copy(), one_row)
    assert (error.error_e, problem) == (0.0, None)
    error, problem = _compare(one_row * 1.0001, one_row)
    assert error.error_e is None
    assert "E is not finite" in problem
    zeros = np.zeros((2, 4), np.float32)
    assert _compare(zeros.copy(), zeros, R)[1] is None
    error, problem = _compare(zeros + 1e-9, zeros, R)
    assert error.error_r is None
    assert error.max_rel_error is None
    assert problem is not None


def test_wrong_number_shape_and_dtype_are_said_in_words():
    ref = _reference()
    declared = [(ref.shape, "float32")]
    errors, problem = compare([], [ref], declared, E)
    assert errors == []
    assert "returned 0 output(s) and must return 1: float32[8, 16]" in problem
    errors, problem = compare([ref.T], [ref], declared, E)
    assert errors[0].shape == [16, 8]
    assert errors[0].error_e is None
    assert "has shape [16, 8] and must have [8, 16]" in problem
    errors, problem = compare([ref.astype(np.float64)], [ref], declared, E)
    assert errors[0].error_e == 0.0
    assert "dtype float64 and must have float32" in problem


def test_every_output_is_judged():
    refs = [_reference(seed=1), _reference((4, 4), seed=2)]
    errors, problem = compare([refs[0], refs[1] * 0], refs, [((8, 16), "float32"), ((4, 4), "float32")], E)
    assert [error.index for error in errors] == [0, 1]
    assert errors[0].error_e == 0.0
    assert "Output 1 is all zeros" in problem
    assert "Output 0" not in problem


def test_near_misses_are_told_apart_from_missing_work():
    ref = _reference((64, 64))
    _, near = _compare(ref * 1.02, ref)
    _, far = _compare(ref * 1.5, ref)
    assert "rounding: accumulate in float32" in near
    assert "more than rounding" in far


def test_large_outputs_are_scanned_block_by_block_with_the_same_result(monkeypatch):
    ref, out = _reference((37, 11, 5), seed=3), _reference((37, 11, 5), seed=4)
    out[30, 2, 4] = np.nan
    clean = np.nan_to_num(out)
    whole, whole_clean = _compare(out, ref)[0], _compare(clean, ref, R)[0]
    monkeypatch.setattr("hawkeye_mcp.judge.correctness._BLOCK_ELEMENTS", 13)
    assert _compare(out, ref)[0] == whole
    blocked = _compare(clean, ref, R)[0]
    assert blocked.worst_index == whole_clean.worst_index
    assert blocked.error_e == pytest.approx(whole_clean.error_e)
    assert blocked.error_r == pytest.approx(whole_clean.error_r)
    assert blocked.failing_fraction == whole_clean.failing_fraction


@pytest.mark.parametrize(
    ("where", "said"), [(np.s_[:, -1], "index 2047 along axis 1"), (np.s_[-1], "index 255 along axis 0")]
)
def test_one_wrong_line_of_thousands_is_seen_though_the_whole_is_within_e(where, said):
    tolerance = E.model_copy(update={"limit": 0.1})
    ref, stale = _reference((256, 2048)), _reference((256, 2048), seed=1)
    out = ref.copy()
    out[where] = stale[where]
    error, problem = _compare(out, ref, tolerance)
    assert error.error_e < 0.1
    assert said in problem
    assert "limit 0.5" in problem


def test_lines_that_are_small_or_large_anyway_may_round_as_the_whole_does():
    ref = _reference((256, 64))
    ref[:, 0] *= 1e-6  # its error is of roundings elsewhere
    ref[:, 1] *= 30
    out = ref * 1.003
    out[:, 0] += 0.004 * np.abs(ref[:, 2])
    assert _compare(out.astype(np.float32), ref)[1] is None


def test_lines_are_across_the_first_and_last_axis_longer_than_one():
    ref = np.zeros((1, 4, 3, 1), np.float32)
    ref[0, :, :, 0] = np.arange(12).reshape(4, 3)
    out = ref.copy()
    out[0, 2, 1] += 1.0
    lines = worst_lines(out, ref, 1)
    spread = np.array([3 * 4.5**2, 3 * 1.5**2, 3 * 1.5**2, 3 * 4.5**2])
    assert [line[:2] for line in lines] == [(1, 2), (2, 1)]
    assert lines[0][2] == pytest.approx(1 / np.sqrt(spread.mean()))  # that of its own line is less
    assert lines[1][2] == pytest.approx(1 / np.sqrt(spread.sum() / 3))
    assert worst_lines(out[0, :, 0], ref[0, :, 0], 0) == []  # of one column each line is an element


def test_merge_keeps_the_worst_of_every_figure_and_the_worst_element():
    ref = _reference()
    small, large, broken = ref.copy(), ref.copy(), ref.copy()
    small[0, 0] += 0.1
    large[4, 4] += 0.3
    broken[5, 5] = np.nan
    runs = [compare([out], [ref], [(ref.shape, "float32")], E)[0] for out in (small, large)]
    (merged,) = merge(runs)
    assert merged.worst_index == [4, 4]
    assert merged.error_e == max(run[0].error_e for run in runs)
    assert merged.error_r == max(run[0].error_r for run in runs)
    assert merged.failing_fraction == 1 / ref.size
    (with_nan,) = merge([*runs, compare([broken], [ref], [(ref.shape, "float32")], E)[0]])
    assert with_nan.worst_index == [5, 5]
    assert with_nan.error_e is None
    assert with_nan.nonfinite == 1
