"""Kernels that arrays in SMEM steer: what their steps cost together, what their blocks move, and what stays unknown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import views
from exporting import kernels
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.profiler import detect_blocks, diagnosis, sampling, static_profile, step_kinds, variants
from hawkeye_mcp.profiler.mosaic import DataDependent
from hawkeye_mcp.profiler.regularity import regularity

STEPS, ROWS = 64, 128
BLOCK = ROWS * 128 * 4
TABLE = np.repeat(np.arange(16), 4).astype(np.int64)  # each block of the weight serves four steps
INPUTS = [((STEPS,), "int32"), ((STEPS * ROWS, 128), "float32"), ((2048, 128), "float32")]


def grouped(body):
    def function(table, x, weights):
        return pl.pallas_call(
            body,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(STEPS,),
                in_specs=[
                    pl.BlockSpec((ROWS, 128), lambda i, table: (i, 0)),
                    pl.BlockSpec((128, 128), lambda i, table: (table[i], 0)),
                ],
                out_specs=pl.BlockSpec((ROWS, 128), lambda i, table: (i, 0)),
            ),
            out_shape=jax.ShapeDtypeStruct((STEPS * ROWS, 128), x.dtype),
        )(table, x, weights)

    return function


def plain(table_ref, x_ref, w_ref, o_ref):
    o_ref[...] = jnp.dot(x_ref[...], w_ref[...])


def skipping(table_ref, x_ref, w_ref, o_ref):
    """Steps of the blocks 12 to 15 do nothing; of those that do something, some do more."""
    group = table_ref[pl.program_id(0)]

    @pl.when(group < 12)
    def _():
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...])

    @pl.when(group == 3)
    def _():
        o_ref[...] = jnp.exp(o_ref[...])


def nested(table_ref, x_ref, w_ref, o_ref):
    @pl.when(table_ref[pl.program_id(0)] < 12)
    def _():
        def turn(i, carry):
            o_ref[...] = x_ref[...] * 2.0
            return carry

        jax.lax.fori_loop(0, table_ref[pl.program_id(0)], turn, 0)


def _planned(body, known=True, tpu="v5e"):
    program, _ = kernels(grouped(body), INPUTS)
    steering = [[TABLE, None, None]] if known else None
    (found,) = static_profile.plan_kernels(program, tpu, steering)
    return found


def test_bytes_are_those_of_the_blocks_that_the_values_choose():
    found = _planned(plain)
    assert found["window_bytes"] == [0, STEPS * BLOCK, 16 * BLOCK, STEPS * BLOCK]
    assert found["moved_bytes"] == [(STEPS + 16) * BLOCK, STEPS * BLOCK]
    assert (found["lower_bound"], found["notes"], found["steered"]) == (False, [], True)
    assert found["kinds"] == [None] * len(found["points"])
    shared = found["pipeline"]["transfers"]
    # reads for the next step and a write of the step before; every fourth step brings another weight
    assert [2 * BLOCK, 2, 47] in shared
    assert [3 * BLOCK, 3, 15] in shared


def test_without_the_values_the_time_is_a_lower_bound_and_no_bytes_are_known():
    found = _planned(plain, known=False)
    assert (found["lower_bound"], found["window_bytes"], found["moved_bytes"]) == (True, None, None)
    assert found["steered"]
    assert any("block indices depend on data" in note for note in found["notes"])


def test_kernels_that_no_value_steers_ask_for_none():
    program, _ = kernels(lambda x: jax.experimental.pallas.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2), out_shape=x)(x), [((8, 128), "float32")])  # fmt: skip
    assert [kernel["steered"] for kernel in static_profile.plan_kernels(program, "v5e")] == [False]


def test_every_kind_of_step_counts_as_often_as_it_occurs():
    program, (call,) = kernels(grouped(skipping), INPUTS)
    with program.context:
        plan, kinds = step_kinds.plan(call, [TABLE, None, None], lambda copy: static_profile.plan_for(copy, "v5e")[0])
    cost = {(True, False): 7.0, (True, True): 11.0, (False, False): 2.0}
    # 44 steps multiply, 4 take the exponential too, 16 do nothing; each run costs 100 beside its steps
    cycles = [100 + np.prod(point) * cost[tuple(kind["taken"])] for point, kind in zip(plan.points, kinds, strict=True)]
    assert plan.total(cycles) == pytest.approx(100 + 44 * 7 + 4 * 11 + 16 * 2)
    assert tuple(kinds[0]["taken"]) == (True, False)
    assert plan.steps < STEPS


def test_a_kind_of_step_has_constant_branches():
    program, (call,) = kernels(grouped(skipping), INPUTS)
    with program.context:
        assert regularity(call).data_dependent
        numbers, _ = variants.branches(call, [TABLE, None, None])
        copy = step_kinds.of_kind(call, step_kinds.Kind(branches=numbers, taken=[True, False]))
        assert not regularity(copy).data_dependent
        assert step_kinds.of_kind(call, None) is call


def test_loops_of_a_length_that_values_decide_stay_a_lower_bound():
    found = _planned(nested)
    assert (found["lower_bound"], found["moved_bytes"]) == (True, None)
    assert any("loops, depend on data" in note for note in found["notes"])


def test_many_kinds_of_steps_are_not_profiled_one_by_one(monkeypatch):
    monkeypatch.setattr(step_kinds, "MOST_KINDS", 2)
    found = _planned(skipping)
    assert found["lower_bound"]
    assert any("3 different ways" in note for note in found["notes"])


def test_long_grids_are_not_followed(monkeypatch):
    program, (call,) = kernels(grouped(plain), INPUTS)
    monkeypatch.setattr(step_kinds, "MOST_STEPS", STEPS - 1)
    with program.context, pytest.raises(DataDependent, match="too many steps"):
        step_kinds.plan(call, [TABLE, None, None], lambda copy: sampling.whole_grid(copy.grid))


def every_group(table_ref, x_ref, w_ref, o_ref):
    @pl.when(table_ref[pl.program_id(0)] == pl.program_id(1))
    def _():
        o_ref[...] = jnp.dot(x_ref[...], w_ref[...])


def fetched_for_nothing(table, x, weights):
    """The groups are a grid axis: of each block's 16 steps one multiplies."""
    block = pl.BlockSpec((ROWS, 128), lambda i, g: (i, 0))
    return pl.pallas_call(
        every_group,
        grid=(STEPS, 16),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), block, pl.BlockSpec((128, 128), lambda i, g: (g, 0))],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct((STEPS * ROWS, 128), x.dtype),
    )(table, x, weights)


