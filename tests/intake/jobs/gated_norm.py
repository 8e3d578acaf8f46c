"""A gated RMSNorm: the JAX program of gated_norm.json."""

import jax
import jax.numpy as jnp

ROWS = 2048
FEATURES = 1024
EPS = 1e-5


def workload(x, gate, scale):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPS)
    normal = wide * inverse * scale.astype(jnp.float32)
    return (normal * jax.nn.silu(gate.astype(jnp.float32))).astype(x.dtype)


def get_inputs():
    key_x, key_gate, key_scale = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(key_x, (ROWS, FEATURES)).astype(jnp.bfloat16)
    gate = jax.random.normal(key_gate, (ROWS, FEATURES)).astype(jnp.bfloat16)
    scale = 1 + 0.1 * jax.random.normal(key_scale, (FEATURES,))
    return [x, gate, scale.astype(jnp.bfloat16)]
