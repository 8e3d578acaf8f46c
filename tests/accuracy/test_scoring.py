import dataclasses
import json

import pytest

from hawkeye_mcp.accuracy import predicting, scoring
from hawkeye_mcp.accuracy.rows import Row
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.profiler.timing import DATASHEET, MODELS, Model

VERSIONS = Versions(hawkeye="1", jax="1", jaxlib="1", libtpu="1")
PEAKS = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e11}
ROW = Row(
    id="a", chip="v5e", kernel="matmul", implementation="mosaic", file="f", spec="{}", config="{}", measured_us=100.0,
    timing="device", source="here", group="g", split="held_out",
)  # fmt: skip


@pytest.fixture(autouse=True)
def datasheet(monkeypatch):
    for chip in MODELS:
        monkeypatch.setitem(MODELS, chip, DATASHEET)


def kernel(us, steps=10, moved=0):
    return {
        "name": "k", "calls": 1, "weights": [1.0], "window_bytes": moved * steps, "by_hand_bytes": 0, "first_bytes": 0,
        "last_bytes": 0, "transfers": [[moved, 1, steps]],
        "jobs": [{"points": [[steps]], "cycles": [us * 1000], "count": steps}],
    }  # fmt: skip


def features(us, **kwargs):
    return {"kernels": [kernel(us, **kwargs)], "ops": [], "peaks": PEAKS}


def op(**fields):
    return {
        "name": "o", "mosaic": False, "ahead": False, "sort": "copy", "products": [], "xla_cycles": None, "hbm_bytes": 0, "calls": 1
    } | fields  # fmt: skip


def rows(*figures, **fields):
    """(id, measured_us, predicted_us) to rows and features."""
    made = [dataclasses.replace(ROW, id=name, measured_us=us, group=name, **fields) for name, us, _ in figures]
    return made, {name: features(predicted) for name, _, predicted in figures}


def report(made, found):
    return scoring.report(made, found, VERSIONS, "9.9")


def test_errors_are_relative_and_the_median_is_of_the_held_out_half():
    made, found = rows(("a", 100.0, 110.0), ("b", 200.0, 180.0), ("c", 400.0, 404.0))
    fit_rows, more = rows(("d", 100.0, 500.0), split="fit")
    result = report([*made, *fit_rows], found | more)
    assert (result.scored.n, result.scored.median_abs_error, result.scored.spearman) == (3, 0.1, 1.0)
    assert (result.fit.n, result.fit.median_abs_error) == (1, 4.0)
    assert [row.ratio for row in result.rows] == [1.1, 0.9, 1.01, 5.0]
    assert result.covered == 4


def test_rank_correlation_takes_mean_ranks_of_ties():
    made, found = rows(("a", 1e3, 10.0), ("b", 1e3, 20.0), ("c", 2e3, 5.0), ("d", 3e3, 30.0))
    # ranks measured 0.5 0.5 2 3, predicted 1 2 0 3: covariance 1.5 of sqrt(4.5 * 5)
    assert report(made, found).scored.spearman == pytest.approx(1.5 / 22.5**0.5, abs=1e-4)


def test_too_few_rows_have_no_rank_correlation():
    made, found = rows(("a", 100.0, 110.0), ("b", 200.0, 180.0))
    assert report(made, found).scored.spearman is None


def test_wall_clock_is_scored_without_dispatch_and_short_calls_not_at_all():
    made, found = rows(("short", 130.0, 20.0), ("shorter", 110.0, 10.0), ("long", 1105.0, 1000.0), timing="wall_clock")
    result = report(made, found)
    assert result.dispatch_us == 105.0
    status = {row.id: (row.status, row.measured_us) for row in result.rows}
    assert status["long"] == ("scored", 1000.0)
    assert status["short"] == ("not_scored", 130.0)
    assert result.scored.median_abs_error == 0.0


def test_what_could_not_be_covered_says_why_and_is_not_scored():
    made, found = rows(("a", 100.0, 110.0), ("b", 200.0, 1.0), ("c", 200.0, 1.0))
    result = report(made, {"a": found["a"], "b": {"reason": "it aborts on x"}})
    assert [row.status for row in result.rows] == ["scored", "not_covered", "not_covered"]
    assert result.not_covered == {"it aborts on x": 1, "it was not predicted yet": 1}
    assert result.scored.n == 1
    text = json.loads(result.model_dump_json(by_alias=True))
    assert text["rows"][0]["class"] == "large_blocks"
    assert text["rows"][1]["class"] is None


