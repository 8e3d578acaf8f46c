"""softplus of every element: a stream of blocks with a few vector operations on each."""

import jax
import jax.numpy as jnp


def create_inputs(key, size):
    """Half of the elements near 0, where softplus bends, half spread out, where it is 0 or x."""
    key_x, key_wide = jax.random.split(key)
    x = jax.random.normal(key_x, (size["M"], size["N"]))
    wide = jax.random.bernoulli(key_wide, 0.5, x.shape)
    return (jnp.where(wide, 8 * x, x),)


def workload(x):
    return jnp.maximum(x, 0) + jnp.log(1 + jnp.exp(-jnp.abs(x)))


def oracle(x):
    return jnp.logaddexp(x.astype(jnp.float32), 0.0)
