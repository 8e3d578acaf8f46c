"""Counting with the real compiler: what libtpu's schedule of small kernels must show."""

import base64
import os
import tempfile
from pathlib import Path

import pytest
from exporting import tpu_bytes

from hawkeye_mcp.candidate.tracer import KERNEL_FILE
from hawkeye_mcp.judge.workers import WorkerPool

SOURCE = """\
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS = pl.BlockSpec((256, 512), lambda i: (i, 0))
VMEM, HBM = pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pl.ANY)

def doubled(x):
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2
    return pl.pallas_call(body, grid=(4,), in_specs=[ROWS], out_specs=ROWS, out_shape=x)(x)

def copied_by_hand(x, y):
    def body(x_ref, y_ref, out_ref, buffer, semaphore):
        copy = pltpu.make_async_copy(y_ref, buffer, semaphore)
        copy.start()  # line 17
        copy.wait()
        out_ref[...] = x_ref[...] + buffer[:8, :128]
    scratch = [pltpu.VMEM((1024, 512), jnp.float32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, in_specs=[VMEM, HBM], out_specs=VMEM, out_shape=x, scratch_shapes=scratch)(x, y)

def looped(x):
    def body(x_ref, out_ref):
        def step(i, total):
            return total + jnp.exp(x_ref[pl.ds(i * 8, 8), :])  # line 26
        out_ref[...] = jax.lax.fori_loop(0, 64, step, jnp.zeros((8, 512), jnp.float32))
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 512), jnp.float32))(x)

def multiplied(x, y):
    def body(x_ref, y_ref, out_ref):
        out_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((256, 512), jnp.float32))(x, y)

def grown(x):
    def body(x_ref, out_ref):
        once = jnp.exp(x_ref[...])  # line 37
        out_ref[...] = jnp.exp(once)  # line 38
    return pl.pallas_call(body, out_shape=x)(x)

def normalised(x):
    def body(x_ref, out_ref):
        rows = x_ref[...].astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(rows * rows, axis=-1, keepdims=True))
        out_ref[...] = (rows * scale).astype(out_ref.dtype)
    return pl.pallas_call(body, out_shape=x)(x)
"""
KERNELS: dict = {}
exec(compile(SOURCE, KERNEL_FILE, "exec"), KERNELS)  # as the sandbox does, so that lines are those of a kernel file


def arguments(function, inputs):
    artifact = tpu_bytes(KERNELS[function], inputs)
    return {"artifact_b64": base64.b64encode(artifact).decode(), "tpu": "v5e", "kernel": 0}


@pytest.fixture(scope="module")
async def tracer():
    pool = WorkerPool("tracer")
    yield pool
    await pool.close()


async def looked(tracer, function, inputs, point):
    reply = await tracer.call("count_point", 600, **arguments(function, inputs), point=point)
    assert reply["note"] == ""
    assert reply["look"]["cycles"] == reply["cycles"] > 0
    return reply["look"]


def dumps_left():
    folders = Path(tempfile.gettempdir()).glob(f"hawkeye-tracer-{os.getpid()}-*")
    return [path.name for folder in folders for path in folder.iterdir() if path.is_file() and path.name != "stderr"]


@pytest.mark.anyio
async def test_a_whole_grid_is_accounted_for_and_its_transfers_are_the_blocks(tracer):
    inputs = [((1024, 512), "float32")]
    look = await looked(tracer, "doubled", inputs, [4])
    assert look["issued"] + sum(look["stalls"].values()) == look["cycles"]
    assert sum(cycles for _, cycles, _ in look["places"]) == look["cycles"]
    assert sum(stall for _, _, stall in look["places"]) == look["cycles"] - look["issued"]
    assert look["counts"]["hbm_read_bytes"] == look["counts"]["hbm_written_bytes"] == 1024 * 512 * 4
    assert (look["counts"]["dma_starts"], look["counts"]["unsized_transfers"]) == (8, 0)
    registers = 1024 * 512 // 1024  # of 8 by 128 elements
    assert [look["counts"][name] for name in ("vector_loads", "valu_ops", "vector_stores")] == [registers] * 3
    assert set(look["stalls"]) >= {"DMA read of operand 0", "DMA write of result 0"}
    assert 11 in [place for place, _, _ in look["places"]]
    assert 0 < look["before"] < look["cycles"] > look["after"] > 0
    assert await looked(tracer, "doubled", inputs, [4]) == look
    assert dumps_left() == []


@pytest.mark.anyio
async def test_waiting_for_a_large_transfer_shows_by_name_and_line(tracer):
    look = await looked(tracer, "copied_by_hand", [((8, 128), "float32"), ((1024, 512), "float32")], [])
    cause, longest = max(look["stalls"].items(), key=lambda item: item[1])
    assert cause == "DMA read of operand 1"
    assert longest > look["cycles"] / 2
    assert {place: stall for place, _, stall in look["places"]}[17] == longest


@pytest.mark.anyio
async def test_the_inner_loop_is_the_hot_one_and_its_transcendentals_are_counted(tracer):
    look = await looked(tracer, "looped", [((512, 512), "float32")], [])
    assert look["counts"]["eup_ops"] == 512 * 512 // 1024
    assert look["static"]["hot"]["jumps"] >= 15  # 64 turns, unrolled by at most four
    assert look["static"]["hot"]["lines"][0] <= 26 <= look["static"]["hot"]["lines"][1]
    assert (
        0
        < look["static"]["hot"]["used"]["EUP"]
        <= look["static"]["hot"]["bundles"][1] - look["static"]["hot"]["bundles"][0] + 1
    )


@pytest.mark.anyio
async def test_the_same_operation_on_two_lines_costs_on_both(tracer):
    look = await looked(tracer, "grown", [((256, 512), "float32")], [])
    cycles = {place: spent for place, spent, _ in look["places"]}
    assert 0.5 < cycles[37] / cycles[38] < 2


@pytest.mark.anyio
async def test_matmuls_are_known_by_their_flop(tracer):
    look = await looked(tracer, "multiplied", [((256, 1024), "bfloat16"), ((1024, 512), "bfloat16")], [])
    assert look["counts"]["mxu_matmuls"] * look["static"]["flops_per_matmul"] == pytest.approx(2 * 256 * 1024 * 512)
    assert look["static"]["busy"]["mxu_matmuls"] >= 1


@pytest.mark.anyio
@pytest.mark.parametrize(("columns", "spills"), [(128, False), (4096, True)])
async def test_values_that_do_not_fit_the_registers_are_spilled(tracer, columns, spills):
    look = await looked(tracer, "normalised", [((128, columns), "bfloat16")], [])
    assert (look["counts"]["vector_spills"] > 100) == spills
    assert (look["counts"]["vector_fills"] > 100) == spills
    assert (look["static"]["pressure"] > 64) == spills


@pytest.mark.anyio
async def test_a_walker_sees_the_same_run_without_the_schedule(tracer):
    inputs = [((1024, 512), "float32")]
    pool = WorkerPool("walker")
    try:
        seen = await looked(pool, "doubled", inputs, [4])
    finally:
        await pool.close()
    assert seen == await looked(tracer, "doubled", inputs, [4]) | {"static": None}


@pytest.mark.anyio
async def test_without_dumps_the_cycles_are_still_there_and_the_reason():
    pool = WorkerPool("profiler")  # whose libtpu writes no dumps
    try:
        asked = arguments("doubled", [((1024, 512), "float32")])
        reply = await pool.call("count_point", 600, **asked, point=[4])
    finally:
        await pool.close()
    assert reply["cycles"] > 0
    assert (reply["look"], reply["note"]) == (None, "libtpu dumped no bundles")
