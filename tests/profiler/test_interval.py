import pytest

from hawkeye_mcp.evaluation import OpTime, Versions
from hawkeye_mcp.profiler import interval
from hawkeye_mcp.profiler.interval import Residuals, Table

VERSIONS = Versions(hawkeye="1", jax="1", jaxlib="1", libtpu="1")


def op(us, kind="mosaic", method="static_profile", bound="static_schedule", by_hand=False):
    return OpTime(
        name="a", kind=kind, method=method, static_us=us, hbm_floor_us=None, hbm_bytes=None, us=us, bound=bound,
        by_hand=by_hand,
    )  # fmt: skip


@pytest.fixture
def known(monkeypatch):
    classes = [
        Residuals(tpu="v5e", cls="large_blocks", n=9, groups=9, low=0.9, high=1.1),
        Residuals(tpu="7x", cls="large_blocks", n=9, groups=9, low=0.95, high=1.3),
        Residuals(tpu="7x", cls="xla_bandwidth", n=9, groups=9, low=0.5, high=1.6),
    ]
    table = Table(coverage=0.8, classes=classes, measurements="here", versions=VERSIONS)
    monkeypatch.setattr(interval, "table", lambda: table)


def test_every_group_weighs_the_same():
    # 20 rows of one shape are off by half; each of 19 other shapes is exact
    ratios = [(0.5, "many")] * 20 + [(1.0, str(n)) for n in range(19)]
    assert interval.multiples(ratios) == (1.0, 1.0)


def test_the_interval_holds_the_share_asked_for():
    ratios = [(1 / (0.9 + 0.01 * n), str(n)) for n in range(21)]  # measured / predicted from 0.9 to 1.1
    low, high = interval.multiples(ratios, coverage=0.8)
    assert (low, high) == (pytest.approx(0.91), pytest.approx(1.09))
    held = [ratio for ratio, _ in ratios if low - 1e-9 <= 1 / ratio <= high + 1e-9]
    assert len(held) >= 0.8 * len(ratios)


def test_with_few_groups_the_extremes_stand_on_both_sides():
    assert interval.multiples([(1.0, "a"), (0.8, "b"), (0.9, "c")]) == (0.8, 1.25)
    assert interval.multiples([(0.8, "a")]) == (0.8, 1.25)


def test_a_class_with_few_shapes_is_widened_by_the_same_class_elsewhere(monkeypatch):
    classes = [
        Residuals(tpu="v5e", cls="large_blocks", n=30, groups=8, low=0.9, high=1.3),
        Residuals(tpu="7x", cls="large_blocks", n=9, groups=9, low=0.8, high=1.2),
        Residuals(tpu="7x", cls="xla_bandwidth", n=9, groups=9, low=0.1, high=9.0),
    ]
    table = Table(coverage=0.8, classes=classes, measurements="here", versions=VERSIONS)
    monkeypatch.setattr(interval, "table", lambda: table)
    assert interval.residuals("v5e", "large_blocks") == (0.8, 1.3)
    assert interval.residuals("7x", "large_blocks") == (0.8, 1.2)
    few = table.model_copy(update={"classes": [classes[0], classes[2]]})
    monkeypatch.setattr(interval, "table", lambda: few)
    assert interval.residuals("v5e", "large_blocks") == (0.1, 9.0)  # too few everywhere


def test_a_class_of_a_chip_has_its_own_interval(known):
    assert interval.interval_us(op(100.0), "v5e") == (
        90.0,
        pytest.approx(110),
    )
    assert interval.interval_us(op(100.0, "xla", "hbm_floor", "hbm"), "7x") == (50.0, 160.0)


def test_another_chip_borrows_the_widest_of_the_class_and_says_so(known):
    low, high = interval.interval_us(op(100.0), "v6e")
    assert (low, high) == (90.0, 130.0)
    note = interval.borrowed("v6e", [op(1.0)])
    assert "v6e" in note
    assert "large blocks" in note
    assert interval.borrowed("v5e", [op(1.0)]) is None


def test_a_class_never_measured_borrows_the_widest_of_all(known):
    assert interval.interval_us(op(100.0, bound="hbm"), "v5e") == (50.0, 160.0)


def test_operations_of_a_program_err_together(known):
    ops = [op(60.0), op(40.0, kind="xla", method="hbm_floor", bound="hbm")]
    low, high = interval.program_interval_us(200.0, ops, "7x")  # the program takes longer than its operations
    assert low == pytest.approx(2 * (60 * 0.95 + 40 * 0.5))
    assert high == pytest.approx(2 * (60 * 1.3 + 40 * 1.6))


def test_without_measurements_there_is_no_interval(monkeypatch):
    monkeypatch.setattr(interval, "table", lambda: None)
    assert interval.interval_us(op(1.0), "v5e") is None
    assert interval.program_interval_us(1.0, [op(1.0)], "v5e") is None
    assert interval.borrowed("v5e", [op(1.0)]) is None


def test_copies_of_a_kernel_s_own_are_a_class_of_their_own():
    assert (
        interval.class_of(op(1.0, by_hand=True))
        == interval.class_of(op(1.0, bound="hbm", by_hand=True))
        == "own_copies"
    )
    assert interval.class_of(op(1.0, bound="hbm")) == "bandwidth_bound"
    assert interval.class_of(op(1.0, "xla", "xla_estimate")) == "xla_schedule"


def test_a_speedup_is_as_uncertain_as_both_its_sides():
    low, high = interval.speedup_interval(200.0, (200.0, 200.0), 100.0, (80.0, 125.0))
    assert (low, high) == (pytest.approx(1.6), pytest.approx(2.5))  # one side certain: the other's interval
    low, high = interval.speedup_interval(200.0, (160.0, 250.0), 100.0, (80.0, 125.0))
    assert low == pytest.approx(2 / 1.25**2**0.5)
    assert high == pytest.approx(2 * 1.25**2**0.5)


def test_what_is_shipped_can_be_read():
    found = interval.table()
    assert found is not None
    assert found.coverage == 0.8
    assert all(0.3 < entry.low <= entry.high < 3 and entry.n >= entry.groups >= 1 for entry in found.classes)