def test_classes_by_what_the_time_is_spent_on():
    assert predicting.class_of(features(100.0), DATASHEET) == "large_blocks"
    assert predicting.class_of(features(100.0, steps=100), DATASHEET) == "small_blocks"  # 1000 cycles a step
    assert predicting.class_of(features(10.0, moved=10**6), DATASHEET) == "bandwidth_bound"
    around = {"kernels": [], "peaks": PEAKS}
    assert predicting.class_of(around | {"ops": [op(xla_cycles=9000)]}, DATASHEET) == "xla_schedule"
    assert predicting.class_of(around | {"ops": [op(hbm_bytes=10**6)]}, DATASHEET) == "xla_bandwidth"


def test_xla_s_estimates_count_in_full_for_products_alone():
    around = {"kernels": [], "peaks": PEAKS}
    model = Model(estimate=0.4)
    assert predicting.predicted_us(around | {"ops": [op(xla_cycles=50_000)]}, model) == 20.0
    assert predicting.predicted_us(around | {"ops": [op(xla_cycles=50_000, sort="product")]}, model) == 50.0
    assert predicting.predicted_us(around | {"ops": [op(xla_cycles=50_000, hbm_bytes=3 * 10**6)]}, model) == 30.0


def test_kinds_of_step_add_up_by_how_often_they_occur():
    jobs = [
        {"points": [[2], [4]], "cycles": [300, 500], "count": 7},  # 100 + 100 a step
        {"points": [[4]], "cycles": [900], "count": 3},  # 100 more a step
    ]
    assert predicting.cycles({"weights": [-3.0, 4.0], "jobs": jobs}) == 4 * 500 - 3 * 300 + 3 * 100


def test_the_fit_sees_neither_the_held_out_half_nor_what_follows_from_other_figures():
    fit_rows, found = rows(("a", 125.0, 100.0), ("b", 250.0, 200.0), split="fit")
    others = []
    for number in range(20):
        config = '{"input_buffer_count": 4}' if number >= 15 else "{}"
        made, more = rows((f"x{number}", 110.0, 100.0), split="held_out" if number < 5 else "fit", config=config)
        if 5 <= number < 10:
            more[f"x{number}"] |= {"ops": [op(xla_cycles=1, sort="product")]}
        elif 10 <= number < 15:
            more[f"x{number}"]["kernels"][0]["by_hand_bytes"] = 1
        others += made
        found |= more
    models = scoring.fitted([*fit_rows, *others], found, {"v5e": ("clock",), "7x": ("clock",)})
    assert list(models) == ["v5e"]
    assert models["v5e"].clock == pytest.approx(0.8, abs=0.006)


def test_figures_of_kernels_are_fitted_to_kernels_alone():
    made, found = rows(("a", 125.0, 100.0), ("b", 250.0, 200.0), split="fit")
    for number in range(4):  # XLA's operations take 40 of their 100 us; the kernels beside them have no say
        more, with_xla = rows((f"x{number}", 50.0 + 40.0, 50.0), split="fit")
        with_xla[f"x{number}"] |= {"ops": [op(xla_cycles=100_000)]}
        made += more
        found |= with_xla
    model = scoring.fitted(made, found, {"v5e": ("clock", "estimate")})["v5e"]
    assert model.clock == pytest.approx(0.8, abs=0.006)
    assert model.estimate == pytest.approx((90 - 50 / 0.8) / 100 * 0.8, abs=0.01)


def test_the_fit_takes_dispatch_off_wall_clock():
    made, found = rows(("short", 120.0, 20.0), ("long", 1350.0, 1000.0), timing="wall_clock", split="fit")
    assert scoring.fitted(made, found, {"v5e": ("clock",)})["v5e"].clock == pytest.approx(0.8, abs=0.006)


def test_intervals_come_from_held_out_rows_by_class_and_chip(monkeypatch):
    monkeypatch.setitem(MODELS, "7x", Model(clock=0.5))
    made, found = rows(("a", 100.0, 125.0), ("b", 200.0, 160.0))
    fit_rows, more = rows(("c", 1000.0, 1.0), split="fit")
    other, of_7x = rows(("d", 100.0, 50.0), chip="7x")
    table = scoring.residuals(report([*made, *fit_rows, *other], found | more | of_7x))
    assert [(entry.tpu, entry.cls, entry.n, entry.groups) for entry in table.classes] == [
        ("7x", "large_blocks", 1, 1),
        ("v5e", "large_blocks", 2, 2),
    ]
    assert (table.classes[1].low, table.classes[1].high) == (0.8, 1.25)
    assert (table.classes[0].low, table.classes[0].high) == (1.0, 1.0)
