"""Prediction: what a time rests on, and when it is a lower bound. Compilers are real where the program matters."""

import base64
import contextlib
from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from exporting import tpu_bytes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import OpTime, Versions
from hawkeye_mcp.judge.baseline import Baseline
from hawkeye_mcp.judge.predict import Predictor
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import WorkerDied, WorkerPool
from hawkeye_mcp.profiler import interval, llo, timing

VERSIONS = Versions(hawkeye="0", jax="1", jaxlib="2", libtpu="3")
# a workload that asks for next to nothing, so that no floor of its own stands in the way
SMALL = workloads.load("12p_RMSNorm").model_copy(update={"flops": 1.0, "least_flops": None, "least_bytes": 1.0})
PEAKS = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e12, "bf16_flops_per_s": 1e14, "eight_bit_ops_per_s": 2e14}


@pytest.fixture(autouse=True)
def datasheet(monkeypatch):
    """A chip that keeps to its datasheet, and no errors known of predictions for it."""
    monkeypatch.setitem(timing.MODELS, "v5e", timing.DATASHEET)
    monkeypatch.setattr(interval, "table", lambda: None)


class _Baselines:
    def __init__(self, **known):
        self._known = known

    async def get(self, workload, tpu):
        known = {"us": 100.0, "method": "test", "ops": []} | self._known
        return Baseline(workload=workload.name, tpu=tpu, versions=VERSIONS, fingerprint="x", **known)


class _Answers:
    """A worker pool that answers each method with what it was given, and remembers what was asked."""

    def __init__(self, answers):
        self._answers, self.asked = answers, []

    async def call(self, method, timeout_s, **params):
        self.asked.append((method, params))
        answer = self._answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _work(workload=SMALL, artifact=""):
    work = Work("", workload, "v5e", lambda stage: None)
    work.artifacts = {"full": {"tpu": artifact}}
    return work


KERNEL = {
    "name": "k", "calls": 1, "grid": [], "points": [[]], "weights": [1.0], "window_bytes": [1_000_000],
    "own_hbm_bytes": 0, "pipeline": None, "moves_by_hand": False, "eight_bit_matmul": False, "lower_bound": False, "notes": [],
}  # fmt: skip
OP = {
    "name": "k.1", "opcode": "custom-call", "mosaic": True, "point": 0, "calls": 1, "on_chip": [False],
    "xla_cycles": None, "profile_cycles": None, "hbm_bytes": 0, "small": False, "ahead": False, "vmem_bytes": 1024,
    "sort": "copy",
}  # fmt: skip
AROUND = {**OP, "name": "copy.2", "opcode": "copy", "mosaic": False, "point": None}


async def _predicted(kernel=None, ops=(), workload=SMALL, baseline=None, cycles=50_000, around=None, on_chip=(False,)):
    """Timing of a kernel of 50 us (schedule) and 1 us (HBM), with other operations around it."""
    answers = _Answers(
        {
            "compile": {
                "ops": [{**OP, "on_chip": list(on_chip)}, *ops],
                "peaks": PEAKS,
                "hbm_temp_bytes": 0,
                "unread": "",
            },
            "plan": {"kernels": [KERNEL | (kernel or {})]},
            "profile_point": {"cycles": cycles},
            "profile_around": around or {"ops": []},
        }
    )
    work = _work(workload)
    predictor = Predictor(dict.fromkeys(("compiler", "profiler", "tracer"), answers), _Baselines(**(baseline or {})))
    await predictor.predict(work)
    return work.timing, answers.asked


@pytest.mark.anyio
async def test_a_plain_kernel_is_its_schedule_and_exact():
    timing, asked = await _predicted()
    assert (timing.candidate_us, timing.speedup, timing.lower_bound, timing.notes) == (50.0, 2.0, False, [])
    assert "profile_around" not in dict(asked)


@pytest.mark.anyio
async def test_scratch_in_hbm_counts_wherever_the_operands_are():
    for on_chip, expected in (([False], 1_000_007), ([True], 7), ([True, True, True], 1_000_007)):
        timing, _ = await _predicted({"own_hbm_bytes": 7, "window_bytes": [1_000_000]}, on_chip=on_chip)
        assert timing.ops[0].hbm_bytes == expected


@pytest.mark.anyio
async def test_words_in_a_note_do_not_make_a_lower_bound_but_the_flag_does():
    timing, _ = await _predicted({"notes": ["kernel unknown: its lower bound is unknown"]})
    assert (timing.lower_bound, timing.speedup) == (False, 2.0)
    timing, _ = await _predicted({"notes": ["it depends"], "lower_bound": True})
    assert (timing.lower_bound, timing.speedup, timing.candidate_us) == (True, None, 50.0)
    assert timing.candidate_interval_us is None
    assert timing.notes == ["it depends"]


