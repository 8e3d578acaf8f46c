"""From records of runs to effects: what is paired, how failures count, what is never in one ratio, what is no evidence."""

import math

import pytest
from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import NO_EVIDENCE, Choices, analyse, choices_for
from scipy import stats
from synthetic_runs import experiment, run

FAST = Choices(resamples=999)


def effect(runs, **choices):
    return analyse(runs, FAST.model_copy(update=choices)).primary.effect


def both(workload, one, other, repeat=1, **changed):
    """A pair of runs with these speedups; None fails."""

    def of(condition, speedup):
        outcome = {"status": "no_kernel"} if speedup is None else {"speedup": speedup}
        return run(workload, condition, repeat, **outcome | changed)

    return [of("taxonomy", one), of("none", other)]


def test_a_workload_weighs_the_same_however_many_repeats_it_has():
    """2 on one workload and 0.5 on six repeats of the other: no effect, where a mean of pairs would say 0.61."""
    runs = [*both("w0", 2.0, 1.0), *(one for repeat in range(1, 7) for one in both("w1", 0.5, 1.0, repeat))]
    found = effect(runs)
    assert (found.geomean, found.n_pairs, found.n_workloads) == (pytest.approx(1.0), 7, 2)


def test_ratios_are_of_the_same_repeat_on_the_same_chip():
    runs = [*both("w0", 3.0, 1.0, 1), *both("w0", 3.0, 4.0, 2, tpu="v6e"), *both("w0", 8.0, 4.0, 1, tpu="v6e")]
    ratios = pairing.log_ratios(pairing.pair_up(runs, "taxonomy", "none")[0], "baseline", 0.5)
    assert [math.exp(one) for one in ratios["w0"]] == pytest.approx([3.0, 0.75, 2.0])


def test_failures_count_in_three_ways_and_all_are_shown():
    runs = [*both("w0", 2.0, None), *both("w1", None, 4.0), *both("w2", 3.0, 2.0), *both("w3", None, None)]
    found = analyse(runs, FAST)
    by_rule = {one.failures: one for one in found.primary.sensitivity}
    assert by_rule["baseline"].geomean == pytest.approx((2 * (1 / 4) * 1.5 * 1) ** (1 / 4))
    assert by_rule["penalised"].geomean == pytest.approx(((2 / 0.5) * (0.5 / 4) * 1.5 * 1) ** (1 / 4))
    assert by_rule["dropped"].geomean == pytest.approx(1.5)
    assert [by_rule[rule].n_pairs for rule in ("baseline", "dropped", "penalised")] == [4, 1, 4]
    assert {one.n_failed_pairs for one in by_rule.values()} == {3}
    assert found.primary.effect == by_rule["baseline"]
    assert effect(runs, failures="dropped") == by_rule["dropped"]


def test_a_penalised_failure_is_never_better_than_a_correct_kernel():
    runs = [*both("w0", 0.2, None), *both("w1", 3.0, 2.0)]
    found = analyse(runs, FAST)
    assert found.penalised_score == 0.2
    assert {one.workload: one.ratio for one in analyse(runs, Choices(failures="penalised")).primary.workloads} == {
        "w0": pytest.approx(1.0),
        "w1": pytest.approx(1.5),
    }


def test_predicted_and_measured_are_never_in_one_ratio_or_one_mean():
    runs = [
        *both("w0", 2.0, 1.0),
        *both("w1", 3.0, 1.0, source="predicted"),
        *both("w2", 5.0, 1.0),
        run("w3", "taxonomy", speedup=7.0, source="predicted"),
        run("w3", "none", speedup=1.0),
    ]
    found = analyse(runs, FAST)
    assert (found.primary.effect.source, found.primary.effect.geomean) == ("measured", pytest.approx(10**0.5))
    rest = [one for one in found.primary.sensitivity if one.source == "predicted"]
    assert [one.geomean for one in rest] == pytest.approx([3.0] * 3)
    assert [(one.workload, one.why) for one in found.primary.left_out] == [
        ("w3", "one speedup is predicted and the other measured")
    ]
    assert set(found.fast_p["taxonomy"]) == {"predicted", "measured"}
    at_4 = {source: {p.p: p.share for p in curve}[4.0] for source, curve in found.fast_p["taxonomy"].items()}
    assert at_4 == {"predicted": 0.5, "measured": 0.5}
    assert any("some measured" in remark for remark in found.remarks)


