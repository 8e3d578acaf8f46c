"""What the page's figures draw: scales and marks, and the figures that they are of."""

import math
import re

import numpy as np
import pytest
import run_folders
from hawkeye_bench import pairs as pairing
from hawkeye_bench.analysis import Choices, analyse
from hawkeye_bench.page import charts, figures_effect, figures_runs, kernels, readings
from hawkeye_bench.page.charts import Scale
from hawkeye_bench.page.history import History
from hawkeye_bench.page.kernels import Roof
from hawkeye_bench.page.series import Series
from markupsafe import Markup
from synthetic_runs import experiment, run

from hawkeye_mcp import workloads
from hawkeye_mcp.calllog import CellRead
from hawkeye_mcp.evaluation import Timing


def test_a_tag_escapes_what_is_in_it_and_in_its_attributes():
    made = charts.tag("text", "<b> & co", Markup("<tspan/>"), aria_label='"><script>', class_="a", y=None)
    assert made == '<text aria-label="&#34;&gt;&lt;script&gt;" class="a">&lt;b&gt; &amp; co<tspan/></text>'


def test_scales_put_values_where_they_belong():
    assert Scale(0, 10, 100, 200)(2.5) == 125
    log = Scale(0.5, 2, 0, 100, log=True)
    assert [log(value) for value in (0.5, 1, 2)] == pytest.approx([0, 50, 100])
    shown = charts.scale([0.9, 1.4], 0, 100, log=True, also=(1.0,))
    assert 0 < shown(0.9) < shown(1.0) < shown(1.4) < 100
    assert charts.scale([3.0, 7.0], 0, 70)(0) == 0


