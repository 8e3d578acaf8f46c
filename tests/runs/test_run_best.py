"""Which kernel of a run is its best."""

import random
from pathlib import Path

import pytest
from run_results import begun, evaluation, record, timing

from hawkeye_mcp import kernels
from hawkeye_mcp.pool import Pool
from hawkeye_mcp.runs import store
from hawkeye_mcp.runs.model import Judged
from hawkeye_mcp.runs.ranking import Ranking


def best(run: store.Run, source: str = "predicted") -> str | None:
    found = store.read(run).best(source)
    return found.evaluation_id if found else None


def improved(run: store.Run) -> list[str]:
    return [result.id for result in store.read(run).evaluations if result.improved]


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    return begun(tmp_path / "run")


def test_the_lower_time_wins_and_a_tie_keeps_the_incumbent(run):
    for id, time_us in (("slow", 50.0), ("fast", 40.0), ("tie", 40.0), ("slower", 60.0)):
        record(run, id, time_us)
    assert best(run) == "fast"
    assert improved(run) == ["slow", "fast"]


def test_predicted_and_measured_times_are_never_set_against_each_other(run):
    record(run, "measured", 90.0, source="measured")
    record(run, "predicted", 10.0)
    record(run, "measured-faster", 80.0, source="measured")
    assert (best(run, "predicted"), best(run, "measured")) == ("predicted", "measured-faster")
    assert improved(run) == ["measured", "predicted", "measured-faster"]


@pytest.mark.parametrize("status", ["incorrect", "rejected", "compile_error", "harness_error", "timeout"])
def test_only_a_correct_kernel_is_best(run, status):
    record(run, "wrong-but-fast", 1.0, status=status)
    assert best(run) is None
    record(run, "right", 50.0)
    assert best(run) == "right"


def test_a_known_time_goes_before_a_bound(run):
    record(run, "bound", 1.0, lower_bound=True)
    assert store.read(run).best_predicted.lower_bound
    record(run, "known", 99.0)
    record(run, "lower-bound", 0.5, lower_bound=True)
    assert best(run) == "known"


def test_the_surer_figure_goes_before_the_larger_one(run):
    record(run, "sure", 50.0, speedup_interval=(1.9, 2.1))
    record(run, "vague", 40.0, speedup_interval=(1.0, 4.0))
    assert best(run) == "sure"


def test_a_kernel_stands_by_its_latest_verdict(run):
    record(run, "first", 50.0, kernel="# a")
    record(run, "other", 60.0)
    record(run, "again", status="incorrect", kernel="# a")
    assert best(run) == "other"


def test_a_fault_of_the_machine_is_no_verdict(run):
    record(run, "first", 50.0, kernel="# a")
    record(run, "again", status="harness_error", kernel="# a")
    assert best(run) == "first"


def test_the_incumbent_judged_again_keeps_its_place_in_a_tie(run):
    record(run, "first", 50.0, kernel="# a")
    record(run, "other", 60.0)
    record(run, "again", 60.0, kernel="# a")
    assert best(run) == "again"
    assert improved(run) == ["first"]


def test_what_another_judge_said_is_out_and_back_with_it(run):
    record(run, "old", 10.0, fingerprint="old")
    record(run, "new", 50.0, fingerprint="new")
    assert best(run) == "new"
    record(run, "old-again", 20.0, fingerprint="old")
    assert best(run) == "old"


def test_run_and_pool_never_disagree(tmp_path):
    """Random kernels, each judged once, ranked by both."""
    draw, pool = random.Random(7), Pool(tmp_path / "pool.sqlite3")
    for mark in map(str, range(12)):
        rankings = {source: Ranking(source) for source in ("predicted", "measured")}
        for number in range(10):
            speedup = draw.choice([0.5, 1.0, 2.0, 2.0, 4.0])
            how = {
                "source": draw.choice(["predicted", "measured"]),
                "lower_bound": draw.random() < 0.2,
                "speedup": None if draw.random() < 0.1 else speedup,
                "speedup_interval": draw.choice([None, (speedup * 0.8, speedup * 1.2), (speedup * 0.3, speedup * 3)]),
            }
            text, status = f"# {number}", draw.choice(["correct"] * 3 + ["incorrect"])
            found = evaluation(f"e{mark}-{number}", text, timing(100 / speedup, **how), status)
            pool.add(text, found, mark)
            figures = found.timing.model_dump(include=set(Judged.model_fields))
            judged = Judged(id=found.id, kernel_sha256=found.kernel_sha256, status=status, fingerprint=mark, **figures)
            for ranking in rankings.values():
                ranking.take(judged)
        for source, ranking in rankings.items():
            (listed,) = pool.best("8p_GEMM", "v5e", source, 1, mark) or [None]
            assert (ranking.incumbent and ranking.incumbent.id) == (listed and listed.id), (mark, source)


def test_the_best_names_files_that_are_there(run):
    record(run, "one", 50.0, kernel="# text")
    found = store.read(run).best_predicted
    assert Path(found.kernel_path).read_text() == "# text"
    assert Path(found.kernel_path).is_absolute()
    assert found.kernel_sha256 == kernels.sha256("# text")
    assert '"one"' in Path(found.evaluation_path).read_text()
