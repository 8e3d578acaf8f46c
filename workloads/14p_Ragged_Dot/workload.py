import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weights = jax.random.split(key)
    x = jax.random.normal(key_x, (size["G"], size["M"], size["K"]))
    weights = jax.random.normal(key_weights, (size["G"], size["K"], size["N"])) * 0.02
    return x.astype(jnp.bfloat16), weights.astype(jnp.bfloat16)


def workload(x, weights):
    return jnp.einsum("gmk,gkn->gmn", x, weights)


def oracle(x, weights):
    def one_group(arrays):
        left, right = (array.astype(jnp.float32) for array in arrays)
        return jnp.dot(left, right, precision=jax.lax.Precision.HIGHEST)

    return jax.lax.map(one_group, (x, weights))
