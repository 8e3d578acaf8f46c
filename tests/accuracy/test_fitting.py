import dataclasses

import pytest

from hawkeye_mcp.accuracy.fitting import fit
from hawkeye_mcp.profiler.timing import DATASHEET, Cost, Model, Pipeline, op_time

RATES = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e11}
COSTS = [
    Cost("schedule", "mosaic", 5e6, "static_profile", 1000),
    Cost("long", "mosaic", 9e6, "static_profile", 1000),
    Cost("traffic", "xla", None, "", 800_000_000),
    Cost("estimated", "xla", 6e6, "xla_estimate", 1000),
    Cost("copy", "xla", None, "", 300_000_000),
    Cost("short", "mosaic", 3e3, "static_profile", 1000),
    Cost("steps", "mosaic", 7.5e5, "static_profile", 1000, pipeline=Pipeline(((100, 2, 1000),), 0)),
    Cost("longer steps", "mosaic", 2e6, "static_profile", 1000, pipeline=Pipeline(((100, 2, 1000),), 0)),
]


def rows(truth, costs=COSTS):
    return [
        (op_time(cost, truth, **RATES).us, lambda model, cost=cost: op_time(cost, model, **RATES).us) for cost in costs
    ]


def test_what_made_the_times_is_found_again():
    truth = Model(clock=0.85, hbm=0.9, step_us=0.2, latency=0.7, estimate=0.45)
    found = fit(rows(truth))
    assert found.clock == pytest.approx(0.85, abs=0.006)
    assert found.hbm == pytest.approx(0.9, abs=0.006)
    assert found.step_us == pytest.approx(0.2, abs=0.015)
    assert found.latency == pytest.approx(0.7, abs=0.015)
    assert found.estimate == pytest.approx(0.45, abs=0.015)


def test_a_figure_that_nothing_shows_stays_the_datasheet_s():
    truth = Model(clock=0.85)
    found = fit(rows(truth, COSTS[:2]))
    assert found == dataclasses.replace(DATASHEET, clock=0.85)


def test_only_what_is_asked_for_is_fitted():
    found = fit(rows(Model(clock=0.85, hbm=0.8)), ("hbm",))
    assert (found.clock, found.step_us, found.latency) == (1.0, 0.0, 1.0)
    assert found.hbm < 0.9


def test_one_bad_row_does_not_decide():
    measured = rows(Model(clock=0.9), COSTS[:2] * 3)
    measured[0] = (measured[0][0] * 10, measured[0][1])
    assert fit(measured, ("clock",)).clock == pytest.approx(0.9, abs=0.006)


def test_rows_that_cannot_be_predicted_are_left_out():
    assert fit([(1.0, lambda model: None)]) == DATASHEET
