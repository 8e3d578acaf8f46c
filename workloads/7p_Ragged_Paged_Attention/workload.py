import jax
import jax.numpy as jnp


def create_inputs(key, size):
    rows, slots, per_sequence, page = size["M"], size["N"], size["PPS"], size["PAGE"]
    decoding, prefilling = slots * 3 // 4, slots // 8
    longest, most = rows // prefilling, per_sequence * page
    key_q, key_kv, key_pages, key_decoding, key_prefilling = jax.random.split(key, 5)
    queries = jax.random.normal(key_q, (rows, size["HQ"], size["D"]))
    kv_pages = jax.random.normal(key_kv, (size["P"], page, size["KV"], size["D"]))
    # Lengths of the cache: one token more than some pages where one token is decoded, one less where many are new.
    steps = per_sequence - per_sequence // 16
    decode_lens = jnp.array([(per_sequence - steps + 73 * i % steps) * page + 1 for i in range(decoding)])
    prefill_lens = jnp.array([min(most * (i + 2) // prefilling, most) - 1 for i in range(prefilling)])
    new_tokens = jnp.array([longest] * (prefilling - 1) + [longest - decoding])
    order = jax.random.permutation(key_prefilling, prefilling)
    idle = slots - decoding - prefilling
    q_lens = jnp.concatenate([jnp.ones(decoding, int), new_tokens[order], jnp.zeros(idle, int)])
    kv_lens = jnp.concatenate(
        [jax.random.permutation(key_decoding, decode_lens), prefill_lens[order], jnp.zeros(idle, int)]
    )
    cu_q_lens = jnp.concatenate([jnp.zeros(1, int), jnp.cumsum(q_lens)])
    page_indices = jax.random.permutation(key_pages, size["P"])[: slots * per_sequence]
    return (
        queries.astype(jnp.bfloat16),
        kv_pages.astype(jnp.bfloat16),
        kv_lens.astype(jnp.int32),
        page_indices.reshape(slots, per_sequence).astype(jnp.int32),
        cu_q_lens.astype(jnp.int32),
        jnp.array([decoding + prefilling], jnp.int32),
    )


def workload(queries, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs):
    rows, heads, depth = queries.shape
    slots = len(kv_lens)
    decoding, prefilling = slots * 3 // 4, slots // 8
    kv_heads = kv_pages.shape[2] // 2

    def attend(slot, most_rows):
        q_len, kv_len = cu_q_lens[slot + 1] - cu_q_lens[slot], kv_lens[slot]
        row = jnp.arange(most_rows)
        owned = (row < q_len) & (slot < num_seqs[0])
        where = jnp.where(owned, cu_q_lens[slot] + row, rows)
        q = queries.at[where].get(mode="clip").reshape(most_rows, kv_heads, heads // kv_heads, depth)
        kv = kv_pages[page_indices[slot]].reshape(-1, kv_heads, 2, depth)
        scores = jnp.einsum("qhgd,thd->hgqt", q, kv[:, :, 0], preferred_element_type=jnp.float32) * depth**-0.5
        token = jnp.arange(kv.shape[0])
        visible = (token <= (kv_len - q_len + row)[:, None]) & (token < kv_len)
        mask_value = -0.7 * jnp.finfo(jnp.float32).max
        weights = jax.nn.softmax(jnp.where(visible, scores, mask_value), axis=-1).astype(queries.dtype)
        out = jnp.einsum("hgqt,thd->qhgd", weights, kv[:, :, 1])
        return where, out.reshape(most_rows, heads, depth)

    where, values = jax.vmap(lambda slot: attend(slot, 1))(jnp.arange(decoding))
    out = jnp.zeros_like(queries).at[where[:, 0]].set(values[:, 0], mode="drop")
    for slot in range(decoding, decoding + prefilling):
        where, values = attend(slot, rows // prefilling)
        out = out.at[where].set(values, mode="drop")
    return out


def oracle(queries, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs):
    rows, heads, depth = queries.shape
    page, kv_heads = kv_pages.shape[1], kv_pages.shape[2] // 2
    token = jnp.arange(page_indices.shape[1] * page)

    def one_row(row):
        slot = jnp.searchsorted(cu_q_lens[1:], row, side="right")
        last = kv_lens[slot] - (cu_q_lens[slot + 1] - row)
        kv = kv_pages[page_indices[slot, token // page], token % page].astype(jnp.float32)
        k, v = kv[:, 0::2], kv[:, 1::2]
        query = queries[row].astype(jnp.float32).reshape(kv_heads, -1, depth)
        scores = jnp.einsum("hgd,thd->hgt", query, k, precision=jax.lax.Precision.HIGHEST) * depth**-0.5
        weights = jax.nn.softmax(jnp.where(token <= last, scores, -1e30), axis=-1)
        out = jnp.einsum("hgt,thd->hgd", weights, v, precision=jax.lax.Precision.HIGHEST)
        return jnp.where(slot < num_seqs[0], out, 0).reshape(heads, depth)

    return jax.lax.map(one_row, jnp.arange(rows))
