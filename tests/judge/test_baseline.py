import json
from typing import get_args

import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge.baseline import Entry, OpCost, fingerprint, known, timed, write_json
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout
from hawkeye_mcp.profiler.calibration import Calibration

METHODS = get_args(baseline.Method)
VERSIONS = Versions(hawkeye="0", jax="1", jaxlib="2", libtpu="3")
NORM = workloads.load("12p_RMSNorm").model_copy(update={"flops": 1.0, "least_bytes": 1.0})
PEAKS = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e12, "bf16_flops_per_s": 1e14}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and nothing shipped."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path))
    monkeypatch.setattr(baseline, "shipped_path", lambda tpu: tmp_path / "shipped" / f"{tpu}.json")
    return tmp_path


def _entry(mark, us=5.0, **fields):
    cost = OpCost(name="f", kind="xla", method="xla_estimate", cycles=us * 1e3, hbm_bytes=0)
    return Entry(
        workload=NORM.name, tpu="v5e", costs=[cost], peaks=PEAKS, versions=VERSIONS, fingerprint=mark, **fields
    )


def _kept(mark, us=5.0, **fields):
    return _entry(mark, us, **fields).kept()


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


def test_kept_arrays_of_other_shapes_make_another_baseline_of_the_same_code(tmp_path):
    """Two clients may send workloads of one name and text whose arrays differ."""
    (tmp_path / "workload.py").write_text(NORM.code())
    mine = NORM.model_copy(update={"folder": tmp_path})
    kept = NORM.inputs[-1]
    others = [
        mine.model_copy(update={"inputs": (*NORM.inputs[:-1], kept.model_copy(update=change))})
        for change in ({"shape": (8, 8)}, {"dtype": "int8"})
    ]
    assert len({fingerprint(one, "v5e", VERSIONS) for one in (mine, *others)}) == 3


def test_the_fingerprint_ignores_what_does_not_change_the_prediction():
    mark = fingerprint(NORM, "v5e", VERSIONS)
    reworded = NORM.baseline.model_copy(update={"reason": "other words"})
    assert fingerprint(NORM.model_copy(update={"baseline": reworded, "summary": "x"}), "v5e", VERSIONS) == mark
    assert fingerprint(NORM, "v5e", VERSIONS.model_copy(update={"hawkeye": "9"})) == mark
    small = {**NORM.sizes, "check": {"B": 1, "S": 8, "D": 128}}
    assert fingerprint(NORM.model_copy(update={"sizes": small}), "v5e", VERSIONS) == mark


def test_a_baseline_is_found_again_only_under_its_own_fingerprint(cache):
    mark = fingerprint(NORM, "v5e", VERSIONS)
    assert known(NORM, "v5e", VERSIONS) is None
    write_json(_cached(cache), _kept(mark))
    assert known(NORM, "v5e", VERSIONS) == _entry(mark)
    assert known(NORM, "v5e", VERSIONS.model_copy(update={"libtpu": "9"})) is None
    write_json(_cached(cache), _kept("another fingerprint"))
    assert known(NORM, "v5e", VERSIONS) is None


def test_other_calibrations_make_another_baseline(monkeypatch):
    mark = fingerprint(NORM, "v5e", VERSIONS)
    monkeypatch.setattr(baseline, "_calibration", lambda tpu: Calibration(1.0, 1.0, {"copy": 1.5}))
    assert fingerprint(NORM, "v5e", VERSIONS) != mark


