import jax
import jax.numpy as jnp


def create_inputs(key, size):
    model, keys = size["E"], jax.random.split(key, 7)
    shapes = [
        (model, size["RQ"]),
        (size["RQ"], size["HQK"]),
        (model, size["RKVR"]),
        (size["RKV"], size["HK"]),
        (size["RKV"], size["HV"]),
        (size["HV"], model),
    ]
    x = jax.random.normal(keys[0], (size["B"], size["S"], model))
    weights = [jax.random.normal(k, shape) * shape[0] ** -0.5 for k, shape in zip(keys[1:], shapes, strict=True)]
    return tuple(array.astype(jnp.bfloat16) for array in (x, *weights))


def workload(x, q_down, q_up, kv_down, k_up, v_up, o_proj):
    batch, length, _ = x.shape
    latent_rank = k_up.shape[0]
    rope = kv_down.shape[1] - latent_rank
    heads = (q_up.shape[1] - k_up.shape[1]) // rope
    nope = k_up.shape[1] // heads

    def split_heads(array):
        return array.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)

    frequencies = 10000.0 ** (-jnp.arange(0, rope, 2, dtype=jnp.float32) / rope)
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * frequencies
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)

    def rotate(array):
        a, b = jnp.split(array, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    query = split_heads(jnp.dot(jnp.dot(x, q_down), q_up))
    query = jnp.concatenate([query[..., :nope], rotate(query[..., nope:])], axis=-1)
    compressed = jnp.dot(x, kv_down)
    latent, shared_key = compressed[..., :latent_rank], compressed[..., latent_rank:]
    shared_key = jnp.broadcast_to(rotate(shared_key)[:, None], (batch, heads, length, rope))
    key = jnp.concatenate([split_heads(jnp.dot(latent, k_up)), shared_key], axis=-1)
    value = split_heads(jnp.dot(latent, v_up))

    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) * (nope + rope) ** -0.5
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, value)
    return jnp.dot(out.transpose(0, 2, 1, 3).reshape(batch, length, -1), o_proj)


def oracle(x, q_down, q_up, kv_down, k_up, v_up, o_proj):
    batch, length, model = x.shape
    latent_rank = k_up.shape[0]
    rope = kv_down.shape[1] - latent_rank
    heads = (q_up.shape[1] - k_up.shape[1]) // rope
    nope, depth = k_up.shape[1] // heads, v_up.shape[1] // heads
    causal = jnp.tril(jnp.ones((length, length), dtype=bool))
    position = jnp.arange(length, dtype=jnp.float32)[:, None]
    angles = position * jnp.exp(jnp.arange(rope // 2) * (-2 * jnp.log(10000.0) / rope))

    def dot(left, right):
        return jnp.dot(left, right.astype(jnp.float32), precision=jax.lax.Precision.HIGHEST)

    def rotate(array):
        a, b = array[:, : rope // 2], array[:, rope // 2 :]
        return jnp.concatenate(
            [a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], axis=-1
        )

    def one_sequence(x):
        x = x.astype(jnp.float32)
        compressed_query, compressed = dot(x, q_down), dot(x, kv_down)
        latent, key_rope = compressed[:, :latent_rank], rotate(compressed[:, latent_rank:])

        def add_head(head, out):
            def columns(matrix, width):
                return jax.lax.dynamic_slice_in_dim(matrix, head * width, width, axis=1)

            query = dot(compressed_query, columns(q_up, nope + rope))
            key, value = dot(latent, columns(k_up, nope)), dot(latent, columns(v_up, depth))
            scores = dot(query[:, :nope], key.T) + dot(rotate(query[:, nope:]), key_rope.T)
            weights = jax.nn.softmax(jnp.where(causal, scores * (nope + rope) ** -0.5, -1e9), axis=-1)
            rows = jax.lax.dynamic_slice_in_dim(o_proj, head * depth, depth, axis=0)
            return out + dot(dot(weights, value), rows)

        return jax.lax.fori_loop(0, heads, add_head, jnp.zeros((length, model), jnp.float32))

    return jax.lax.map(one_sequence, x)
