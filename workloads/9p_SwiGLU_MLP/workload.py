import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_gate, key_up, key_down = jax.random.split(key, 4)
    model, hidden = size["E"], size["M"]
    x = jax.random.normal(key_x, (size["B"], size["S"], model))
    gate = jax.random.normal(key_gate, (model, hidden)) * model**-0.5
    up = jax.random.normal(key_up, (model, hidden)) * model**-0.5
    down = jax.random.normal(key_down, (hidden, model)) * hidden**-0.5
    return tuple(array.astype(jnp.bfloat16) for array in (x, gate, up, down))


def workload(x, gate, up, down):
    hidden = jax.nn.silu(jnp.dot(x, gate)) * jnp.dot(x, up)
    return jnp.dot(hidden, down)


def oracle(x, gate, up, down):
    def dot(left, right):
        return jnp.dot(left, right.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

    x = x.astype(jnp.float32)
    return dot(jax.nn.silu(dot(x, gate)) * dot(x, up), down)