@pytest.mark.parametrize("text", ["", "{", '{"workload": "12p', "[]", "null", '{"us": "much"}', '"text"', "\0\0"])
def test_a_damaged_entry_is_as_good_as_none(cache, text):
    for path in (_cached(cache), baseline.shipped_path("v5e")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert known(NORM, "v5e", VERSIONS) is None


def test_a_shipped_baseline_comes_before_the_cache_if_it_fits_and_a_profile_before_both(cache):
    mark = fingerprint(NORM, "v5e", VERSIONS)
    write_json(_cached(cache), _kept(mark, us=5.0))
    write_json(baseline.shipped_path("v5e"), {NORM.name: _kept(mark, us=7.0)})
    assert known(NORM, "v5e", VERSIONS) == _entry(mark, us=7.0)
    write_json(_cached(cache), _kept(mark, us=5.0, profiled=True))
    assert known(NORM, "v5e", VERSIONS) == _entry(mark, us=5.0, profiled=True)
    write_json(baseline.shipped_path("v5e"), {NORM.name: _kept("stale", us=7.0)})
    assert baseline.shipped(NORM, "v5e", VERSIONS) is None


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


def _op(name, sort="product", *, xla=None, hbm=1000, products=(), calls=1, **rest):
    return {
        "name": name, "opcode": "fusion", "xla_cycles": xla, "hbm_bytes": hbm, "calls": calls, "mosaic": False,
        "ahead": False, "small": False, "sort": sort, "elements": 1 << 20, "partial": 0, "products": list(products), "skips": False,
        "call": None,
    } | rest  # fmt: skip


def _matmul(flops):
    return {"flops": flops, "depth": 1024, "width": 1024}


class _Compiler:
    """Compiles any workload to given operations; at smaller sizes to `short` in turn, if there are any."""

    def __init__(self, ops, short=(), plan=None, refuses=None):
        self._programs, self._plan, self._refuses = [ops, *(short or ())], plan, refuses

    async def call(self, method, timeout_s, **params):
        if self._refuses:
            raise self._refuses
        if method == "plan_xla_kernel":
            return self._plan
        return {"ops": self._programs.pop(0), "peaks": PEAKS}


def _profiles(monkeypatch, *answers):
    """What each profile finds, or finds before it fails, one after the other."""
    answers = list(answers)

    async def profiled(method, request, limit_s):
        answer = answers.pop(0)
        return answer if isinstance(answer, tuple) else (answer, None)

    monkeypatch.setattr(baseline, "profiled", profiled)


REGISTERS = {"elementwise": 4.0, "product": 6.0}


@pytest.fixture
def calibrated(cache, monkeypatch):
    monkeypatch.setattr(baseline, "_calibration", lambda tpu: Calibration(1.0, 1.0, REGISTERS))


@pytest.mark.anyio
async def test_each_operation_is_costed_by_what_is_known_of_it_and_names_its_method(calibrated):
    ops = [
        _op("matmul", xla=1.2e6, products=[_matmul(1e11)]),  # 1e6 cycles at peak
        _op("tail", "elementwise", xla=9e9),
        _op("pages", "irregular", xla=9e9, hbm=2_000_000),
    ]
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(ops))
    assert [(cost.method, cost.cycles) for cost in entry.costs] == [
        ("xla_estimate", 1.2e6),
        ("roofline_calibrated", 4.0 * 1024),
        ("hbm_floor", None),
    ]
    found = timed(entry, NORM)
    assert found.us == pytest.approx(1200 + 4.096 + 2, abs=0.01)
    assert found.lower_bound, "how long a gather takes its bytes do not say"
    assert "pages: counted with HBM bytes alone" in found.notes[0]
    assert [(share.method, share.share) for share in found.shares][0] == (
        "xla_estimate",
        pytest.approx(0.995, abs=1e-3),
    )
    assert found.method == "xla_estimate"
    assert known(NORM, "v5e", VERSIONS) == entry


@pytest.mark.anyio
async def test_only_a_floor_that_matters_makes_a_lower_bound(calibrated):
    matmul = _op("matmul", xla=1.2e6, products=[_matmul(1e11)])
    for hbm_us, least in ((5, False), (50, True)):
        odd = _op("odd", "unheard of", hbm=hbm_us * 1_000_000)
        found = timed(await baseline.compute(NORM, "v5e", VERSIONS, _Compiler([matmul, odd])), NORM)
        assert found.lower_bound is least
    small = _op("odd", "irregular", small=True)
    assert not timed(await baseline.compute(NORM, "v5e", VERSIONS, _Compiler([matmul, small])), NORM).lower_bound


@pytest.mark.anyio
async def test_work_that_depends_on_data_is_counted_with_its_bytes(calibrated):
    ops = [_op("ragged", xla=1e6, products=[_matmul(1e11)], skips=True)]
    found = timed(await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(ops)), NORM)
    assert (found.us, found.method, found.lower_bound) == (0.001, "hbm_floor", True)


@pytest.mark.anyio
async def test_what_runs_an_unknown_number_of_times_is_counted_once_and_says_so(calibrated):
    ops = [_op("f", xla=1.2e6, products=[_matmul(1e11)], calls=0)]
    found = timed(await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(ops)), NORM)
    assert (found.us, found.lower_bound) == (1200.0, True)
    assert found.notes == ["f: run an unknown number of times, counted once"]


KERNEL = _op("softmax", "mosaic", mosaic=True, hbm=1_000_000, call={})
PLAN = {
    "points": [[1], [2]],
    "weights": [-3.0, 4.0],
    "window_bytes": [3_000_000, 1_000_000],
    "lower_bound": False,
    "notes": [],
}


@pytest.mark.anyio
async def test_a_kernel_that_xla_made_is_sampled_even_where_its_profile_dies_with_the_figure_out(
    calibrated, monkeypatch
):
    _profiles(monkeypatch, {"k": 1_000}, ({"k": 5_000}, WorkerDied("Check failed")))
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler([KERNEL], plan=PLAN))
    (cost,) = entry.costs
    assert (cost.cycles, cost.method, cost.hbm_bytes) == (17_000, "static_profile_sampled", 4_000_000)
    assert not timed(entry, NORM).lower_bound


@pytest.mark.anyio
async def test_a_kernel_whose_work_depends_on_data_is_not_sampled(calibrated, monkeypatch):
    _profiles(monkeypatch)
    plan = PLAN | {"lower_bound": True, "notes": ["kernel k: its grid is computed at run time"]}
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler([KERNEL], plan=plan))
    assert timed(entry, NORM).lower_bound
    assert entry.notes == plan["notes"]


