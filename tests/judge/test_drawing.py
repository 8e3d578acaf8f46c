"""Draws that are compiled with less care are the draws."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from hawkeye_mcp.judge import drawing


def create_inputs(key, size):
    normal, uniform, integers, order = jax.random.split(key, 4)
    return (
        (jax.random.normal(normal, (size["M"], 33)) * 0.3).astype(jnp.bfloat16),
        jax.random.uniform(uniform, (size["M"],), minval=-2.0, maxval=3.0),
        jax.random.randint(integers, (size["M"], 2), 0, 1000),
        jax.random.permutation(order, size["M"]),
    )


def test_what_is_compiled_quickly_gives_the_same_bits():
    dims = {"M": 65}
    usual = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}  # the tests have other defaults
    as_usual = jax.jit(lambda key: create_inputs(key, dims), compiler_options=usual)
    for seed in range(3):
        found = drawing.draw(SimpleNamespace(create_inputs=create_inputs), dims)(jax.random.key(seed))
        wanted = as_usual(jax.random.key(seed))
        assert [array.dtype for array in found] == [array.dtype for array in wanted]
        assert [np.asarray(array).tobytes() for array in found] == [np.asarray(array).tobytes() for array in wanted]
        assert len(np.unique(np.asarray(found[3]))) == dims["M"]
