"""What any prediction of small kernels must obey, by the real compiler."""

import base64
import contextlib
import functools

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels, tpu_bytes
from jax.experimental import pallas as pl

from hawkeye_mcp.judge.workers import WorkerPool
from hawkeye_mcp.profiler import fidelity_kernels, transfers

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def _profiler(kind="profiler"):
    pool = WorkerPool(kind)
    try:
        yield pool
    finally:
        await pool.close()


def _artifact(function, *inputs, tpu="v5e"):
    return {"artifact_b64": base64.b64encode(tpu_bytes(function, inputs)).decode(), "tpu": tpu}


async def _cycles(pool, function, *inputs, tpu="v5e"):
    """Sampled cycles of a function's only kernel."""
    asked = _artifact(function, *inputs, tpu=tpu)
    (kernel,) = (await pool.call("plan", 600, **asked))["kernels"]
    assert kernel["notes"] == []
    replies = [await pool.call("profile_point", 600, **asked, kernel=0, point=point) for point in kernel["points"]]
    return sum(weight * reply["cycles"] for weight, reply in zip(kernel["weights"], replies, strict=True))


def _scaled(x, rows, times):
    """Twice each row; with more `times` the rows are fetched again."""

    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((rows, x.shape[1]), lambda n, i: (i, 0))
    return pl.pallas_call(body, grid=(times, x.shape[0] // rows), in_specs=[block], out_specs=block, out_shape=x)(x)


async def test_twice_the_parallel_steps_take_twice_the_cycles():
    matmul = functools.partial(fidelity_kernels.matmul, blocks=(128, 128, 256))
    norm = functools.partial(fidelity_kernels.row_wise, rows=16, of_rows=fidelity_kernels.normalised)
    async with _profiler() as pool:
        for tpu in ("v5e", "v6e"):
            once, twice = [
                await _cycles(pool, matmul, ((m, 1024), "bfloat16"), ((1024, 1024), "bfloat16"), tpu=tpu)
                for m in (1024, 2048)
            ]
            assert twice == pytest.approx(2 * once, rel=0.02)
            once, twice = [await _cycles(pool, norm, ((m, 1024), "bfloat16"), tpu=tpu) for m in (4096, 8192)]
            assert twice == pytest.approx(2 * once, rel=0.02)


async def test_the_same_artifact_takes_the_same_cycles():
    function, shape = functools.partial(_scaled, rows=32, times=3), ((1024, 512), "float32")
    async with _profiler() as pool, _profiler() as other:
        assert await _cycles(pool, function, shape) == await _cycles(other, function, shape)


def test_more_bytes_never_take_less_time_over_hbm():
    moved = []
    for times in (1, 2, 3, 7):
        program, (call,) = kernels(functools.partial(_scaled, rows=64, times=times), [((512, 256), "float32")])
        with program.context:
            moved.append(sum(call.window_bytes()))
    assert moved == [times * 2 * 512 * 256 * 4 for times in (1, 2, 3, 7)]  # and so does the floor, a multiple of it


def _resting(x, w):
    """The left operand stays while the right one's columns advance."""

    def body(x_ref, w_ref, out_ref):
        out_ref[...] = jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(
        body,
        grid=(x.shape[0] // 128, w.shape[1] // 128),
        in_specs=[
            pl.BlockSpec((128, x.shape[1]), lambda i, j: (i, 0)),
            pl.BlockSpec((x.shape[1], 128), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), jnp.float32),
    )(x, w)


# None has a clipped block: the size of its transfer is computed, so the schedule does not show it.
KERNELS = {
    "fetched twice": (functools.partial(_scaled, rows=32, times=2), [((512, 256), "float32")]),
    "resting": (_resting, [((256, 256), "bfloat16"), ((256, 640), "bfloat16")]),
    "matmul": (
        functools.partial(fidelity_kernels.matmul, blocks=(128, 128, 128)),
        [((256, 384), "bfloat16"), ((384, 512), "bfloat16")],
    ),
    "copies by hand": (functools.partial(fidelity_kernels.manual_copies, rows=16), [((384, 256), "float32")]),
    "inner pipeline": (functools.partial(fidelity_kernels.inner_pipeline, rows=16), [((384, 256), "float32")]),
}


async def test_bytes_of_the_executed_schedule_are_those_of_the_block_specs():
    async with _profiler("tracer") as pool:
        for name, (function, inputs) in KERNELS.items():
            program, (call,) = kernels(function, inputs)
            with program.context:
                expected = sum(call.window_bytes())
                if call.moves_by_hand:
                    expected += sum(transfers.transferred_bytes(call))
            reply = await pool.call("count_point", 600, **_artifact(function, *inputs), kernel=0, point=list(call.grid))
            counts = reply["look"]["counts"]
            assert counts["hbm_read_bytes"] + counts["hbm_written_bytes"] == expected, name
