import jax
import jax.numpy as jnp


def create_inputs(key, size):
    experts, model, hidden = size["X"], size["E"], size["M"]
    key_x, key_router, key_gate, key_up, key_down = jax.random.split(key, 5)
    router = jax.random.normal(key_router, (model, experts)) * (2 * model**-0.5)
    router = router.astype(jnp.bfloat16)
    x = jax.random.normal(key_x, (size["B"], size["S"], model))
    # Where the second and third expert nearly tie, rounding would choose: such tokens move towards the first two.
    directions = router.astype(jnp.float32)
    logits = jnp.dot(x, directions, precision=jax.lax.Precision.HIGHEST)
    best, chosen = jax.lax.top_k(logits, 3)
    margin = 0.1 * jnp.abs(logits).max(axis=-1)
    push = jnp.where(best[..., 1] - best[..., 2] < margin, margin, 0)
    towards = (directions / (directions * directions).sum(axis=0)).T[chosen[..., :2]].sum(axis=-2)
    x = x + push[..., None] * towards
    gate = jax.random.normal(key_gate, (experts, model, hidden)) * model**-0.5
    up = jax.random.normal(key_up, (experts, model, hidden)) * model**-0.5
    down = jax.random.normal(key_down, (experts, hidden, model)) * hidden**-0.5
    return (x.astype(jnp.bfloat16), router, *(array.astype(jnp.bfloat16) for array in (gate, up, down)))


def workload(x, router, gate, up, down):
    logits = jnp.dot(x, router)
    best, chosen = jax.lax.top_k(logits, 2)
    shares = jax.nn.softmax(best, axis=-1)
    weights = (jax.nn.one_hot(chosen, router.shape[1], dtype=jnp.float32) * shares[..., None]).sum(axis=-2)
    hidden = jax.nn.silu(jnp.einsum("bse,nem->bsnm", x, gate)) * jnp.einsum("bse,nem->bsnm", x, up)
    outputs = jnp.einsum("bsnm,nme->bsne", hidden, down)
    return jnp.einsum("bsne,bsn->bse", outputs, weights)


def oracle(x, router, gate, up, down):
    def dot(left, right):
        return jnp.dot(left, right.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

    x = x.astype(jnp.float32)
    best, chosen = jax.lax.top_k(dot(x, router), 2)
    shares = jax.nn.softmax(best, axis=-1)

    def add_expert(expert, out):
        share = jnp.where(chosen == expert, shares, 0).sum(axis=-1, keepdims=True)
        hidden = jax.nn.silu(dot(x, gate[expert])) * dot(x, up[expert])
        return out + share * dot(hidden, down[expert])

    return jax.lax.fori_loop(0, router.shape[1], add_expert, jnp.zeros(x.shape, jnp.float32))
