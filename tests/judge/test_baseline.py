import json

import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge.baseline import Baseline, fingerprint, known, write_json
from hawkeye_mcp.judge.workers import WorkerDied, WorkerTimeout

VERSIONS = Versions(hawkeye="0", jax="1", jaxlib="2", libtpu="3")
NORM = workloads.load("12p_RMSNorm")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and nothing shipped."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path))
    monkeypatch.setattr(baseline, "shipped_path", lambda tpu: tmp_path / "shipped" / f"{tpu}.json")
    return tmp_path


def _entry(mark, us=5.0):
    return Baseline(
        workload=NORM.name, tpu="v5e", us=us, method="test", ops=[], versions=VERSIONS, fingerprint=mark
    ).model_dump(mode="json")


def _cached(cache):
    return cache / "baselines" / f"{NORM.name}-v5e-{fingerprint(NORM, 'v5e', VERSIONS)}.json"


def test_the_fingerprint_covers_code_sizes_points_chip_and_compiler(tmp_path):
    mark = fingerprint(NORM, "v5e", VERSIONS)
    assert fingerprint(NORM, "v5e", VERSIONS) == mark
    changed = tmp_path / "workload.py"
    changed.write_text(NORM.code() + "\n# changed\n")
    others = [
        fingerprint(NORM.model_copy(update={"folder": tmp_path}), "v5e", VERSIONS),
        fingerprint(NORM.model_copy(update={"sizes": {**NORM.sizes, "full": {"B": 1}}}), "v5e", VERSIONS),
        fingerprint(
            NORM.model_copy(update={"baseline": NORM.baseline.model_copy(update={"at": (1, 2)})}), "v5e", VERSIONS
        ),
        fingerprint(NORM, "v5p", VERSIONS),
        *(fingerprint(NORM, "v5e", VERSIONS.model_copy(update={name: "9"})) for name in ("jax", "jaxlib", "libtpu")),
    ]
    assert len({mark, *others}) == 8


def test_the_fingerprint_ignores_what_does_not_change_the_prediction():
    mark = fingerprint(NORM, "v5e", VERSIONS)
    reworded = NORM.baseline.model_copy(update={"reason": "other words"})
    assert fingerprint(NORM.model_copy(update={"baseline": reworded, "summary": "x"}), "v5e", VERSIONS) == mark
    assert fingerprint(NORM, "v5e", VERSIONS.model_copy(update={"hawkeye": "9"})) == mark
    small = {**NORM.sizes, "check": {"B": 1, "S": 8, "D": 128}}
    assert fingerprint(NORM.model_copy(update={"sizes": small}), "v5e", VERSIONS) == mark


def test_a_baseline_is_found_again_only_under_its_own_fingerprint(cache):
    assert known(NORM, "v5e", VERSIONS) is None
    write_json(_cached(cache), _entry(fingerprint(NORM, "v5e", VERSIONS)))
    assert known(NORM, "v5e", VERSIONS).us == 5.0
    assert known(NORM, "v5e", VERSIONS.model_copy(update={"libtpu": "9"})) is None
    write_json(_cached(cache), _entry("another fingerprint"))
    assert known(NORM, "v5e", VERSIONS) is None


