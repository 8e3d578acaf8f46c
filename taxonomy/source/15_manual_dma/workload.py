"""Sums of pages that an index names: what a step reads lies in several places, known only when the program runs."""

import jax
import jax.numpy as jnp

GROUP = 8  # pages of one sum


def create_inputs(key, size):
    """Every page is named at most once, in random order, so that the pages read are the least that can be."""
    key_pages, key_index = jax.random.split(key)
    pages = jax.random.normal(key_pages, (size["P"], size["R"], size["D"]))
    index = jax.random.permutation(key_index, size["P"])[: size["S"] * GROUP]
    return pages, index.astype(jnp.int32)


def workload(pages, index):
    return jnp.sum(pages[index.reshape(-1, GROUP)], axis=1)


def oracle(pages, index):
    chosen = jax.nn.one_hot(index.reshape(-1, GROUP), pages.shape[0], dtype=jnp.float32).sum(axis=1)
    return jnp.einsum("sp,prd->srd", chosen, pages, precision=jax.lax.Precision.HIGHEST)
