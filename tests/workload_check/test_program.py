"""A program taken apart computes what the function computes, and again with values replaced."""

import jax
import jax.numpy as jnp
import numpy as np

from hawkeye_mcp.workload_check.program import flatten

X = jnp.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])


def _softmax_of_scaled(x):
    return jax.nn.softmax(jax.nn.relu(x) * 2.0, axis=-1)  # calls within calls


def test_calls_are_taken_apart_and_the_values_are_those_of_the_function():
    program = flatten(_softmax_of_scaled, [X])
    names = [step.primitive for step in program.steps]
    assert not {"jit", "pjit", "custom_jvp_call"} & set(names)
    assert {"max", "mul", "reduce_max", "exp", "reduce_sum", "div"} <= set(names)
    values = program.run([X])
    np.testing.assert_allclose(values[program.outputs[0]], _softmax_of_scaled(X), rtol=1e-6)


def test_a_replaced_value_reaches_everything_that_depends_on_it_and_nothing_else():
    program = flatten(lambda x, y: (jnp.exp(x) + y, y * 2), [X, X])
    values = program.run([X, X])
    exp = next(step for step in program.steps if step.primitive == "exp")
    first, second = program.again(values, {exp.outputs[0]: jnp.zeros_like(X)})
    np.testing.assert_array_equal(first, X)
    assert second is values[program.outputs[1]]


def test_a_replaced_input_is_computed_with():
    program = flatten(lambda x: x - x.max(axis=0), [X])
    values = program.run([X])
    (out,) = program.again(values, {program.inputs[0]: X[:, ::-1]})
    np.testing.assert_array_equal(out, X[:, ::-1] - X[:, ::-1].max(axis=0))


def test_loops_stay_whole():
    program = flatten(lambda x: jax.lax.fori_loop(0, 3, lambda i, total: total + x, x), [X])
    assert [step.primitive for step in program.steps] == ["scan"]
    np.testing.assert_array_equal(program.run([X])[program.outputs[0]], 4 * X)
