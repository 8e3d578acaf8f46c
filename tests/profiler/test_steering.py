"""The integers that steer a kernel, cut out of its artifact: what is followed, and what stays unknown and why."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import tpu_bytes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import artifact
from hawkeye_mcp.profiler import steering

SIZES, X = ((4,), "int32"), ((512, 128), "float32")
GIVEN = np.array([3, 0, 2, 1], np.int32)


def gather(table, x, body=None):
    """Block i of the result is block table[i] of x."""

    def copy(table_ref, x_ref, out_ref):
        out_ref[...] = x_ref[...]

    return pl.pallas_call(
        body or copy,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((128, 128), lambda i, table: (table[i], 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i, table: (i, 0)),
        ),
        out_shape=x,
    )(table, x)


def _cut(function, *inputs):
    return steering.cut(artifact.read(tpu_bytes(function, inputs)))


def _values(found, *given):
    return [np.asarray(array).tolist() for array in jax.jit(found.exported.call)(*given)]


def test_operations_before_a_kernel_are_followed_through_their_functions():
    def function(x, sizes):
        ends = jnp.cumsum(sizes)
        group = jnp.searchsorted(ends, jnp.arange(4, dtype=jnp.int32), side="right")
        return jax.jit(gather)(group.astype(jnp.int32), x + 1)

    found = _cut(function, X, SIZES)
    assert (found.inputs, found.operands, found.unknown) == ([1], [(0, 0)], {})
    assert found.drawn == {(0, 0)}
    assert _values(found, GIVEN) == [[0, 0, 0, 2]]


def test_a_loop_before_a_kernel_is_followed():
    def function(x, sizes):
        return gather(jax.lax.fori_loop(0, sizes[0], lambda i, table: (table + i) % 4, sizes), x)

    found = _cut(function, X, SIZES)
    assert found.unknown == {}
    assert _values(found, GIVEN) == [[(n + 3) % 4 for n in GIVEN]]


def test_constants_are_known_and_no_draw():
    found = _cut(lambda x, sizes: gather(jnp.array([1, 0, 3, 2], jnp.int32), x), X, SIZES)
    assert (found.drawn, found.unknown) == (set(), {})
    assert _values(found, GIVEN) == [[1, 0, 3, 2]]


def test_what_depends_on_floats_stays_unknown_and_the_rest_does_not():
    def function(x, sizes):
        return gather(sizes, x) + gather(jnp.argsort(x[:4, 0]).astype(jnp.int32), x * 2)

    found = _cut(function, X, SIZES)
    assert found.operands == [(0, 0), (1, 0)]
    assert found.unknown == {(1, 0): "it depends on input 0, which is not a small integer array"}
    assert _values(found, GIVEN)[0] == GIVEN.tolist()


def test_what_depends_on_a_kernel_stays_unknown():
    def function(x, sizes):
        return gather((gather(sizes, x)[:4, 0] > 0).astype(jnp.int32), x)

    assert _cut(function, X, SIZES).unknown == {(1, 0): "it depends on a kernel's result"}


def test_a_kernel_in_a_loop_has_no_one_value():
    found = _cut(lambda x, sizes: jax.lax.fori_loop(0, 3, lambda i, y: gather((sizes + i) % 4, y), x), X, SIZES)
    assert found.unknown == {(0, 0): "it is in a loop or a branch"}


def test_a_kernel_that_runs_twice_is_known_only_if_its_values_are_the_same():
    again = jax.jit(gather)

    def function(tables):
        def run(x, sizes):
            for table in tables(sizes):
                x = again(table, x)
            return x

        return run

    same = _cut(function(lambda sizes: [sizes, sizes]), X, SIZES)
    assert (same.operands, same.unknown) == ([(0, 0)], {})
    assert _values(same, GIVEN) == [GIVEN.tolist()]
    other = _cut(function(lambda sizes: [sizes - 1, sizes + 1]), X, SIZES)
    assert other.operands == [(0, 0)]
    assert other.unknown == {(0, 0): "the kernel runs several times with different values"}


def test_large_arrays_on_the_way_are_not_computed(monkeypatch):
    def function(x, sizes):
        return gather(jnp.sum(jnp.broadcast_to(sizes[:, None], (4, 64)), axis=1) % 4, x)

    assert _cut(function, X, SIZES).unknown == {}
    monkeypatch.setattr(steering, "MOST_ELEMENTS", 128)
    assert _cut(function, X, SIZES).unknown == {(0, 0): "it depends on a large array, which is not followed"}


def test_large_arrays_inside_of_functions_count_too(monkeypatch):
    inner = jax.jit(lambda sizes: jnp.sum(jnp.broadcast_to(sizes[:, None], (4, 64)), axis=1) % 4)
    monkeypatch.setattr(steering, "MOST_ELEMENTS", 128)
    found = _cut(lambda x, sizes: gather(inner(sizes), x), X, SIZES)
    assert found.unknown == {(0, 0): "it depends on a large array, which is not followed"}


def test_an_array_that_the_kernel_writes_is_not_what_was_drawn():
    def body(table_ref, x_ref, out_ref):
        table_ref[0] = 7
        out_ref[...] = x_ref[...]

    assert _cut(lambda x, sizes: gather(sizes, x, body), X, SIZES).operands == []


def test_programs_that_unfold_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(steering, "MOST_OPERATIONS", 3)
    with pytest.raises(ValueError, match="too many operations"):
        _cut(lambda x, sizes: gather((sizes + 1) * 2 % 3 % 4, x), X, SIZES)


def test_whole_arrays_in_smem_steer_as_well():
    def function(x, sizes):
        def body(table_ref, x_ref, out_ref):
            out_ref[...] = x_ref[...] * table_ref[pl.program_id(0)].astype(jnp.float32)

        block = pl.BlockSpec((128, 128), lambda i: (i, 0))
        return pl.pallas_call(
            body, grid=(4,), in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), block], out_specs=block, out_shape=x
        )(sizes + 1, x)

    found = _cut(function, X, SIZES)
    assert found.operands == [(0, 0)]
    assert _values(found, GIVEN) == [[4, 1, 3, 2]]