@pytest.mark.parametrize("text", ["", "{", '{"workload": "12p', "[]", "null", '{"us": "much"}', '"text"', "\0\0"])
def test_a_damaged_entry_is_as_good_as_none(cache, text):
    for path in (_cached(cache), baseline.shipped_path("v5e")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert known(NORM, "v5e", VERSIONS) is None


def test_a_shipped_baseline_comes_before_the_cache_and_only_if_it_fits(cache):
    mark = fingerprint(NORM, "v5e", VERSIONS)
    write_json(_cached(cache), _entry(mark, us=5.0))
    write_json(baseline.shipped_path("v5e"), {NORM.name: _entry(mark, us=7.0)})
    assert known(NORM, "v5e", VERSIONS).us == 7.0
    write_json(baseline.shipped_path("v5e"), {NORM.name: _entry("stale", us=7.0)})
    assert known(NORM, "v5e", VERSIONS).us == 5.0


def test_writing_replaces_the_whole_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "new" / "file.json"
    write_json(path, {"a": list(range(1000))})
    write_json(path, {"b": 1})
    assert json.loads(path.read_text()) == {"b": 1}
    assert [each.name for each in path.parent.iterdir()] == ["file.json"]


def _op(name, opcode="fusion", profile=None, xla=100, hbm=1000, calls=1, **rest):
    return {
        "name": name, "opcode": opcode, "profile_cycles": profile, "xla_cycles": xla, "hbm_bytes": hbm,
        "calls": calls, "mosaic": False, "ahead": False, "small": False,
    } | rest  # fmt: skip


def test_cycles_go_straight_through_the_two_profiled_sizes():
    low, high = NORM.baseline.at  # of B, which is 8 at full size
    assert (low, high, NORM.sizes["full"]["B"]) == (2, 4, 8)
    notes = []
    short = [[_op("x", profile=1_000)], [_op("y", profile=1_600)]]
    costs, method, lower_bound = baseline._combine(NORM, [_op("f")], short, notes)
    assert costs[0].cycles == 1_600 + 300 * 4  # 300 cycles for each further B
    assert (costs[0].name, costs[0].method, method) == (
        "f",
        "static_profile_extrapolated",
        "static_profile_extrapolated",
    )
    assert costs[0].hbm_bytes == 1000
    assert notes == []
    assert not lower_bound


def test_other_operations_at_the_profiled_sizes_are_not_extrapolated_and_it_says_so():
    notes = []
    short = [[_op("x", profile=1_000)], [_op("y", "copy", profile=1_600)]]
    costs, method, lower_bound = baseline._combine(NORM, [_op("f")], short, notes)
    assert lower_bound
    assert costs[0].cycles is None
    assert method == costs[0].method == "hbm_floor"
    assert "other operations at the profiled sizes" in notes[0]
    assert any("a speedup is understated" in note for note in notes)


def test_without_both_profiles_only_bytes_count():
    notes = []
    costs, method, lower_bound = baseline._combine(NORM, [_op("f")], [[_op("x", profile=1_000)]], notes)
    assert (costs[0].cycles, method, lower_bound) == (None, "hbm_floor", True)


def test_an_operation_that_costs_nothing_of_note_does_not_disturb_the_match():
    notes = []
    short = [[_op("x", profile=1_000), _op("tiny", "slice", xla=None)], [_op("y", profile=1_600)]]
    full = [_op("f"), _op("scalar", "add", xla=None, small=True), _op("fetch", "copy-start", xla=None, ahead=True)]
    costs, _, lower_bound = baseline._combine(NORM, full, short, notes)
    assert [cost.cycles for cost in costs] == [2_800, None, None]
    assert costs[2].hidden
    assert (notes, lower_bound) == ([], False)


def test_what_runs_unknown_times_or_has_no_figures_makes_a_lower_bound():
    short = [[_op("x", profile=1_000)], [_op("y", profile=1_600)]]
    notes = []
    costs, _, lower_bound = baseline._combine(NORM, [_op("f", calls=0)], short, notes)
    assert (costs[0].calls, lower_bound) == (1, True)
    assert notes == ["f: run an unknown number of times, counted once"]
    notes = []
    costs, method, lower_bound = baseline._combine(NORM, [_op("f"), _op("moved", "copy", xla=None)], short, notes)
    assert (method, costs[1].method, lower_bound) == ("static_profile_extrapolated", "hbm_floor", True)
    assert "no static profile of moved" in notes[0]


class _Compiler:
    """Compiles any workload to one operation of so many bytes."""

    def __init__(self, hbm_bytes):
        self._hbm_bytes = hbm_bytes

    async def call(self, method, timeout_s, **params):
        return {"ops": [_op("f", hbm=self._hbm_bytes)], "peaks": PEAKS}


PEAKS = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e12, "bf16_flops_per_s": 1e14}


def _profiles(monkeypatch, *answers):
    """What the profile at each smaller size answers or raises, one after the other."""
    answers = list(answers)

    async def profiled(workload, tpu, at):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [_op("f", profile=answer)]

    monkeypatch.setattr(baseline, "_profiled", profiled)


@pytest.mark.anyio
async def test_a_baseline_that_could_be_profiled_is_no_lower_bound(cache, monkeypatch):
    _profiles(monkeypatch, 1e7, 2e7)
    found = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(2_000_000_000))
    assert (found.us, found.lower_bound) == (40_000.0, False)  # 2e7 cycles and twice 1e7 more
    assert known(NORM, "v5e", VERSIONS) == found


@pytest.mark.anyio
async def test_nothing_is_faster_than_the_work_at_the_chips_peaks(cache, monkeypatch):
    _profiles(monkeypatch, 10.0, 20.0)
    found = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(1000))
    assert found.us == pytest.approx(NORM.least_bytes / 1e12 * 1e6, rel=1e-5)
    assert (found.method, found.lower_bound) == ("hbm_floor", True)
    _profiles(monkeypatch, 10.0, 20.0)
    worked = NORM.model_copy(update={"flops": 1e13})
    found = await baseline.compute(worked, "v5e", VERSIONS, _Compiler(1000))
    assert (found.us, found.method, found.lower_bound) == (100_000.0, "flop_floor", True)
    assert "its FLOPs at peak" in found.notes[-1]


REFUSED = WorkerDied(
    "compile_baseline: the worker ended with code -6. "
    "F1130 09:16:34.369763   10068 llo_dumper.cc:1778] Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX | "
    "F1130 09:16:34.369763   10068 llo_dumper.cc:1778] Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX"
)


@pytest.mark.anyio
async def test_what_the_compiler_refuses_is_kept_with_the_reason_alone(cache, monkeypatch):
    _profiles(monkeypatch, REFUSED)
    found = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(2_000_000_000))
    assert found.lower_bound
    assert found.notes[0] == "no static profile at B=2: Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX"
    assert known(NORM, "v5e", VERSIONS) == found


@pytest.mark.anyio
async def test_where_this_machine_ran_out_of_time_the_baseline_is_remembered_but_not_kept(cache, monkeypatch):
    _profiles(monkeypatch, WorkerTimeout("compile_baseline ran longer than 400 s"))
    baselines = baseline.Baselines(_Compiler(2_000_000_000), VERSIONS)
    found = await baselines.get(NORM, "v5e")
    assert (found.passing, found.lower_bound) == (True, True)
    assert known(NORM, "v5e", VERSIONS) is None
    assert await baselines.get(NORM, "v5e") is found  # a second profile would raise: there is no third answer
    assert "passing" not in found.model_dump()
