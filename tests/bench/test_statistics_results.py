"""All results of a folder together, and the Markdown of them."""

import json

import pytest
from bench_fixtures import plan
from hawkeye_bench import power, preregistration, results, results_text, runs
from hawkeye_bench.analysis import Choices
from synthetic_runs import experiment, run

REPEATS, WORKLOADS = 2, 8
PLAN = plan(workloads=[f"w{number}" for number in range(WORKLOADS)], conditions=["none", "taxonomy"], reps=REPEATS)


def keep(out, found, the_plan=PLAN):
    (out / "plan.json").write_text(the_plan.model_dump_json())
    for one in found:
        folder = runs.folder(out, one.workload, one.condition, one.repeat)
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(one.model_dump_json())
        lines = [{"time": "2026-11-30T12:00:01+00:00", "kind": "model", "prompt_tokens": 90, "completion_tokens": 10}]
        (folder / "transcript.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def synthetic(**changed):
    return experiment(3, WORKLOADS, REPEATS, effect=1.6, success=(1, 1), **changed)


def test_a_folder_is_read_whole(tmp_path):
    preregistration.preregister(tmp_path, PLAN, Choices(resamples=999))
    keep(tmp_path, synthetic(started="2999-01-01T00:00:00+00:00"))
    # Neither a try that was set aside nor what an agent wrote counts.
    forged = run("workspaces", "abc", speedup=99.0).model_dump_json()
    for elsewhere in ("w0/none/1.unfinished-1", "workspaces/abc/1", "w0/none/3"):
        (tmp_path / elsewhere).mkdir(parents=True)
        (tmp_path / elsewhere / "run.json").write_text(forged)
    found = results.read(tmp_path)
    assert len(found.runs) == 2 * WORKLOADS * REPEATS
    assert (found.effect.n_pairs, found.effect.source, found.effect.told) == (WORKLOADS * REPEATS, "measured", "faster")
    assert found.choices.resamples == 999  # as registered
    assert found.preregistered.deviations == []
    assert {one.tokens for one in found.runs} == {100}
    assert {curve.axis for curve in found.progress} == {"productive_turns", "tokens"}
    assert results.Results.model_validate_json(found.model_dump_json()) == found
    # What a script reads of it.
    told = json.loads(found.model_dump_json())
    assert {"geomean", "ci95", "wilcoxon_p", "n_pairs", "source"} <= told["effect"].keys()
    assert {"none", "taxonomy"} == told["success"].keys() == told["fast_p"].keys()
    fields = "workload condition repeat agent model status speedup evaluations turns tokens cost_usd".split()
    assert set(fields) <= told["runs"][0].keys()


def test_a_folder_that_is_none_says_what_to_name(tmp_path):
    with pytest.raises(results.NoRuns, match=r"has no plan.json.*name what --out named"):
        results.read(tmp_path)
    keep(tmp_path, [])
    with pytest.raises(results.NoRuns, match=r"no run .* has ended yet; start the bench again"):
        results.read(tmp_path)


def test_the_markdown_says_the_effect_with_its_source_its_rules_and_its_deviations(tmp_path):
    preregistration.preregister(tmp_path, PLAN, Choices(resamples=999))
    keep(tmp_path, synthetic(started="2999-01-01T00:00:00+00:00")[1:])
    found = results.read(tmp_path)
    text = results_text.markdown(found)
    low, high = found.effect.ci95
    assert f"**taxonomy/none: {found.effect.geomean:.3f}x measured, 15 pairs on 8 workloads.**" in text
    assert f"95% interval {low:.3f} to {high:.3f}; Wilcoxon p 0.0078, sign flips p 0.0078: faster." in text
    assert f"sha256 {found.preregistered.sha256}. Deviations:" in text
    assert "- 1 of 32 registered runs have no result: w0 taxonomy #1." in text
    for rule in ("baseline", "dropped", "penalised"):
        assert f"| {rule} | measured | {found.effect.geomean:.3f} |" in text
    assert "- Left out: w0 #1, no run under taxonomy" in text
    assert "None" not in text


def test_a_folder_that_was_not_registered_says_so(tmp_path):
    keep(tmp_path, synthetic(model="builtin optimiser (not a language model)"))
    text = results_text.markdown(results.read(tmp_path))
    assert text.startswith("**taxonomy/none: no figure.** A fixed procedure, not a language model")
    assert "Not preregistered" in text and "None" not in text


def test_failures_alone_make_a_report_too(tmp_path):
    keep(tmp_path, [run("w0", condition, status="no_kernel") for condition in PLAN.conditions])
    text = results_text.markdown(results.read(tmp_path))
    assert "| none | - | 1 | 0% | - | - | - |" in text
    assert "no pair in which a correct kernel has a time (1 pairs on 1 workloads)" in text


def test_the_table_of_power_has_a_line_for_each_repeat_and_its_assumptions():
    given = power.Assumptions(workloads=20, effect=1.5, success_treatment=1, success_control=1)
    found = power.plan_repeats(given, simulations=200, seed=1)
    text = results_text.power_markdown(found)
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 1 + len(found.by_repeats)
    assert "- Assumptions (assumed: " in text
