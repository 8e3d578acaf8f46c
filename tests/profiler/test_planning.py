"""How a kernel is sampled: by what a step costs, by how its blocks move."""

import functools

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels
from jax.experimental import pallas as pl

from hawkeye_mcp.profiler import effort
from hawkeye_mcp.profiler.fidelity_kernels import inner_loop, matmul
from hawkeye_mcp.profiler.sampling import Pace
from hawkeye_mcp.profiler.static_profile import plan_for

MXU = 2 * 4 * 128 * 128  # FLOP per cycle of v5e
HBM = 819e9 / 1.503e9  # bytes per cycle


def _call(function, *inputs):
    return kernels(function, inputs)


def _pace(function, *inputs):
    program, (call,) = _call(function, *inputs)
    with program.context:
        return effort.pace(call, MXU, HBM)


def _square(blocks, size=4096):
    return functools.partial(matmul, blocks=blocks), *[((size, size), "bfloat16")] * 2


def test_steps_whose_matmuls_hide_their_transfers_are_long():
    assert _pace(*_square((1024, 1024, 1024)))[0] is Pace.LONG
    assert _pace(*_square((128, 128, 128)))[0] is Pace.SHORT


def test_as_many_flops_over_larger_blocks_wait_for_these():
    # 256 * 256 * 4096 are 4096 cycles of matmuls, and 2 MiB of an operand take as long over HBM
    assert _pace(*_square((256, 256, 4096)))[0] is Pace.SHORT


def test_the_dearer_a_step_the_fewer_are_walked():
    most = [_pace(*_square((n, n, n)))[1] for n in (128, 256, 512)]
    assert most == sorted(most, reverse=True)
    assert most[0] > 3 * most[2] >= 3 * 24


def test_loops_of_known_length_count_in_full():
    of_turns = []
    for turns in (1, 24):
        program, (call,) = _call(functools.partial(inner_loop, rows=32, turns=turns), ((4096, 512), "float32"))
        with program.context:
            of_turns.append(effort.work(call.main)[1])
    # of a turn: tanh, taken to be 8 instructions, and a product, on 32 * 512 numbers in registers of 1024
    assert of_turns[1] - of_turns[0] == 23 * 16 * (8 + 1)


def test_matmul_flops_are_exact():
    program, (call,) = _call(*_square((256, 512, 128)))
    with program.context:
        assert effort.work(call.main)[0] == pytest.approx(2 * 256 * 512 * 128)


def _moving(index):
    """128 steps over blocks of 8 rows that the index map picks; the output moves with every step."""

    def function(x):
        return pl.pallas_call(
            lambda x_ref, out_ref: out_ref.__setitem__(..., x_ref[...]),
            grid=(128,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (index(i), 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((1024, 128), jnp.float32),
        )(x)

    program, (call,) = _call(function, ((1024, 128), "float32"))
    with program.context:
        return plan_for(call, "v5e")[0]


def test_blocks_that_rest_for_some_steps_are_sampled_by_as_many():
    assert _moving(lambda i: i).points == ((8,), (14,))
    assert _moving(lambda i: i // 3).points == ((8,), (14,))  # 6 steps are two of its moves
    assert _moving(lambda i: i // 4).points == ((8,), (20,))  # 12 steps are three
    assert _moving(lambda i: i // 8).points == ((8,), (32,))


def test_blocks_that_move_without_a_rule_are_profiled_whole():
    assert _moving(lambda i: i * i // 512).points == ((128,),)
