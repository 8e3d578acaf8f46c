import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_y = jax.random.split(key)
    x = jax.random.normal(key_x, (size["K"], size["M"]))
    y = jax.random.normal(key_y, (size["K"], size["N"])) * size["K"] ** -0.5
    return x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)


def workload(x, y):
    return jnp.einsum("km,kn->mn", x, y, preferred_element_type=jnp.float32)


def oracle(x, y):
    x, y = x.astype(jnp.float32), y.astype(jnp.float32)
    return jnp.dot(x.T, y, precision=jax.lax.Precision.HIGHEST)
