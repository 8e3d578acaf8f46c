import pytest

from hawkeye_mcp.profiler.timing import DATASHEET, MODELS, Cost, Model, Pipeline, corrected_us, op_time, total_us

RATES = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e11}


def pipeline_us(transfers, cycles, edge_bytes=0, model=DATASHEET):
    cost = Cost("a", "mosaic", cycles, "static_profile", None, pipeline=Pipeline(tuple(transfers), edge_bytes))
    return op_time(cost, model, **RATES)


def test_the_larger_term_is_the_time_and_is_named():
    schedule = op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 100_000), **RATES)
    assert (schedule.static_us, schedule.hbm_floor_us, schedule.us) == (5.0, 1.0, 5.0)
    assert schedule.bound == "static_schedule"
    assert schedule.method == "static_profile"
    traffic = op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 1_000_000), **RATES)
    assert (traffic.us, traffic.bound) == (10.0, "hbm")


def test_calls_multiply_the_time_but_not_the_terms():
    found = op_time(Cost("a", "xla", 5_000.0, "xla_estimate", 1_000, calls=4), **RATES)
    assert (found.static_us, found.us, found.kind) == (5.0, 20.0, "xla")


def test_a_term_that_is_not_known_stays_null():
    only_bytes = op_time(Cost("a", "xla", None, "static_profile", 100_000), **RATES)
    assert only_bytes.static_us is None
    assert (only_bytes.us, only_bytes.method, only_bytes.bound) == (1.0, "hbm_floor", "hbm")
    only_cycles = op_time(Cost("a", "mosaic", 2_000.0, "static_profile", None), **RATES)
    assert only_cycles.hbm_floor_us is None
    assert only_cycles.us == 2.0
    assert op_time(Cost("a", "xla", None, "static_profile", None), **RATES) is None


def test_operations_follow_one_another():
    ops = [
        op_time(Cost("a", "mosaic", 5_000.0, "static_profile", 0), **RATES),
        op_time(Cost("b", "xla", None, "", 100_000, calls=2), **RATES),
    ]
    assert total_us(ops) == 7.0


def test_a_copy_ahead_of_its_use_is_hidden_until_bandwidth_binds():
    kernel = op_time(Cost("kernel", "mosaic", 5_000.0, "static_profile", 100_000), **RATES)
    small = op_time(Cost("copy", "xla", None, "", 200_000, hidden=True), **RATES)
    assert small.us == 0.0
    assert small.hbm_floor_us == 2.0
    assert total_us([kernel, small]) == 5.0
    large = op_time(Cost("copy", "xla", None, "", 800_000, hidden=True), **RATES)
    assert total_us([kernel, large]) == 9.0  # 1 us and 8 us of traffic, more than the schedule
    assert total_us([kernel, large], Model(hbm=0.9)) == 10.0


def test_figures_do_not_pretend_to_precision():
    found = op_time(Cost("a", "mosaic", 1_234_567.89, "static_profile", None), **RATES)
    assert found.static_us == pytest.approx(1234.57, abs=1e-9)


def test_a_model_slows_each_term_down_by_its_own_share():
    model = Model(clock=0.8, hbm=0.5)
    schedule = op_time(Cost("a", "mosaic", 4_000.0, "static_profile", 100_000), model, **RATES)
    assert (schedule.us, schedule.bound) == (5.0, "static_schedule")
    assert (schedule.static_us, schedule.hbm_floor_us) == (4.0, 1.0)  # the terms stay the datasheet's
    traffic = op_time(Cost("a", "mosaic", 4_000.0, "static_profile", 300_000), model, **RATES)
    assert (traffic.us, traffic.bound) == (6.0, "hbm")


def test_xla_s_estimate_is_taken_at_its_worth_and_a_profile_as_it_is():
    model = Model(estimate=0.5)
    assert op_time(Cost("a", "xla", 4_000.0, "xla_estimate", 0), model, **RATES).us == 2.0
    assert op_time(Cost("a", "xla", 4_000.0, "xla_estimate", 0, product=True), model, **RATES).us == 4.0
    assert op_time(Cost("a", "xla", 4_000.0, "static_profile", 0), model, **RATES).us == 4.0


def test_a_step_hides_no_more_than_the_transfers_beside_it():
    # 10 steps of 2 us; half of them bring 400 kB = 4 us, the rest nothing: 2 us too long each, though 20 us is the mean
    found = pipeline_us([(400_000, 1, 5), (0, 0, 5)], cycles=20_000)
    assert found.us == 5 * 4 + 5 * 2
    assert found.bound == "hbm"
    even = pipeline_us([(200_000, 1, 10)], cycles=20_000)
    assert (even.us, even.bound) == (20.0, "static_schedule")


def test_what_comes_before_the_first_step_and_leaves_after_the_last_hides_behind_nothing():
    assert pipeline_us([(0, 0, 10)], cycles=20_000, edge_bytes=300_000).us == 23.0


def test_blocks_that_change_cost_a_step_something_beside_its_work():
    model = Model(step_us=0.5)
    assert pipeline_us([(100_000, 1, 6), (0, 0, 4)], cycles=20_000, model=model).us == 20 + 6 * 0.5
    assert pipeline_us([(400_000, 1, 6), (0, 0, 4)], cycles=20_000, model=model).us == 6 * 4.5 + 4 * 2


def test_short_steps_wait_for_a_latency_that_is_shorter_than_libtpu_s():
    model = Model(latency=0.6, latency_cycles=1000)
    assert pipeline_us([(10, 1, 100)], cycles=100_000, model=model).us == pytest.approx(60.0)
    assert pipeline_us([(0, 0, 100)], cycles=100_000, model=model).us == pytest.approx(100.0)  # it waits for nothing
    assert pipeline_us([(10, 1, 100)], cycles=200_000, model=model).us == pytest.approx(200.0)  # long enough to hide it
    between = [pipeline_us([(10, 1, 100)], cycles=100 * c, model=model).us for c in (1000, 1200, 1500, 1900, 2000)]
    assert between == sorted(between)


def test_a_pipeline_never_takes_less_than_all_that_the_kernel_moves():
    pipeline = Pipeline(((1000, 1, 10),), 0)
    found = op_time(Cost("a", "mosaic", 2_000.0, "static_profile", 1_000_000, pipeline=pipeline), **RATES)
    assert (found.us, found.bound) == (10.0, "hbm")


def test_a_kept_baseline_is_slowed_down_like_a_new_prediction():
    costs = [Cost("a", "xla", 5_000.0, "static_profile", 100_000), Cost("b", "xla", None, "", 400_000, calls=2)]
    model = Model(clock=0.8, hbm=0.5)
    kept = [op_time(cost, **RATES) for cost in costs]
    anew = total_us([op_time(cost, model, **RATES) for cost in costs], model)
    assert corrected_us(total_us(kept), kept, model) == anew == 6.25 + 2 * 8
    assert corrected_us(100.0, kept, model) == 100.0  # raised to a floor before


def test_every_chip_has_a_model_that_says_what_it_rests_on():
    for model in MODELS.values():
        assert 0.5 < model.clock <= 1.0
        assert 0.5 < model.hbm <= 1.0
        assert model.source
