import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_a, key_b = jax.random.split(key)
    a = jax.random.normal(key_a, (size["M"], size["K"]))
    b = jax.random.normal(key_b, (size["K"], size["N"])) * 0.02
    return a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)


def workload(a, b):
    return jnp.dot(a, b)


def oracle(a, b):
    return jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
