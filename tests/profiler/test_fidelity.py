"""The sampled prediction against libtpu's own profile of the whole grid."""

import base64

import jax
import jax.numpy as jnp
import pytest
from exporting import tpu_bytes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.judge.workers import WorkerPool


def _body(x_ref, w_ref, out_ref, acc_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(out_ref.dtype)


def _matmul(x, w, blocks):
    (m, k), n = x.shape, w.shape[1]
    bm, bn, bk = blocks
    return pl.pallas_call(
        _body,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, w)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tpu", "cores", "m", "k", "n", "blocks"),
    [
        ("v5e", 1, 1024, 2048, 2048, (256, 512, 512)),
        ("v5p", 2, 2048, 2048, 2048, (256, 512, 512)),  # the same for each of its two cores
        ("v5e", 1, 512, 1024, 768, (128, 128, 128)),  # bound by latency, where start-up weighs most
    ],
)
async def test_a_sampled_matmul_is_within_one_percent_of_the_whole(tpu, cores, m, k, n, blocks):
    data = tpu_bytes(lambda x, w: _matmul(x, w, blocks), [((m, k), "bfloat16"), ((k, n), "bfloat16")])
    asked = {"artifact_b64": base64.b64encode(data).decode(), "tpu": tpu}
    pool = WorkerPool("profiler")
    try:
        (kernel,) = (await pool.call("plan", 60, **asked))["kernels"]
        assert kernel["notes"] == []
        assert len(kernel["points"]) > 1

        async def cycles(point):
            return (await pool.call("profile_point", 120, **asked, kernel=0, point=point))["cycles"]

        whole = await cycles(kernel["grid"])
        sampled = sum([w * await cycles(p) for w, p in zip(kernel["weights"], kernel["points"], strict=True)])
    finally:
        await pool.close()
    assert sampled == pytest.approx(whole, rel=0.01)
    # and no less than four matmul units of 128 by 128 need on each core
    assert whole > 2 * m * k * n / (4 * 2 * 128 * 128 * cores)
