import jax
import jax.numpy as jnp


def create_inputs(key, size):
    key_x, key_w1, key_b1, key_w2, key_b2, key_rows = jax.random.split(key, 6)
    rows, width, hidden, outputs = size["M"], size["K"], size["H"], size["N"]
    # Rows differ in scale, and the shifts of w1 and w2 let that scale through: with equal rows a constant would come close.
    x = jax.random.uniform(key_x, (rows, width))
    x = x * jax.random.permutation(key_rows, jnp.linspace(-1.5, 1.5, rows))[:, None]
    # The products keep their distributions when K and H are reduced.
    w1 = jax.random.normal(key_w1, (hidden, width)) * (0.02 * (2048 / width) ** 0.5) + 4 / width
    b1 = jax.random.normal(key_b1, (hidden,)) * 0.5 + 0.5
    w2 = jax.random.normal(key_w2, (outputs, hidden)) * (0.1 * (4096 / hidden) ** 0.5) + 16 / hidden
    b2 = jax.random.normal(key_b2, (outputs,)) * 0.5 + 0.5
    return tuple(array.astype(jnp.bfloat16) for array in (x, w1, b1, w2, b2))


def workload(x, w1, b1, w2, b2):
    hidden = jax.nn.sigmoid(jnp.dot(x, w1.T) + b1)
    return jax.nn.logsumexp(jnp.dot(hidden, w2.T) + b2, axis=1)


def oracle(x, w1, b1, w2, b2):
    def linear(x, weight, bias):
        product = jnp.dot(x, weight.T.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)
        return product + bias.astype(jnp.float32)

    hidden = 1 / (1 + jnp.exp(-linear(x.astype(jnp.float32), w1, b1)))
    z = linear(hidden, w2, b2)
    top = jnp.max(z, axis=1)
    return jnp.log(jnp.sum(jnp.exp(z - top[:, None]), axis=1)) + top
