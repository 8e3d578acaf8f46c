import jax
import jax.numpy as jnp


def create_inputs(key, size):
    sequences, per_sequence, page = size["N"], size["PPS"], size["PAGE"]
    key_q, key_k, key_v, key_lens, key_pages = jax.random.split(key, 5)
    queries = jax.random.normal(key_q, (sequences, size["HQ"], size["D"]))
    pages = (size["P"], page, size["HKV"], size["D"])
    k_pages, v_pages = jax.random.normal(key_k, pages), jax.random.normal(key_v, pages)
    # One token, one more than a page, half, one more than half, nearly all, all; the others spread evenly.
    most = per_sequence * page
    special = [1, page + 1, most // 2, most // 2 + 1, most - 1, most]
    others = sequences - len(special)
    lengths = special + [most * (2 * i + 1) // (2 * others) + 13 for i in range(others)]
    kv_lens = jax.random.permutation(key_lens, jnp.array(lengths, jnp.int32))
    page_indices = jax.random.permutation(key_pages, size["P"])[: sequences * per_sequence]
    page_indices = page_indices.reshape(sequences, per_sequence).astype(jnp.int32)
    cu_q_lens = jnp.arange(sequences + 1, dtype=jnp.int32)
    arrays = (array.astype(jnp.bfloat16) for array in (queries, k_pages, v_pages))
    return (*arrays, kv_lens, page_indices, cu_q_lens)


def workload(queries, k_pages, v_pages, kv_lens, page_indices, cu_q_lens):
    sequences = len(kv_lens)
    heads, depth = queries.shape[1:]
    kv_heads = k_pages.shape[2]
    q = queries[cu_q_lens[:-1]].reshape(sequences, kv_heads, heads // kv_heads, depth)
    k = k_pages[page_indices].reshape(sequences, -1, kv_heads, depth)
    v = v_pages[page_indices].reshape(sequences, -1, kv_heads, depth)
    scores = jnp.einsum("nhgd,nthd->nhgt", q, k) * depth**-0.5
    visible = jnp.arange(k.shape[1]) < kv_lens[:, None]
    weights = jax.nn.softmax(jnp.where(visible[:, None, None], scores, -1e30), axis=-1)
    return jnp.einsum("nhgt,nthd->nhgd", weights, v).reshape(sequences, heads, depth)


def oracle(queries, k_pages, v_pages, kv_lens, page_indices, cu_q_lens):
    heads, depth = queries.shape[1:]
    page, kv_heads = k_pages.shape[1:3]
    token = jnp.arange(page_indices.shape[1] * page)

    def one_sequence(sequence):
        where = page_indices[sequence, token // page], token % page
        query = queries[cu_q_lens[sequence]].astype(jnp.float32)
        k, v = (array[where].astype(jnp.float32) for array in (k_pages, v_pages))
        visible = token < kv_lens[sequence]

        def one_head(head):
            of_head = head // (heads // kv_heads)
            scores = jnp.dot(k[:, of_head], query[head], precision=jax.lax.Precision.HIGHEST) * depth**-0.5
            weights = jax.nn.softmax(jnp.where(visible, scores, -jnp.inf))
            return jnp.dot(weights, v[:, of_head], precision=jax.lax.Precision.HIGHEST)

        return jax.lax.map(one_head, jnp.arange(heads))

    return jax.lax.map(one_sequence, jnp.arange(len(kv_lens)))
