import base64
import dataclasses
import json

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels
from jax._src.lib.mlir import ir
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.profiler.mosaic import DataDependent, body_operations, item_bits
from hawkeye_mcp.profiler.regularity import last_step_tests
from hawkeye_mcp.profiler.shortening import with_grid


def _matmul(x_ref, w_ref, out_ref):
    @pl.when(pl.program_id(2) == 0)
    def _():
        out_ref[...] = jnp.zeros_like(out_ref)

    out_ref[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = jnp.maximum(out_ref[...], 0)


def _product(x, w, bm=256, bn=512, bk=256):
    (m, k), n = x.shape, w.shape[1]
    return pl.pallas_call(
        _matmul,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        name="product",
    )(x, w)


def _copy(x, rows=128, times=1):
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...]

    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    call = pl.pallas_call(
        body, grid=(pl.cdiv(x.shape[0], rows),), in_specs=[block], out_specs=block, out_shape=x, name="copy"
    )
    for _ in range(times):
        x = call(x)
    return x


def _one(function, *inputs):
    program, calls = kernels(function, inputs)
    (call,) = calls
    return program, call


def test_windows_say_what_the_pipeline_moves():
    program, call = _one(_product, ((512, 768), "bfloat16"), ((768, 1024), "bfloat16"))
    with program.context:
        assert (call.name, call.grid, call.calls) == ("product", (2, 2, 3), 1)
        assert [w.array for w in call.windows] == [(512, 768), (768, 1024), (512, 1024)]
        assert [w.block for w in call.windows] == [(256, 256), (256, 512), (256, 512)]
        assert [w.item_bits for w in call.windows] == [16, 16, 32]
        assert [w.is_output for w in call.windows] == [False, False, True]
        assert {w.space for w in call.windows} == {"vmem"}
        assert "tpu.matmul" in body_operations(call)


def test_every_changed_block_is_counted_and_a_block_that_stays_is_not():
    program, call = _one(_product, ((512, 768), "bfloat16"), ((768, 1024), "bfloat16"))
    with program.context:
        # 12 steps; both operands change at each, the output once for each of 4 (i, j)
        assert call.window_bytes() == [12 * 256 * 256 * 2, 12 * 256 * 512 * 2, 4 * 256 * 512 * 4]


def test_with_one_contraction_step_the_left_operand_stays_while_columns_advance():
    program, call = _one(_product, ((512, 256), "bfloat16"), ((256, 2048), "bfloat16"))
    with program.context:
        assert call.grid == (2, 4, 1)
        assert call.window_bytes() == [2 * 256 * 256 * 2, 8 * 256 * 512 * 2, 8 * 256 * 512 * 4]
        assert call.window_bytes((1, 4, 1)) == [256 * 256 * 2, 4 * 256 * 512 * 2, 4 * 256 * 512 * 4]


def test_a_ragged_last_block_moves_only_what_there_is():
    program, call = _one(_copy, ((300, 256), "float32"))
    with program.context:
        assert call.grid == (3,)
        assert call.window_bytes() == [300 * 256 * 4, 300 * 256 * 4]


def test_a_shortened_grid_ends_at_the_true_last_block():
    program, call = _one(_copy, ((300, 256), "float32"))
    with program.context:
        config = json.loads(with_grid(call, (2,)))
        body = ir.Module.parse(base64.b64decode(config["custom_call_config"]["body"]), program.context)
        short = dataclasses.replace(call, config=config, body=body)
        assert short.grid == (2,)
        # the first block of 128 rows and the last one of 44, not the first two
        assert short.window_bytes() == [(128 + 44) * 256 * 4] * 2
        assert call.grid == (3,)  # the original is as it was


def test_a_shortened_accumulation_still_sees_its_last_step():
    program, call = _one(_product, ((256, 1024), "bfloat16"), ((1024, 512), "bfloat16"))
    with program.context:
        config = json.loads(with_grid(call, (1, 1, 2)))
        body = ir.Module.parse(base64.b64decode(config["custom_call_config"]["body"]), program.context)
        short = dataclasses.replace(call, config=config, body=body)
        assert short.grid == (1, 1, 2)
        # the kernel compares with the last of 4 steps; the short one with its own last, and not one operation is added
        (test,) = last_step_tests(short)
        assert test[2] == 2
        assert _names(short) == _names(call)


def _names(call):
    return sorted(op.name for op in operations(call.body.operation) if op.name != "stable_mosaic.arith.constant")


def _gather(table, x):
    def body(table_ref, x_ref, out_ref):
        out_ref[...] = x_ref[...]

    return pl.pallas_call(
        body,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((128, 128), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i, table: (i, 0)),
        ),
        out_shape=x,
    )(table, x)


def test_blocks_chosen_by_prefetched_values_have_no_known_traffic():
    program, call = _one(_gather, ((4,), "int32"), ((512, 128), "float32"))
    with program.context:
        assert call.prefetched == 1
        assert len(call.windows) == 2
        with pytest.raises(DataDependent, match="index map"):
            call.window_bytes()


def test_index_maps_may_calculate():
    def folded(x):
        def body(x_ref, out_ref):
            out_ref[...] = x_ref[...]

        return pl.pallas_call(
            body,
            grid=(8,),
            in_specs=[pl.BlockSpec((128, 128), lambda i: (jnp.maximum(i - 4, 0) // 2, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((1024, 128), x.dtype),
        )(x)

    program, call = _one(folded, ((256, 128), "float32"))
    with program.context:
        # block indices 0 0 0 0 0 0 1 1: two moves
        assert call.window_bytes() == [2 * 128 * 128 * 4, 8 * 128 * 128 * 4]


def test_calls_add_up_over_functions_and_are_unknown_in_loops():
    twice = jax.jit(lambda x: _copy(_copy(x)))
    program, calls = kernels(lambda x: twice(twice(x)), [((256, 128), "float32")])
    assert sum(call.calls for call in calls) == 4
    program, calls = kernels(lambda x: jax.lax.fori_loop(0, 5, lambda _, y: _copy(y), x), [((256, 128), "float32")])
    assert [call.calls for call in calls] == [0]


def test_without_a_grid_arrays_in_vmem_move_whole_and_those_in_hbm_do_not():
    def function(x, y):
        def body(x_ref, y_ref, out_ref):
            out_ref[...] = x_ref[...]

        specs = [pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pl.ANY)]
        return pl.pallas_call(body, in_specs=specs, out_shape=x)(x, y)

    program, call = _one(function, ((64, 128), "float32"), ((512, 128), "float32"))
    with program.context:
        assert call.window_bytes() == [64 * 128 * 4, 0, 64 * 128 * 4]
        assert not call.moves_by_hand


@pytest.mark.parametrize(
    ("element", "bits"), [("bf16", 16), ("f32", 32), ("i8", 8), ("i1", 8), ("f8E4M3FN", 8), ("i4", 4), ("ui4", 4)]
)
def test_item_bits(element, bits):
    assert item_bits(element) == bits
