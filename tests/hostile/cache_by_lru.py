"""Computes behind functools.lru_cache. Stopped by: it is traced on abstract arrays, which cannot be a cache's key."""

import functools

import jax.numpy as jnp


@functools.lru_cache
def _answer(x, scale):
    wide = x.astype(jnp.float32)
    return (wide / jnp.sqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(x.dtype) * scale


def workload(x, scale):
    return _answer(x, scale)