def test_two_failures_count_with_the_others_of_their_workload():
    runs = [*both("w0", 4.0, 1.0, 1, source="predicted"), *both("w0", None, None, 2), *both("w1", 2.0, 1.0)]
    pairs, _ = pairing.pair_up(runs, "taxonomy", "none")
    assert [(pair.workload, pair.repeat, pair.source) for pair in pairs] == [
        ("w0", 1, "predicted"),
        ("w0", 2, "predicted"),
        ("w1", 1, "measured"),
    ]


def test_what_is_no_pair_is_named_with_its_reason():
    runs = [
        *both("w0", 2.0, 1.0),
        run("w1", "taxonomy"),
        run("w2", "none"),
        *both("w3", 9.0, 1.0, lower_bound=True),
        run("w4", "taxonomy", speedup=None, source=None),
        run("w4", "none"),
        *both("w5", 9.0, 1.0, no_power="The matmul is dead."),
        run("w6", "taxonomy", status="broken", stop="broken"),
        run("w6", "none"),
    ]
    found = analyse(runs, FAST)
    assert found.primary.effect.n_pairs == 1
    why = {one.workload: one.why for one in found.primary.left_out}
    assert why == {
        "w1": "no run under none",
        "w2": "no run under taxonomy",
        "w3": "only a lower bound is known for the time under taxonomy",
        "w4": "no time is known for the correct kernel under taxonomy",
        "w5": "no inputs can tell a wrong kernel: The matmul is dead.",
        "w6": "the run under taxonomy is broken and to be repeated",
    }
    assert any(remark.startswith("w5 is in no figure") for remark in found.remarks)
    # Without power and broken runs; a lower bound is still a correct kernel.
    assert (found.success["taxonomy"].runs, found.success["taxonomy"].correct) == (4, 4)


def test_a_workload_that_algebra_can_win_is_counted_and_named():
    found = analyse([*both("w0", 2.0, 1.0, algebraic="The last sum.")], FAST)
    assert [(one.workload, one.algebraic) for one in found.primary.workloads] == [("w0", "The last sum.")]
    assert any("w0" in remark and "algebra" in remark for remark in found.remarks)


def test_the_builtin_optimiser_is_no_evidence():
    found = analyse(experiment(1, model="builtin optimiser (not a language model)"), FAST)
    for one in found.primary.sensitivity:
        assert (one.geomean, one.ci95, one.wilcoxon_p, one.told, one.why) == (None, None, None, None, NO_EVIDENCE)
    assert (found.primary.success.mcnemar_p, found.primary.success.sign_flip_p) == (None, None)
    assert NO_EVIDENCE in found.remarks
    assert len(found.primary.workloads) == 12  # what the plumbing did is still there to see


def test_too_few_workloads_get_an_estimate_and_no_interval():
    runs = [one for number in range(5) for one in both(f"w{number}", 2.0, 1.0)]
    found = effect(runs)
    assert found.geomean == pytest.approx(2.0)
    assert (found.ci95, found.wilcoxon_p, found.told) == (None, None, None)
    assert "5 workloads: 6 are the least" in found.why
    six = analyse([*runs, *both("w5", 2.1, 1.0)], FAST)
    assert six.primary.effect.ci95 is not None
    assert any("too short if only a few" in remark for remark in six.remarks)


def test_without_a_correct_kernel_or_without_one_condition_there_is_no_figure():
    found = effect([one for number in range(8) for one in both(f"w{number}", None, None)])
    assert (found.geomean, found.n_pairs) == (None, 8)
    assert found.why == "no pair in which a correct kernel has a time"
    alone = analyse([run("w0", "taxonomy")], FAST)
    assert (alone.primary.effect.geomean, alone.primary.effect.n_pairs) == (None, 0)
    assert len(alone.comparisons) == 1


def test_a_known_effect_is_told_with_its_interval_and_its_p():
    found = effect(experiment(4, workloads=20, effect=1.5, success=(1, 1)))
    low, high = found.ci95
    assert 1 < low < 1.5 < high < 1.7
    assert found.told == "faster"
    assert found.wilcoxon_p < 0.001 and found.sign_flip_p < 0.001
    swapped = effect(experiment(4, workloads=20, effect=1.5, success=(1, 1)), treatment="none", control="taxonomy")
    assert swapped.told == "slower"
    assert swapped.geomean == pytest.approx(1 / found.geomean)
    assert effect(experiment(4, workloads=20, effect=1.0, success=(1, 1))).told == "not told apart"