@pytest.mark.anyio
async def test_a_baseline_that_is_a_floor_says_so_with_its_notes():
    timing, _ = await _predicted(baseline={"lower_bound": True, "notes": ["no static profile of x"]})
    assert (timing.baseline_lower_bound, timing.speedup) == (True, 2.0)
    assert timing.notes == ["baseline: no static profile of x"]


@pytest.mark.anyio
async def test_an_operation_without_figures_is_profiled_and_otherwise_makes_a_lower_bound():
    timing, asked = await _predicted(ops=[AROUND], around={"ops": [{"name": "copy.2", "profile_cycles": 7_000}]})
    assert "profile_around" in dict(asked)
    assert (timing.candidate_us, timing.lower_bound) == (57.0, False)
    for around in ({"ops": [{"name": "copy.2", "profile_cycles": None}]}, WorkerDied("it ended")):
        timing, _ = await _predicted(ops=[AROUND], around=around)
        assert (timing.candidate_us, timing.lower_bound, timing.speedup) == (50.0, True, None)
        assert any("copy.2" in note for note in timing.notes)


@pytest.mark.anyio
async def test_scalars_and_copies_ahead_need_no_figures():
    few = [{**AROUND, "small": True}, {**AROUND, "name": "copy-start", "ahead": True}]
    timing, asked = await _predicted(ops=few)
    assert "profile_around" not in dict(asked)
    assert not timing.lower_bound


@pytest.mark.anyio
async def test_calls_come_from_the_compiled_program_wherever_the_kernel_stands():
    ops = [{**OP, "name": "k.2", "calls": 6, "on_chip": [True]}]
    timing, asked = await _predicted({"calls": 0}, ops=ops)
    assert [(op.calls, op.hbm_bytes, op.us) for op in timing.ops] == [(1, 1_000_000, 50.0), (6, 0, 300.0)]
    assert (timing.candidate_us, timing.lower_bound) == (350.0, False)
    timing, _ = await _predicted(ops=[{**OP, "name": "k.2", "calls": 0}])
    assert timing.lower_bound


@pytest.mark.anyio
async def test_a_time_just_below_the_floor_is_raised_to_it_and_far_below_is_rejected():
    # 1 % above what the schedule says, and within the tenth that is no proof
    near = SMALL.model_copy(update={"flops": 50.5e-6 * 1e14})
    timing, _ = await _predicted(workload=near)
    assert (timing.candidate_us, timing.speedup) == (50.5, 1.98)
    assert "raised from 50 us to the 50.5 us" in timing.notes[0]
    far = SMALL.model_copy(update={"least_bytes": 60e-6 * 1e12})
    with pytest.raises(Verdict, match="its inputs and outputs over HBM alone take 60 us") as refused:
        await _predicted(workload=far)
    assert refused.value.status == "rejected"
    timing, _ = await _predicted({"lower_bound": True, "notes": ["it depends"]}, workload=far)
    assert (timing.candidate_us, timing.lower_bound) == (60.0, True)  # no proof against a lower bound


@pytest.mark.anyio
async def test_eight_bit_kernels_are_held_to_the_eight_bit_peak():
    twice = SMALL.model_copy(update={"flops": 90e-6 * 1e14})
    timing, _ = await _predicted({"eight_bit_matmul": True}, workload=twice)
    assert timing.candidate_us == 50.0


@contextlib.asynccontextmanager
async def _compilers():
    pools = {kind: WorkerPool(kind) for kind in ("compiler", "profiler")}
    try:
        yield pools
    finally:
        for pool in pools.values():
            await pool.close()


ROWS, COLUMNS = 16384, 8192
HBM_US = 2 * ROWS * COLUMNS * 2 / 819e9 * 1e6


def _inner_pipeline(x):
    def body(x_ref, out_ref):
        def inner(x, out):
            out[...] = x[...]

        block = pl.BlockSpec((256, COLUMNS), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(ROWS // 256,), in_specs=[block], out_specs=[block])(x_ref, out_ref)

    place = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(body, in_specs=[place], out_specs=place, out_shape=x)(x)


def _by_data(table, x):
    def body(table_ref, x_ref, out_ref, buffer, semaphore):
        def turn(n, carry):
            transfer = pltpu.make_async_copy(x_ref.at[pl.ds(0, 256)], buffer, semaphore)
            transfer.start()
            transfer.wait()
            return carry

        jax.lax.fori_loop(0, table_ref[0], turn, 0)

    place = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            in_specs=[place],
            out_specs=place,
            scratch_shapes=[pltpu.VMEM((256, COLUMNS), jnp.bfloat16), pltpu.SemaphoreType.DMA],
        ),
        out_shape=x,
    )(table, x)