@pytest.mark.anyio
async def test_a_kernel_whose_profile_dies_counts_with_its_bytes(calibrated, monkeypatch):
    _profiles(monkeypatch, {"k": 1_000}, ({}, REFUSED))
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler([KERNEL], plan=PLAN))
    found = timed(entry, NORM)
    assert (found.us, found.lower_bound) == (1.0, True)
    assert found.notes[0].startswith("no static profile of softmax with grid [2]: Static LLO profiling of fusion.6")


REFUSED = WorkerDied(
    "compile_baseline: the worker ended with code -6. "
    "F1130 09:16:34.369763   10068 llo_dumper.cc:1778] Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX | "
    "F1130 09:16:34.369763   10068 llo_dumper.cc:1778] Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX"
)


def _two(**names):
    return [_op(names["first"], xla=1.2e6, products=[_matmul(1e11)]), _op(names["second"], "elementwise", xla=9)]


@pytest.mark.anyio
async def test_with_a_profile_cycles_go_straight_through_the_two_sizes_operation_by_operation(calibrated, monkeypatch):
    low, high = NORM.baseline.at  # of B, which is 8 at full size
    assert (low, high, NORM.sizes["full"]["B"]) == (2, 4, 8)
    full, *short = (_two(first=a, second=b) for a, b in (("f", "g"), ("x", "y"), ("p", "q")))
    _profiles(monkeypatch, {"x": 1_000, "y": 100}, ({"p": 1_600}, REFUSED))  # q comes after what aborts
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(full, short), profile=True)
    assert [(cost.name, cost.cycles, cost.method) for cost in entry.costs] == [
        ("f", 1_600 + 300 * 4, "static_profile_extrapolated"),  # 300 cycles for each further B
        ("g", 4.0 * 1024, "roofline_calibrated"),
    ]
    assert entry.profiled
    assert entry.notes == ["the profile at B=4 ended early: Static LLO profiling of fusion.6 failed: UNIMPLEMENTED: kX"]


@pytest.mark.anyio
async def test_other_operations_at_the_profiled_sizes_are_not_extrapolated_and_it_says_so(calibrated, monkeypatch):
    full, *short = (_two(first="f", second="g") for _ in range(3))
    short[1].append(_op("more", xla=5))
    _profiles(monkeypatch, {"f": 1_000, "g": 1}, {"f": 1_600, "g": 2})
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(full, short), profile=True)
    assert entry.costs[0].method == "xla_estimate"
    assert "other operations at the profiled sizes" in entry.notes[0]


@pytest.mark.anyio
async def test_nothing_is_faster_than_the_work_at_the_chips_peaks(calibrated):
    ops = [_op("f", xla=1.2e6, products=[_matmul(1e11)])]
    entry = await baseline.compute(NORM, "v5e", VERSIONS, _Compiler(ops))
    found = timed(entry, NORM.model_copy(update={"least_bytes": 5e9}))
    assert (found.us, found.method, found.lower_bound) == (5000.0, "hbm_floor", True)
    found = timed(entry, NORM.model_copy(update={"flops": 1e13}))
    assert (found.us, found.method, found.lower_bound) == (100_000.0, "flop_floor", True)
    assert "its FLOPs at peak" in found.notes[-1]
    found = timed(entry, NORM.model_copy(update={"flops": 1.22e11}))
    assert (found.us, found.method, found.lower_bound) == (1220.0, "xla_estimate", False), "a rounding, no floor"


@pytest.mark.anyio
async def test_what_the_compiler_refuses_is_kept_with_its_words_and_has_no_time(cache):
    words = "JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: (17.56G) exceeds (15.75G)"
    compiler = _Compiler([], refuses=WorkerError("JaxRuntimeError", words, ""))
    baselines = baseline.Baselines(compiler, VERSIONS)
    for _ in range(2):
        with pytest.raises(WorkerError, match="CompileTimeHbmOom"):
            await baselines.get(NORM, "v5e")
    assert known(NORM, "v5e", VERSIONS).refused == words


@pytest.mark.anyio
async def test_where_this_machine_ran_out_of_time_the_baseline_is_remembered_but_not_kept(calibrated, monkeypatch):
    _profiles(monkeypatch, ({}, WorkerTimeout("profile_xla_kernel ran longer than 120 s")))
    baselines = baseline.Baselines(_Compiler([KERNEL], plan=PLAN), VERSIONS)
    found = await baselines.get(NORM, "v5e")
    assert found.lower_bound
    assert known(NORM, "v5e", VERSIONS) is None
    assert await baselines.get(NORM, "v5e") == found  # a second profile would raise: there is no second answer


@pytest.mark.parametrize("tpu", TPUS)
def test_what_is_shipped_can_be_read_and_timed(tpu):
    entries = json.loads(baseline.shipped_path(tpu).read_text())
    assert list(entries) == sorted(entries)
    for name, kept in entries.items():
        entry = Entry.model_validate(kept)
        assert (entry.workload, entry.tpu, entry.passing) == (name, tpu, False)
        assert entry.kept() == kept
        if entry.refused is None:
            found = timed(entry, workloads.load(name))
            assert sum(share.share for share in found.shares) == pytest.approx(1, abs=0.001)
            assert {share.method for share in found.shares if share.share > 0.5} <= {*METHODS, "flop_floor"}
