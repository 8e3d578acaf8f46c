"""Each mutant is the fault that its name says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hawkeye_mcp.workload_check import mutants
from hawkeye_mcp.workload_check.program import flatten
from hawkeye_mcp.workloads import Tolerance

RNG = np.random.default_rng(0)
SQUARE = jnp.asarray(RNG.normal(size=(4, 4)), jnp.float32)
E = Tolerance(metric="E", limit=0.02, reason="")


def _of(function, *inputs):
    """What each mutant of a function gives, by name; None where it changes nothing."""
    program = flatten(function, inputs)
    return {m.name: m.run() for m in mutants.of_program(program, program.run(inputs))}


def _is(outputs, expected):
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-6)


def test_elementwise_operations_are_left_out():
    found = _of(lambda x, b: jnp.exp(x) * 2 + b, SQUARE, SQUARE * 3)
    _is(found["exp 1: left out"], SQUARE * 2 + SQUARE * 3)
    _is(found["mul 1: operand 0 alone"], jnp.exp(SQUARE) + SQUARE * 3)
    _is(found["add 1: operand 0 alone"], jnp.exp(SQUARE) * 2)
    _is(found["add 1: operand 1 alone"], SQUARE * 3)


def test_a_scalar_does_not_stand_in_for_an_array():
    assert list(_of(lambda x: x + 1, SQUARE)) == ["add 1: operand 0 alone"]


def test_masks_are_off_by_one_and_selections_one_sided():
    def causal(x):
        row = jnp.arange(4)
        return jnp.where(row[:, None] >= row, x, 0)

    found = _of(causal, SQUARE)
    _is(found["ge 1: gt instead"], jnp.tril(SQUARE, -1))
    _is(found["select_n 1: operand 2 alone"], SQUARE)
    _is(found["select_n 1: operand 1 alone"], jnp.zeros_like(SQUARE))


def test_reductions_run_along_another_axis_of_the_same_length_or_stop_early():
    found = _of(lambda x: x.sum(axis=1), SQUARE)
    _is(found["reduce_sum 1: over axis 0 for 1"], SQUARE.sum(axis=0))
    _is(found["reduce_sum 1: last sixteenth of axis 1 dropped"], SQUARE[:, :3].sum(axis=1))
    oblong = SQUARE[:, :3]
    assert list(_of(lambda x: x.max(axis=1), oblong)) == ["reduce_max 1: last sixteenth of axis 1 dropped"]
    _is(
        _of(lambda x: x.max(axis=1), oblong)["reduce_max 1: last sixteenth of axis 1 dropped"],
        oblong[:, :2].max(axis=1),
    )
    _is(_of(lambda x: jnp.cumsum(x, axis=0), oblong)["cumsum 1: along axis 1"], np.cumsum(oblong, axis=1))


def test_the_contraction_of_a_product_is_found_and_cut():
    x, y = (jnp.asarray(RNG.normal(size=(32, 32)), jnp.float32) for _ in range(2))
    found = _of(lambda a, b: jnp.dot(a, b.T), x, y)
    _is(found["dot_general 1: last sixteenth of axis 1 of operand 0 dropped"], jnp.dot(x[:, :30], y.T[:30]))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64).T
    coarse = found["dot_general 1: operands in float8"][0]
    error = np.linalg.norm(coarse - exact) / np.linalg.norm(exact)
    assert 0.02 < error < 0.06  # two operands of three bits after the point


def test_the_contraction_of_a_convolution_is_its_channels_and_its_taps():
    image, filters = jnp.asarray(RNG.normal(size=(1, 2, 5, 5)), jnp.float32), jnp.ones((3, 2, 3, 3))
    found = _of(lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"), image, filters)
    _is(
        found["conv_general_dilated 1: last sixteenth of axis 1 of operand 0 dropped"],
        jax.lax.conv(image[:, :1], filters[:, :1], (1, 1), "VALID"),
    )
    _is(
        found["conv_general_dilated 1: last sixteenth of axis 3 of operand 1 dropped"],
        jax.lax.conv(image, filters.at[:, :, :, 2].set(0), (1, 1), "VALID"),
    )


def test_rounding_to_float8_takes_a_scale_of_its_own():
    values = jnp.array([1.0, 1.0625, 1.125, 300.0, -0.01])
    rounded = mutants.to_float8(values)
    np.testing.assert_allclose(rounded, [1.0, 1.0, 1.125, 288.0, -0.01171875], rtol=1e-4)
    np.testing.assert_array_equal(mutants.to_float8(values * 2.0**-20), rounded * 2.0**-20)
    np.testing.assert_array_equal(mutants.to_float8(jnp.zeros(3)), np.zeros(3))


def test_a_change_without_effect_is_none():
    found = _of(lambda x: jnp.maximum(x, -100.0), SQUARE)
    assert found["max 1: operand 0 alone"] is None


def test_integer_inputs_are_taken_from_another_draw_or_off_by_one_within_what_was_drawn():
    table, lengths, other = jnp.array([3, 1, 0]), jnp.array([2, 2, 2]), jnp.array([0, 1, 3])
    inputs = [SQUARE, table, lengths]
    program = flatten(lambda x, where, size: x[where] * size[:, None], inputs)
    found = {
        m.name: m.run()
        for m in mutants.of_inputs(program, program.run(inputs), ["x", "table", "n"], inputs, [SQUARE, other, lengths])
    }
    assert set(found) == {"table of another draw", "table one less", "table one more", "n one less"}
    _is(found["table of another draw"], SQUARE[other] * 2)
    _is(found["table one less"], SQUARE[jnp.array([2, 0, 0])] * 2)
    _is(found["table one more"], SQUARE[jnp.array([3, 2, 1])] * 2)
    _is(found["n one less"], SQUARE[table])


def test_outputs_are_stale_constant_copied_or_incomplete():
    honest, other = np.asarray(SQUARE), np.asarray(SQUARE) + 1
    found = {
        m.name: m.run() for m in mutants.of_outputs({"x": np.ones((5, 9), np.float32)}, [honest], [honest], [other], E)
    }
    _is(found["zeros"], np.zeros((4, 4)))
    _is(found["constant"], np.full((4, 4), honest.mean()))
    _is(found["mean over axis 0"], np.tile(honest.mean(axis=0), (4, 1)))
    _is(found["copy of x"], np.ones((4, 4)))
    _is(found["another draw's answer"], other)
    _is(found["last row stale"], np.vstack([honest[:3], other[3:]]))
    _is(found["last column stale"], np.hstack([honest[:, :3], other[:, 3:]]))
    assert (found["one block left out"][0] == 0).all()


@pytest.mark.parametrize("shape", [(300, 200), (2, 3, 300, 200)])
def test_the_block_left_out_is_one_block(shape):
    ones = np.ones(shape, np.float32)
    found = {m.name: m.run() for m in mutants.of_outputs({}, [ones], [ones], [ones], E)}
    assert (found["one block left out"][0] == 0).sum() == 128 * 128


def test_a_scalar_has_no_constant_and_no_lines():
    loss = np.float32(2.5).reshape(())
    names = [m.name for m in mutants.of_outputs({}, [loss], [loss], [loss + 1], E)]
    assert names == ["zeros", "another draw's answer"]


def test_split_contractions_are_the_same_up_to_rounding():
    x, y = (jnp.asarray(RNG.normal(size=(8, 33)), jnp.bfloat16) for _ in range(2))
    function = lambda a, b: jax.nn.relu(jnp.dot(a, b.T)) + 1  # noqa: E731
    (out,) = mutants.split(flatten(function, [x, y]), [x, y])
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(out.astype(jnp.float32), function(x, y).astype(jnp.float32), rtol=0.02, atol=0.05)
