import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_weight = jax.random.split(key)
    x = jax.random.uniform(key_x, (size["M"], size["K"]))
    weight = jax.random.normal(key_weight, (size["N"], size["K"]))
    return x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)


def workload(x, weight):
    z = jnp.dot(x, weight.T, precision=jax.lax.Precision.HIGHEST)
    return jnp.sum(z / 2, axis=1, keepdims=True) * 1.5


def oracle(x, weight):
    z = jnp.dot(x.astype(jnp.float32), weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
    return 0.75 * jnp.sum(z, axis=1, keepdims=True)