def test_blocks_that_arrive_for_steps_without_work_are_found():
    program, (call,) = kernels(fetched_for_nothing, INPUTS)
    with program.context:
        # a block of x serves a step that multiplies, whenever it arrives
        assert step_kinds.idle(call, [TABLE, None, None]) == (STEPS * 15, STEPS * 15 * BLOCK)
    assert _planned(plain)["anatomy"]["idle_steps"] == 0
    # the last 16 steps do nothing, and their four weights and 16 blocks of x come for nothing
    found = _planned(skipping)["anatomy"]
    assert (found["idle_steps"], found["idle_bytes"]) == (16, (16 + 4) * BLOCK)


def test_the_finding_names_what_to_do_about_idle_steps():
    moved = [views.operand(moved_bytes=30 << 30, axes=[1]), views.operand(moved_bytes=2 << 30)]
    kernel = views.kernel(
        grid=(64, 16), us=60_000.0, hbm_us=40_000.0, operands=moved, idle_steps=960, idle_bytes=28 << 30,
        stalls={"DMA read of operand 0": 0.5},
    )  # fmt: skip
    (found,) = detect_blocks.idle_steps(views.view(kernel))
    assert found.text.startswith("In 960 of the 1,024 grid steps of kernel kernel no branch is taken")
    assert "blocks of 28 GiB" in found.text
    assert found.taxonomy_row == "07_grouped_matmul"
    assert found.costs_us == pytest.approx((28 << 30) / 800e9 * 1e6, rel=1e-3)  # more than the waits of the schedule
    assert list(detect_blocks.idle_steps(views.view(views.kernel(operands=moved, idle_steps=960, idle_bytes=1)))) == []


def test_what_a_step_is_made_of_counts_no_idle_steps():
    step = {"flops": 1e9, "vector_elements": 0, "transcendental_elements": 0}
    kernel = views.kernel(grid=(100,), us=10_000.0, mxu_us=2749.0, step=step, idle_steps=50)
    (found,) = diagnosis.diagnose(views.view(kernel), [])
    assert "of the 300,000 cycles of a step" in found.text  # of 15 million cycles in 50 steps


def test_reads_beyond_the_end_of_an_array_do_not_spoil_what_is_known():
    def edges(table_ref, x_ref, w_ref, o_ref):
        step = pl.program_id(0)

        @pl.when((step == STEPS - 1) | (table_ref[step + 1] != table_ref[step]))
        def _():
            o_ref[...] = jnp.dot(x_ref[...], w_ref[...])

    program, (call,) = kernels(grouped(edges), INPUTS)
    with program.context:
        _, counts = variants.branches(call, [TABLE, None, None])
    assert counts == {(False,): 48, (True,): 16}
