"""The search with the real judge and the TPU's compiler, on a kernel that takes a second to compile."""

from pathlib import Path

import anyio
from small_workloads import write

from hawkeye_mcp.autotune.request import Request
from hawkeye_mcp.autotune.search import search
from hawkeye_mcp.autotune.space import checked
from hawkeye_mcp.judge.evaluate import open_judge

KERNEL = """
import jax.numpy as jnp
from jax.experimental import pallas as pl

ROWS = 16


def kernel(x_ref, weight_ref, bias_ref, out_ref):
    z = jnp.dot(x_ref[...], weight_ref[...], preferred_element_type=jnp.float32) + bias_ref[...].astype(jnp.float32)
    out_ref[...] = jnp.maximum(z, 0.0).astype(out_ref.dtype)


def workload(x, weight, bias):
    (m, k), n = x.shape, weight.shape[1]
    rows = min(ROWS, m)
    return pl.pallas_call(
        kernel,
        grid=(m // rows,),
        in_specs=[
            pl.BlockSpec((rows, k), lambda i: (i, 0)),
            pl.BlockSpec((k, n), lambda i: (0, 0)),
            pl.BlockSpec((1, n), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((rows, n), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
    )(x, weight, bias.reshape(1, n))
""".replace("import jax.numpy", "import jax\nimport jax.numpy")


def test_blocks_are_compiled_estimated_predicted_and_the_best_is_judged(tmp_path: Path):
    workload = write(tmp_path)
    request = Request(KERNEL, workload, "v5e", checked({"ROWS": [16, 8, 256, 4096]}), "halving")

    async def searched():
        async with open_judge(warm="v5e") as judge:

            async def evaluate(source):
                return await judge.evaluate(source, workload, "v5e")

            return await search(request, judge, evaluate, tmp_path / "run", "mark", progress=lambda said: None)

    found = anyio.run(searched)
    by_rows = {each.parameters["ROWS"]: each for each in found.looked_at}
    assert (found.status, found.best.parameters, found.best.seeds) == ("better", {"ROWS": 256}, 3)
    assert by_rows[4096].status == "compile_error"
    assert "vmem" in by_rows[4096].compiler_message
    assert (by_rows[16].rung, by_rows[256].rung, by_rows[8].rung) == ("prediction", "prediction", "estimate")
    assert by_rows[8].estimate_us > by_rows[16].estimate_us > by_rows[256].estimate_us
    # an estimate leaves the schedule out, so it is not above what the schedule takes, and near it
    assert by_rows[256].predicted_us * 0.7 < by_rows[256].estimate_us <= by_rows[256].predicted_us * 1.01
    assert found.best.us == by_rows[256].predicted_us, "an evaluation predicts what the search predicted"
    assert found.gain.ratio > 3
    assert (tmp_path / "run" / "best_kernel.py").read_text() == KERNEL.replace("ROWS = 16", "ROWS = 256")
