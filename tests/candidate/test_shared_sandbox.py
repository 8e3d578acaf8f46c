"""A sandbox that kernels of one author share: none is traced otherwise for those before it, and none pays for another's end."""

import anyio
import pytest

from hawkeye_mcp.candidate.sandbox import Limits, Sandbox, SharedSandbox
from hawkeye_mcp.chips import CHIPS

INPUTS = {"full": [((256, 256), "float32")]}
# functions of jax that are traced once for all who call them; places of the file are in what comes out
KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

def body(x_ref, out_ref):
    out_ref[...] = jnp.where(x_ref[...] > 0, jnp.maximum(x_ref[...], 1), 2.0)

def workload(x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""
OTHER = "\n\n\n" + KERNEL.replace("2.0", "3.0")
ENDS = "import os\nos.kill(os.getpid(), 9)"


@pytest.mark.anyio
async def test_a_kernel_is_traced_as_if_it_were_the_first_and_another_sandbox_follows_one_that_ended():
    alone = await Sandbox.start(CHIPS["v6e"], Limits())
    shared = SharedSandbox(Limits())
    boxes, replies = [], []
    try:
        with anyio.fail_after(120):
            wanted = (await alone.trace(OTHER, INPUTS, CHIPS["v6e"])).reply
            for source, tpu in (
                (KERNEL, "v5e"),
                (OTHER, "v6e"),
                ("raise ValueError", "v6e"),
                (ENDS, "v6e"),
                (OTHER, "v6e"),
            ):
                async with shared.take(CHIPS[tpu]) as box:
                    boxes.append(box)
                    replies.append((await box.trace(source, INPUTS, CHIPS[tpu])).reply)
    finally:
        await alone.close()
        await shared.close()
    assert wanted["artifacts"]
    assert replies[1] == replies[4] == wanted
    assert replies[2]["failed"]["type"] == "ValueError"
    assert replies[3] is None
    assert boxes[0] is boxes[1] is boxes[2] is boxes[3] is not boxes[4]
    assert not any(box.alive for box in boxes)


@pytest.mark.anyio
async def test_a_sandbox_that_still_works_on_one_kernel_is_not_asked_for_another():
    shared = SharedSandbox(Limits())
    try:
        async with shared.take(CHIPS["v5e"]) as box:
            assert box.free
            endless = {"source": "while True: pass", "inputs": INPUTS, "interpreted": False}
            assert (await box.ask(endless, CHIPS["v5e"], wall_s=0.01)).reply is None
            assert not box.free
        async with shared.take(CHIPS["v5e"]) as other:
            assert other is not box
    finally:
        await shared.close()