@pytest.mark.parametrize(
    ("scale", "most", "expected"),
    [
        (Scale(0, 11, 0, 1), 8, [0, 2, 4, 6, 8, 10]),
        (Scale(0, 50_000, 0, 1), 5, [0, 10_000, 20_000, 30_000, 40_000, 50_000]),
        (Scale(0.3, 12, 0, 1, log=True), 6, [0.5, 1, 2, 5, 10]),
        (Scale(0.9, 1.5, 0, 1, log=True), 8, [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]),
        (Scale(1e9, 1e15, 0, 1, log=True), 7, [1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15]),
    ],
)
def test_ticks_are_round_and_few(scale, most, expected):
    assert scale.ticks(most) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_ticks_are_inside_and_never_too_many(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        low = float(10 ** rng.uniform(-3, 3))
        scale = Scale(low, low * float(10 ** rng.uniform(0.05, 6)), 0, 1, log=True)
        found = scale.ticks(6)
        assert 1 <= len(found) <= 7 and found == sorted(found)
        assert all(scale.low * 0.998 <= value <= scale.high * 1.002 for value in found)


@pytest.mark.parametrize("rule", pairing.FAILURES)
def test_the_ends_of_a_dumbbell_have_the_ratio_that_the_analysis_gives(rule):
    runs = experiment(3, 6, 4, success=(0.8, 0.6))
    choices = Choices(failures=rule, resamples=999)
    analysis = analyse(runs, choices)
    pairs, _ = pairing.pair_up(runs, "taxonomy", "none")
    found = figures_effect.dumbbells(pairs, choices, analysis.penalised_score, "measured")
    ratios = [one.mean("taxonomy") / one.mean("none") for one in found]
    assert ratios == sorted(ratios, reverse=True)
    expected = {one.workload: one.ratio for one in analysis.primary.workloads}
    assert dict(zip([one.workload for one in found], ratios, strict=True)) == pytest.approx(expected)
    failed = sum(one.failed for one in found)
    assert failed == (0 if rule == "dropped" else sum(one.status != "correct" for one in runs))


def test_the_rule_for_failures_is_where_the_mark_of_a_failure_stands():
    """Two workloads: one with both correct, one whose treatment failed and is drawn at 1."""
    runs = [run("w0", "taxonomy", speedup=4.0), run("w0", "none", speedup=0.25)]
    runs += [run("w1", "taxonomy", status="no_kernel"), run("w1", "none", speedup=2.0)]
    series = Series.of(["none", "taxonomy"], Choices())
    (figure,) = figures_effect.per_workload(runs, Choices(), 0.25, series)
    cross = re.search(r'<path d="M([\d.]+) [^"]*" class="s1 cross">', figure.wide)
    one = re.search(r'<line x1="([\d.]+)"[^>]*class="one">', figure.wide)
    assert float(cross[1]) + 4 == pytest.approx(float(one[1]), abs=0.2)
    assert "16.000x" in figure.wide and "0.500x" in figure.wide
    assert "counted as 1.0" in figure.legend[-1].words


def test_a_condition_keeps_its_colour_and_shape():
    series = Series.of(["placebo", "taxonomy", "none", "menu"], Choices())
    assert dict(series) == {"none": 0, "taxonomy": 1, "menu": 2, "placebo": 3}
    assert [entry.words for entry in series.legend(["taxonomy", "none"])] == ["none", "taxonomy"]
    shapes = {charts.marker(number, 0.0, 0.0, 3, "mark").split(" class=")[0] for number in range(charts.SHAPES)}
    assert len(shapes) == charts.SHAPES


def again(one, **changed):
    found = run_folders.judged(one, "x", "correct", one.speedup)
    timing = Timing(**found.timing.model_dump() | changed)
    return History(again=found.model_copy(update={"timing": timing}), logged=True)


def test_a_kernel_stands_where_its_bytes_and_its_time_put_it():
    one = run("8p_GEMM", speedup=2.0, candidate_us=1_000.0)
    history = again(one)
    (op,) = history.again.timing.ops
    twice = [op.model_copy(update={"calls": 2}), op]
    roof = Roof(bytes_per_s=819e9, flops_per_s=197e12, source="")
    (found,) = kernels.placed([(one, again(one, ops=twice))], roof, {})
    flops = workloads.load("8p_GEMM").flops
    assert found.intensity == pytest.approx(flops / (3 * op.hbm_bytes))
    assert found.flops_per_s == pytest.approx(flops / 1e-3)
    assert found.roof == pytest.approx(min(197e12, found.intensity * 819e9))
    assert kernels.placed([(one, again(one, ops=twice))], None, {})[0].roof is None


def test_what_is_unknown_of_a_kernel_is_listed_with_the_reason():
    known = run("8p_GEMM", speedup=2.0, candidate_us=1_000.0)
    (op,) = again(known).again.timing.ops
    told = [
        (known, History(), "the last judgement was not kept"),
        (known.model_copy(update={"candidate_us": None}), again(known), "no time is known"),
        (known.model_copy(update={"lower_bound": True}), again(known), "only a lower bound of its time is known"),
        (known, again(known, ops=[op, op.model_copy(update={"hbm_bytes": None})]), "the bytes that it moves"),
        (known, again(known, ops=[]), "the bytes that it moves"),
        (known.model_copy(update={"workload": "mine"}), again(known), "its workload is not on this machine"),
    ]
    found = kernels.placed([(one, history) for one, history, _ in told], None, {})
    listed = figures_runs.unplaced(found)
    assert len(listed) == len(told)
    for (_, why), (_, _, expected) in zip(listed, told, strict=True):
        assert why.startswith(expected)
    assert kernels.placed([(run(status="no_kernel"), History())], None, {}) == []
    assert figures_runs.roofline(found, None, Series.of(["none"], Choices())) == []


def test_the_ceilings_are_of_a_profile_that_tells_both():
    hbm, mxu, faster = (819e9, "TpuInfo"), (197e12, "bf16"), (394e12, "8-bit")
    told = [History(ceilings={"hbm": hbm, "mxu": mxu}), History(ceilings={"hbm": hbm}), History()]
    assert kernels.roof(told) == Roof(819e9, 197e12, "TpuInfo; bf16")
    assert kernels.roof([*told, History(ceilings={"hbm": hbm, "mxu": faster})]).flops_per_s == 394e12
    assert kernels.roof(told[1:]) is None


def test_cells_read_are_counted_by_condition_and_set_against_the_pairs_gain():
    cell, other = CellRead(row="01_a", part="guide"), CellRead(row="02_b", part="guide")
    runs = [run("w0", "none", speedup=1.0), run("w1", "none", speedup=2.0), run("w2", "none", status="no_kernel")]
    runs += [
        run("w0", "taxonomy", speedup=2.0, cells_read=[cell, cell, other]),
        run("w1", "taxonomy", speedup=1.0),
        run("w2", "taxonomy", speedup=8.0, cells_read=[cell]),
        run("w0", "placebo", speedup=3.0, cells_read=[cell]),
    ]
    gained = readings.gains(runs, Choices(), penalty=0.5)
    assert [(one.run.condition, one.run.workload, one.ratio) for one in gained] == [
        ("taxonomy", "w0", 2.0),
        ("taxonomy", "w1", 0.5),
        ("taxonomy", "w2", 8.0),
        ("placebo", "w0", 3.0),
    ]
    found = {(one.condition, one.row): one for one in readings.rows(runs, gained, "measured")}
    first = found["taxonomy", "01_a"]
    assert (first.times, first.runs) == (3, 2)
    assert first.gain == pytest.approx(math.sqrt(2.0 * 8.0)) and first.others == pytest.approx(0.5)
    assert found["placebo", "01_a"].gain == pytest.approx(3.0) and found["placebo", "01_a"].others is None
    assert list(found)[0] == ("taxonomy", "01_a")  # most read first