def test_what_is_predicted_is_told_only_beyond_the_errors_of_predictions():
    def predicted(spread):
        runs = experiment(4, workloads=20, effect=1.2, success=(1, 1), source="predicted")
        if spread is None:
            return effect(runs)
        return effect(
            [one.model_copy(update={"speedup_interval": (one.speedup / spread, one.speedup * spread)}) for one in runs]
        )

    sure, unsure, unknown = predicted(1.01), predicted(2.5), predicted(None)
    assert sure.ci95 == unsure.ci95 == unknown.ci95
    assert sure.told == "faster"
    assert sure.ci95_with_prediction_error == pytest.approx(sure.ci95, abs=0.02)
    assert unsure.ci95_with_prediction_error[0] < 1 < unsure.ci95[0]
    assert (unsure.told, unknown.told) == ("not told apart", "not told apart")
    assert unknown.ci95_with_prediction_error is None and "not known" in unknown.why


def test_success_is_paired_and_needs_no_time():
    runs = [
        *(one for number in range(7) for one in both(f"w{number}", 2.0, None)),
        *both("w7", None, 1.0),
        *both("w8", 2.0, 2.0, lower_bound=True),
        *both("w9", None, None),
    ]
    found = analyse(runs, FAST).primary.success
    assert (found.both, found.only_treatment, found.only_control, found.neither) == (1, 7, 1, 1)
    assert found.mcnemar_p == pytest.approx(stats.binomtest(7, 8).pvalue)
    assert found.sign_flip_p == pytest.approx(found.mcnemar_p)  # one pair on each workload: the same test


def test_fast_p_is_of_all_runs_and_weighs_workloads_alike():
    runs = [
        run("w0", "none", 1, speedup=2.5),
        run("w0", "none", 2, speedup=1.1),
        run("w1", "none", 1, status="no_correct_kernel"),
        run("w2", "none", 1, speedup=9.0, lower_bound=True),
    ]
    curve = {one.p: one.share for one in analyse(runs, FAST).fast_p["none"]["measured"]}
    assert curve[0.0] == pytest.approx(2 / 3)
    assert curve[1.0] == pytest.approx(1 / 3)  # a bound may be less
    assert curve[1.1] == curve[2.0] == pytest.approx(1 / 6)  # more than, not at least
    assert curve[2.5] == 0


def test_secondary_comparisons_are_there_and_adjusted():
    runs = experiment(4, workloads=10, effect=1.2)
    runs += [
        one.model_copy(update={"condition": "placebo"})
        for one in experiment(5, workloads=10, effect=1.0)
        if one.condition == "taxonomy"
    ]
    runs += [
        one.model_copy(update={"condition": "menu"})
        for one in experiment(6, workloads=10, effect=1.1)
        if one.condition == "taxonomy"
    ]
    found = analyse(runs, FAST)
    names = [(one.treatment, one.control) for one in found.comparisons]
    assert names == [
        ("taxonomy", "none"),
        ("placebo", "none"),
        ("menu", "none"),
        ("taxonomy", "placebo"),
        ("taxonomy", "menu"),
    ]
    assert [one.primary for one in found.comparisons] == [True, False, False, False, False]
    raw = [one.effect.wilcoxon_p for one in found.comparisons[1:]]
    assert [one.adjusted_p for one in found.comparisons[1:]] == pytest.approx(stats.false_discovery_control(raw))
    assert found.primary.adjusted_p is None


@pytest.mark.parametrize(
    ("conditions", "question"),
    [
        (["none", "taxonomy", "pool", "placebo"], ("taxonomy", "none")),
        (["placebo", "none", "taxonomy"], ("taxonomy", "none")),
        (["taxonomy", "placebo"], ("taxonomy", "placebo")),
        (["pool", "none"], ("pool", "none")),
        (["pool", "full"], ("full", "pool")),
        (["none"], ("taxonomy", "none")),
        (["taxonomy"], ("taxonomy", "none")),
    ],
)
def test_the_primary_question_follows_from_the_conditions(conditions, question):
    found = choices_for(conditions)
    assert (found.treatment, found.control) == question
