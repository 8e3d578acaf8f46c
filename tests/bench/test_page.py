"""The report's page: its figures are those of `results`, what is missing is said, and nothing in it is run or fetched."""

import base64
import hashlib
import re

import numpy as np
import page_reading
import pytest
import run_folders
from hawkeye_bench import page, preregistration, results
from hawkeye_bench.analysis import NO_EVIDENCE, Choices
from hawkeye_bench.cli import app
from hawkeye_bench.page import costs, rendering
from hawkeye_bench.results import RunRow
from synthetic_runs import experiment, run
from typer.testing import CliRunner

WORKLOADS, REPEATS = 8, 2
HOSTILE = "</script></style><img src=x onerror=alert(1)><svg onload=alert(2)>{{ 7 * 7 }}\"' & ]]>"


def written(folder, runs, **changed):
    run_folders.write(folder, runs, **changed)
    return page.write(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An experiment with failures under both conditions, on which everything is known."""
    out = tmp_path_factory.mktemp("runs")
    runs = experiment(3, WORKLOADS, REPEATS, effect=1.4, success=(0.9, 0.7), model="some-model")
    written(out, run_folders.on_workloads(runs))
    return out


@pytest.fixture(scope="module")
def found(folder):
    return results.read(folder)


@pytest.fixture(scope="module")
def document(folder):
    return page_reading.read(folder / page.NAME)


def ratio(value):
    return f"{value:.3f}x"


def test_the_headline_is_the_primary_effect_with_its_interval_tests_and_source(document, found):
    said, effect = document.words("headline"), found.effect
    assert said.startswith(f"{ratio(effect.geomean)} measured {effect.told}")
    assert f"95% interval {effect.ci95[0]:.3f} to {effect.ci95[1]:.3f}" in said
    assert f"{effect.n_pairs} pairs on {effect.n_workloads} workloads" in said
    assert "times measured on a chip" in said
    assert "Not preregistered" in said
    assert "predicted" not in said


def test_every_table_has_the_numbers_of_the_results(document, found):
    sensitivity = [row for row in document.rows["sensitivity"] if len(row) == 10][1:]
    assert [(row[0].split()[0], row[2], row[7], row[9]) for row in sensitivity] == [
        (one.failures, ratio(one.geomean), str(one.n_pairs), str(one.n_failed_pairs))
        for one in found.comparisons[0].sensitivity
    ]
    assert {row[0]: row[1] for row in document.rows["workloads"][1:]} == {
        one.workload: ratio(one.ratio) for one in found.comparisons[0].workloads
    }
    shares = {row[0]: row[1:3] for row in document.rows["success"] if len(row) == 4}
    assert shares["none"] == [str(found.success["none"].runs), str(found.success["none"].correct)]
    paired = found.comparisons[0].success
    counts = next(row for row in document.rows["success"] if row[0] == "taxonomy, none")
    assert counts[1:5] == [str(n) for n in (paired.both, paired.only_treatment, paired.only_control, paired.neither)]
    rows = document.rows["runs"][1:]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (one.workload, one.condition, ratio(one.speedup) if one.speedup else "-") for one in found.runs
    ]
    assert [row[10] for row in rows] == [f"{one.tokens:,}" if one.tokens else "-" for one in found.runs]


def test_the_cost_of_a_condition_is_the_sum_of_its_runs(document, found):
    mine = [one for one in found.runs if one.condition == "taxonomy"]
    row = next(row for row in document.rows["cost"] if row[0] == "taxonomy")
    assert row[1:3] == [str(len(mine)), str(sum(one.evaluations for one in mine))]
    assert row[5].split()[0] == f"{sum(one.tokens for one in mine):,}"
    assert row[6].split()[0] == f"${sum(one.cost_usd for one in mine):,.2f}"


def test_what_no_run_tells_is_unknown_and_never_0():
    some = [run(), run("w1"), run("w2")]
    rows = [
        RunRow(**one.model_dump(include=set(RunRow.model_fields)), tokens=300 if one.workload == "w1" else None)
        for one in some
    ]
    (cost,) = costs.by_condition(rows, some)
    assert (cost.cost_usd.total, cost.cost_usd.mean, cost.cost_usd.runs) == (None, None, 0)
    assert (cost.tokens.total, cost.tokens.mean, cost.tokens.runs) == (300, 300, 1)


def test_every_figure_says_its_source_and_every_drawing_has_a_name_and_a_phones_twin(document):
    drawn = [attributes for attributes in document.named("svg") if attributes.get("role") == "img"]
    assert len(drawn) > 10 and all(attributes["aria-label"] for attributes in drawn)
    classes = [attributes.get("class") for attributes in document.named("div")]
    assert classes.count("wide") == classes.count("narrow") > 5
    for section in ("sensitivity", "workloads", "success", "progress", "cells", "roofline"):
        assert "measured" in document.words(section), section
        assert "predicted" not in document.words(section), section


def test_each_run_has_a_row_a_line_and_a_page_with_its_kernels(folder, document, found):
    pages = page_reading.run_pages(folder / page.NAME)
    keys = [f"{one.workload}/{one.condition}/{one.repeat}" for one in found.runs]
    assert list(pages) == keys
    assert [a["data-key"] for a in document.named("tr") if "data-key" in a] == keys
    assert {a["data-key"] for a in document.named("a") if "data-key" in a} == set(keys)
    for one in found.runs:
        key = f"{one.workload}/{one.condition}/{one.repeat}"
        inside = page_reading.Document(pages[key])
        kernels = len(list((folder / key / "kernels").glob("*.py")))
        assert len([d for d in inside.named("details") if d.get("class") == "version"]) == kernels
        if one.status == "correct":
            assert f"{ratio(one.speedup)} measured" in inside.words("")
            assert "judged again" in inside.words("")


def test_nothing_is_fetched_and_only_the_pages_own_script_may_run(folder, document):
    html = (folder / page.NAME).read_text()
    policy = document.named("meta")[1]["content"]
    script, style = html.rsplit("<script>", 1)[1].split("</script>")[0], html.split("<style>")[1].split("</style>")[0]
    for kind, text in (("script-src", script), ("style-src", style)):
        allowed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{allowed}'" in policy
    assert "default-src 'none'" in policy
    for _, attributes in document.elements:
        assert "src" not in attributes and "style" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]


def test_the_same_folder_gives_the_same_page(folder):
    before = (folder / page.NAME).read_bytes()
    assert page.write(folder).read_bytes() == before


def test_hostile_text_stays_text(tmp_path):
    """What a model, a kernel, a message or a client wrote is shown as it is, and is nothing else."""
    rng = np.random.default_rng(1)
    runs = [run("w0", name, model=HOSTILE, agent="<b>agent</b>") for name in ("none", "taxonomy")]
    run_folders.write(tmp_path, runs)
    kernel = f"x = 1  # {HOSTILE}\n"
    for number, one in enumerate(runs, start=2):
        changed = one.model_copy(update={"repeat": 2, "error": HOSTILE, "no_power": HOSTILE, "algebraic": HOSTILE})
        run_folders.write_run(tmp_path, changed, rng, texts=[kernel, kernel * number], message=HOSTILE)
    run_folders.write(tmp_path / "plan", [one.model_copy(update={"repeat": 2}) for one in runs])
    (tmp_path / "plan" / "plan.json").rename(tmp_path / "plan.json")
    path = page.write(tmp_path)
    whole, pages = page_reading.read(path), page_reading.run_pages(path)
    assert [a.get("type", "code") for a in whole.named("script")] == ["text/plain"] * 4 + ["code"]
    for html in (path.read_text(), *pages.values()):
        inside = page_reading.Document(html)
        assert not inside.named("img") and not [a for a in inside.named("svg") if "onload" in a]
    assert HOSTILE in whole.text["overview"] and "<b>agent</b>" in whole.text["overview"]
    shown = page_reading.Document(pages["w0/taxonomy/2"]).text[""]
    assert shown.count(f"+x = 1  # {HOSTILE}") == 3  # the first version, then two lines more
    assert shown.count(HOSTILE) >= 8


def test_one_condition_has_no_paired_effect_and_says_what_is_missing(tmp_path):
    document = page_reading.read(written(tmp_path, [run(f"w{n}", "none", speedup=1.5) for n in range(3)]))
    assert "No paired effect: no run under taxonomy has ended." in document.words("headline")
    assert "--condition taxonomy and --condition none" in document.words("headline")
    for section in ("headline", "sensitivity", "workloads"):
        assert "1.5" not in document.words(section)
        assert not document.rows.get(section)
    assert "No condition of this folder has cells to read." in document.words("cells")
    assert len(document.rows["runs"]) == 4


def test_the_builtin_optimisers_caveat_stands_where_the_figure_would(tmp_path):
    runs = experiment(3, 7, 1, model="builtin optimiser (not a language model)", success=(1, 1))
    said = page_reading.read(written(tmp_path, runs)).words("headline")
    assert said.startswith(f"{NO_EVIDENCE} No figure for the paired effect (7 pairs on 7 workloads).")
    assert not re.search(r"\d\.\d{3}x", said)
    # So does every drawing.
    document = page_reading.read(tmp_path / page.NAME)
    for section in ("workloads", "success", "progress", "failures", "runs"):
        assert NO_EVIDENCE in document.words(section), section
    assert all(NO_EVIDENCE in html for html in page_reading.run_pages(tmp_path / page.NAME).values())


@pytest.mark.parametrize(
    ("changed", "caveat"),
    [({"model": "scripted"}, rendering.SCRIPTED), ({"agent": "replay", "model": "replay of x"}, rendering.REPLAYED)],
)
def test_scripts_and_replays_say_so_in_the_headline(tmp_path, changed, caveat):
    said = page_reading.read(written(tmp_path, experiment(3, 7, 1, success=(1, 1), **changed))).words("headline")
    assert said.startswith(caveat)
    assert rendering.caveats([run(model="some-model")]) == []


def test_predicted_and_measured_are_never_in_one_figure(tmp_path):
    runs = experiment(3, 6, 1, success=(1, 1), model="m")
    runs += [
        one.model_copy(update={"workload": f"p{one.workload}", "source": "predicted"})
        for one in experiment(4, 7, 1, success=(1, 1), model="m")
    ]
    document = page_reading.read(written(tmp_path, runs))
    said = document.words("workloads")
    assert "measured, of each best kernel judged again; geometric means of 6 pairs" in said
    assert "predicted, of each best kernel judged again; geometric means of 7 pairs" in said
    assert document.words("headline").split()[1] == "predicted"
    assert "not measured on a chip" in document.words("headline")


def test_records_without_logs_make_a_page_that_says_so(tmp_path):
    runs = [run("w0", "none", speedup=1.5), run("w0", "taxonomy", status="no_kernel")]
    run_folders.write(tmp_path, runs)
    for name in ("calls.jsonl", "transcript.jsonl", "judged_again.json"):
        for path in tmp_path.glob(f"*/*/*/{name}"):
            path.unlink()
    document = page_reading.read(page.write(tmp_path))
    assert "No judgement is logged. 2 runs left no call log" in document.words("failures")
    assert "No curve" in document.words("progress")
    assert "1 best kernel of unknown place w0, none #1: the last judgement was not kept" in document.words("roofline")
    inside = page_reading.Document(page_reading.run_pages(tmp_path / page.NAME)["w0/none/1"]).words("")
    assert "No step is logged." in inside and "It was not kept in a form that can be read." in inside


def test_failures_alone_make_a_page_without_curves(tmp_path):
    runs = [run("w0", name, status="no_correct_kernel") for name in ("none", "taxonomy")]
    document = page_reading.read(written(tmp_path, runs))
    assert "no pair in which a correct kernel has a time" in document.words("headline")
    assert "No fast_p curve" in document.words("success")
    assert "No workload has a pair" in document.words("workloads")


def test_deviations_from_the_registered_plan_are_in_the_headline(tmp_path):
    runs = experiment(3, 6, 1, success=(1, 1), model="m", started="2999-01-01T00:00:00+00:00")
    run_folders.write(tmp_path / "other", runs[1:])
    registered = results.plan_of(tmp_path / "other").model_copy(update={"reps": 2})
    kept = preregistration.preregister(tmp_path, registered, Choices(resamples=999))
    said = page_reading.read(written(tmp_path, runs)).words("headline")
    assert kept.sha256 in said
    assert "reps: 2 was registered, now 1" in said


def test_a_folder_too_large_for_one_file_loses_kernels_and_says_how_many(tmp_path, monkeypatch):
    run_folders.write(tmp_path, [run(f"w{n}", "none", speedup=1.5, model="m") for n in range(4)])
    whole = page.write(tmp_path).read_text()
    lengths = [len(one) for one in re.findall(r'class="run-data"[^>]*>([^<]*)<', whole)]
    monkeypatch.setattr(rendering, "LARGEST_PAGES_BYTES", lengths[0] + lengths[1])
    document = page_reading.read(page.write(tmp_path))
    assert "2 runs have a page without kernels and profiles" in document.words("remarks")
    pages = page_reading.run_pages(tmp_path / page.NAME)
    assert ["Left out, so that this file" in pages[f"w{n}/none/1"] for n in range(4)] == [False, False, True, True]


def test_report_writes_the_page_and_says_where_and_as_json_writes_nothing(tmp_path):
    run_folders.write(tmp_path, experiment(3, 6, 1, success=(1, 1), model="m"))
    plain = CliRunner().invoke(app, ["report", str(tmp_path), "--json"])
    assert plain.exit_code == 0 and not (tmp_path / page.NAME).exists()
    told = CliRunner().invoke(app, ["report", str(tmp_path)], env={"COLUMNS": "300"})
    assert told.exit_code == 0, told.output
    assert str(tmp_path / page.NAME) in told.output
    (tmp_path / page.NAME).unlink()
    (tmp_path / page.NAME).mkdir()  # as little to be written over as a folder that is read-only
    refused = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert refused.exit_code == 1
    assert "The page was not written" in refused.output
