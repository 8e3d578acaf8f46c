"""A libtpu whose static profile fails: the verdict stands, the time is null, and a note says why."""

import base64
from pathlib import Path

import pytest
from exporting import tpu_bytes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.judge import workers
from hawkeye_mcp.judge.baseline import Baseline
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.judge.predict import Predictor
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import WorkerDied, WorkerPool
from hawkeye_mcp.profiler.fidelity_kernels import normalised, row_wise

pytestmark = pytest.mark.anyio
KERNELS = Path(__file__).parent.parent / "kernels"
# a workload that asks for next to nothing, so that no floor of its own stands in the way
SMALL = workloads.load("12p_RMSNorm").model_copy(update={"flops": 1.0, "least_flops": None, "least_bytes": 1.0})
KERNEL = {
    "name": "k", "calls": 1, "window_bytes": [1_000_000, 1_000_000], "own_hbm_bytes": 0, "pipeline": None,
    "moves_by_hand": False, "eight_bit_matmul": False, "lower_bound": False, "notes": [],
}  # fmt: skip
PROFILE = "--xla_jf_dump_static_llo_profile_to"


@pytest.fixture
def profilers(monkeypatch):
    """Lets a test change the environment of profiler workers, and of no others."""
    real = workers.environment

    def change(changed):
        def environment(kind, dump):
            found = real(kind, dump)
            return changed(found) if kind == "profiler" else found

        monkeypatch.setattr(workers, "environment", environment)

    return change


def _unknown_flag(found):
    return found | {"LIBTPU_INIT_ARGS": found["LIBTPU_INIT_ARGS"].replace(PROFILE, "--xla_no_such_flag")}


class _Baselines:
    async def get(self, workload, tpu):
        versions = Versions(hawkeye="0", jax="1", jaxlib="2", libtpu="3")
        return Baseline(
            workload=workload.name, tpu=tpu, versions=versions, fingerprint="x", us=100.0, method="test", ops=[]
        )


async def _timing(function=lambda x: row_wise(x, 16, normalised), profilers=None):
    work = Work("", SMALL, "v5e", lambda stage: None)
    data = tpu_bytes(function, [((1024, 512), "bfloat16")])
    work.artifacts = {"full": {"tpu": base64.b64encode(data).decode()}}
    pools = {kind: WorkerPool(kind) for kind in ("compiler", "profiler")}
    try:
        used = pools | ({"profiler": profilers} if profilers else {})
        await Predictor(used, _Baselines()).predict(work)
    finally:
        for pool in pools.values():
            await pool.close()
    return work.timing


def _of_kernel(timing):
    """The one note on the kernel's profile; what is around it has its own."""
    (note,) = [note for note in timing.notes if note.startswith("kernel ")]
    return note


async def test_a_flag_that_libtpu_lacks_leaves_a_correct_kernel_correct(profilers):
    profilers(_unknown_flag)
    source = (KERNELS / "12p_RMSNorm.py").read_text(encoding="utf-8")
    async with open_judge() as judge:
        found = await judge.evaluate(source, workloads.load("12p_RMSNorm"), "v5e")
    assert found.status == "correct"
    assert (found.timing.candidate_us, found.timing.speedup, found.timing.source) == (None, None, None)
    note = _of_kernel(found.timing)
    assert "static profile unavailable: " in note
    assert "xla_no_such_flag" in note


async def test_a_profile_without_cycles_says_so(profilers):
    profilers(lambda found: found | {"LIBTPU_INIT_ARGS": ""})
    timing = await _timing()
    assert (timing.candidate_us, timing.speedup, timing.baseline_us) == (None, None, 100.0)
    note = _of_kernel(timing)
    assert note.endswith("static profile unavailable: libtpu noted no cycles with the kernel")
    # the bytes are known all the same
    assert [op.hbm_bytes for op in timing.ops if op.kind == "mosaic"] == [2 * 1024 * 512 * 2]


def _waits_for_nothing(x):
    """libtpu compiles it, but its profiler ends the process: no transfer was started on that semaphore."""

    def body(x_ref, out_ref, buffer, semaphore):
        pltpu.make_async_copy(x_ref, buffer, semaphore).wait()
        out_ref[...] = buffer[...]

    return pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=x,
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
    )(x)


async def test_a_profiler_that_aborts_the_process_says_so_once():
    timing = await _timing(_waits_for_nothing)
    assert (timing.candidate_us, timing.speedup, timing.baseline_us) == (None, None, 100.0)
    assert "No DMA issue node found" in _of_kernel(timing)


async def test_where_a_part_cannot_be_profiled_the_whole_is():
    asked = []

    class Profilers:
        async def call(self, method, timeout_s, **params):
            if method == "plan":
                return {"kernels": [KERNEL | {"grid": [64], "points": [[4], [10]], "weights": [-9.0, 10.0]}]}
            asked.append(params["point"])
            if params["point"] == [64]:
                return {"cycles": 50_000}
            if params["point"] == [10]:
                raise WorkerDied("profile_point: the worker ended with code -6.")
            return {"cycles": 3_000}

    timing = await _timing(profilers=Profilers())
    assert sorted(asked) == [[4], [10], [64]]
    assert timing.ops[0].method == "static_profile"
    assert timing.ops[0].static_us == pytest.approx(50_000 / 1.503e9 * 1e6, rel=1e-3)
    assert "the whole was profiled" in _of_kernel(timing)