def _in_a_loop(x):
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((256, COLUMNS), lambda i: (i, 0))
    call = pl.pallas_call(body, grid=(ROWS // 256,), in_specs=[block], out_specs=block, out_shape=x)
    return jax.lax.fori_loop(0, 5, lambda i, y: call(y), x)


@pytest.mark.anyio
async def test_transfers_by_hand_and_loops_count_in_full():
    large = ((ROWS, COLUMNS), "bfloat16")
    async with _compilers() as pools:

        async def timing(function, *inputs):
            work = _work(artifact=base64.b64encode(tpu_bytes(function, inputs)).decode())
            await Predictor(pools, _Baselines()).predict(work)
            return work.timing

        piped = await timing(_inner_pipeline, large)
        assert not piped.lower_bound
        assert [op.hbm_bytes for op in piped.ops if op.kind == "mosaic"] == [2 * ROWS * COLUMNS * 2]
        assert piped.candidate_us >= 0.99 * HBM_US

        by_data = await timing(_by_data, ((4,), "int32"), large)
        assert (by_data.lower_bound, by_data.speedup) == (True, None)
        assert any("HBM traffic unknown" in note for note in by_data.notes)

        looped = await timing(_in_a_loop, large)
        assert not looped.lower_bound
        assert [op.calls for op in looped.ops if op.kind == "mosaic"] == [5]
        assert looped.candidate_us >= 0.99 * 5 * HBM_US


LOOK = {
    "counts": dict.fromkeys((*llo.NAMES, "unsized_transfers"), 0) | {"valu_ops": 300, "vector_spills": 2},
    "cycles": 1000, "issued": 400, "stalls": {"DMA read of operand 0": 600}, "places": [[3, 1000, 600]],
    "before": 100, "after": 50, "cores": 1, "static": None,
}  # fmt: skip


async def _counted(kernel, traced, profiled=1000, calls=1):
    """The work after a look, and how often each method was asked."""
    answers = _Answers(
        {
            "compile": {"ops": [OP | {"calls": calls}], "peaks": PEAKS, "hbm_temp_bytes": 0, "unread": ""},
            "plan": {"kernels": [KERNEL | kernel]},
            "profile_point": {"cycles": profiled},
            "count_point": traced,
        }
    )
    work = _work()
    work.counted, work.source = True, "one\ntwo\nthree"
    predictor = Predictor(dict.fromkeys(("compiler", "profiler", "walker", "tracer"), answers), _Baselines())
    await predictor.predict(work)
    predictor.count(work)
    return work, Counter(method for method, _ in answers.asked)


SEEN = {"cycles": 1000, "vmem_bytes": 0, "look": LOOK, "note": ""}
TWO_POINTS = {"grid": [64], "points": [[4], [6]], "weights": [-29.0, 30.0]}


@pytest.mark.anyio
async def test_one_compilation_of_a_point_gives_its_cycles_and_its_counts():
    work, asked = await _counted(TWO_POINTS, SEEN)
    assert (asked["count_point"], asked["profile_point"]) == (2, 0)
    assert work.timing.ops[0].static_us == 1.0
    assert (work.look["executed_bundles"], work.look["stall_cycles"], work.look["spills"]) == (400, 600, 2)
    assert work.look["counters"]["valu_ops"].total == 300
    assert work.look["kernels"][0].regions[0].text == "three"
    assert work.timing.notes == []


@pytest.mark.anyio
async def test_a_program_that_compiles_and_cannot_be_read_has_a_lower_bound():
    answers = _Answers(
        {
            "compile": {"ops": [], "peaks": PEAKS, "hbm_temp_bytes": 0, "unread": "UNIMPLEMENTED: SparseCore copies"},
            "plan": {"kernels": [KERNEL]},
            "profile_point": {"cycles": 50_000},
        }
    )
    work = _work()
    await Predictor(dict.fromkeys(("compiler", "profiler"), answers), _Baselines()).predict(work)
    assert (work.timing.candidate_us, work.timing.lower_bound, work.timing.speedup) == (50.0, True, None)
    assert "UNIMPLEMENTED: SparseCore copies" in work.timing.notes[0]


@pytest.mark.anyio
async def test_shares_of_a_kernel_in_a_loop_are_those_of_one_run():
    moved = {"counts": LOOK["counts"] | {"hbm_read_bytes": 500_000}, "cycles": 2000, "issued": 1400}
    for calls in (1, 4):
        work, _ = await _counted({}, SEEN | {"cycles": 2000, "look": LOOK | moved}, calls=calls)
        read = work.look["counters"]["hbm_read_bytes"]
        # half a megabyte in 2 us, of the 2 MB that the memory moves meanwhile
        assert (read.total, read.peak_share) == (calls * 500_000, 0.25)


@pytest.mark.anyio
async def test_bytes_that_depend_on_data_are_not_counted_and_what_else_is_says_so():
    unsized = {"look": LOOK | {"counts": LOOK["counts"] | {"unsized_transfers": 1}}}
    for kernel, seen, told in (
        ({"window_bytes": None, "lower_bound": True}, {}, "the run that the compiler's profile supposes"),
        ({}, unsized, "no counters of bytes"),
    ):
        work, _ = await _counted(kernel, SEEN | seen)
        assert not any(name.endswith("_bytes") for name in work.look["counters"])
        assert work.look["counters"]["valu_ops"].total == 300
        assert [note for note in work.timing.notes if told in note]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("traced", "why"),
    [
        (WorkerDied("count_point: it ended with code -6"), "code -6"),
        ({"cycles": 1000, "vmem_bytes": 0, "look": None, "note": "libtpu dumped no bundles"}, "dumped no bundles"),
        ({"cycles": None, "vmem_bytes": 0, "look": None, "note": "libtpu dumped no bundles"}, "dumped no bundles"),
    ],
)
async def test_without_counters_the_time_is_still_there_and_the_reason(traced, why):
    work, _ = await _counted(TWO_POINTS, traced)
    assert (work.timing.candidate_us, work.timing.speedup) == (1.0, 100.0)
    assert work.look.get("counters", {}) == {}
    assert work.look["kernels"] == [None]
    (note,) = work.timing.notes
    assert note.startswith("kernel k: counters unavailable: ")
    assert why in note


@pytest.mark.anyio
async def test_a_long_grid_is_looked_at_only_if_it_is_no_long_run():
    long = {"grid": [2000], "points": [[2000]], "weights": [1.0]}
    work, asked = await _counted(long, SEEN)
    assert (asked["profile_point"], asked["count_point"]) == (1, 1)
    assert work.look["counters"]["valu_ops"].total == 300
    work, asked = await _counted(long, SEEN, profiled=9_000_000)
    assert asked["count_point"] == 0
    assert "9,000,000 cycles" in work.timing.notes[0]
    assert work.timing.candidate_us == 9000


@pytest.mark.anyio
async def test_times_follow_the_model_of_the_chip_and_a_kept_baseline_follows_it_too(monkeypatch):
    monkeypatch.setitem(timing.MODELS, "v5e", timing.Model(clock=0.5, hbm=0.25))
    op = OpTime(
        name="b", kind="xla", method="hbm_floor", static_us=None, hbm_floor_us=100.0, hbm_bytes=1, us=100.0, bound="hbm"
    )
    found, _ = await _predicted(baseline={"ops": [op]})
    assert (found.candidate_us, found.baseline_us, found.speedup) == (100.0, 400.0, 4.0)


@pytest.mark.anyio
async def test_every_time_has_the_interval_of_its_class_and_so_the_speedup(monkeypatch):
    residuals = [
        interval.Residuals(tpu="v5e", cls="large_blocks", n=9, groups=9, low=0.8, high=1.25),
        interval.Residuals(tpu="v5e", cls="xla_bandwidth", n=9, groups=9, low=1.0, high=1.0),
    ]
    table = interval.Table(coverage=0.8, classes=residuals, measurements="here", versions=VERSIONS)
    monkeypatch.setattr(interval, "table", lambda: table)
    op = OpTime(
        name="b", kind="xla", method="hbm_floor", static_us=None, hbm_floor_us=60.0, hbm_bytes=1, us=60.0, bound="hbm"
    )
    found, _ = await _predicted(baseline={"ops": [op], "us": 60.0})
    assert found.candidate_interval_us == (40.0, 62.5)
    assert found.baseline_interval_us == (60.0, 60.0)
    assert found.speedup_interval == (pytest.approx(0.96), pytest.approx(1.5))
    assert found.indistinguishable
    found, _ = await _predicted(baseline={"ops": [op], "us": 120.0})
    assert not found.indistinguishable


@pytest.mark.anyio
async def test_an_interval_does_not_reach_below_what_the_chip_needs(monkeypatch):
    residuals = [interval.Residuals(tpu="v5e", cls="large_blocks", n=9, groups=9, low=0.5, high=2.0)]
    table = interval.Table(coverage=0.8, classes=residuals, measurements="here", versions=VERSIONS)
    monkeypatch.setattr(interval, "table", lambda: table)
    found, _ = await _predicted(workload=SMALL.model_copy(update={"flops": 48e-6 * 1e14}))
    assert found.candidate_interval_us == (48.0, 100.0)
