import jax
import jax.numpy as jnp


def create_inputs(key, size):
    tokens, features, vocabulary = size["T"], size["H"], size["V"]
    key_hidden, key_weight, key_labels, key_rows, key_scale = jax.random.split(key, 5)
    hidden = jax.random.normal(key_hidden, (tokens, features))
    weight = jax.random.normal(key_weight, (features, vocabulary)) * (0.04 * (4096 / features) ** 0.5)
    weight = weight.astype(jnp.bfloat16)
    # With random labels and equal rows the loss is predictable without computing. So every second token
    # is labelled with its likeliest word, rows differ in scale, and so do draws.
    wide = weight.astype(jnp.float32)
    likeliest = jax.lax.map(lambda row: jnp.argmax(row @ wide), hidden[::2], batch_size=min(128, tokens // 2))
    labels = jax.random.randint(key_labels, (tokens,), 0, vocabulary, jnp.int32)
    labels = labels.at[::2].set(likeliest.astype(jnp.int32))
    rows = jax.random.permutation(key_rows, jnp.linspace(0.0, 2.0, tokens))
    hidden = hidden * rows[:, None] * jax.random.uniform(key_scale, (), minval=0.7, maxval=1.3)
    return hidden.astype(jnp.bfloat16), weight, labels


def workload(hidden, weight, labels):
    logits = jnp.dot(hidden, weight)
    log_probabilities = jax.nn.log_softmax(logits, axis=-1)
    one_hot = jax.nn.one_hot(labels, weight.shape[1], dtype=jnp.float32)
    return jnp.mean(-jnp.sum(one_hot * log_probabilities, axis=-1))


def oracle(hidden, weight, labels):
    wide = weight.astype(jnp.float32)

    def loss(token):
        row, label = token
        logits = jnp.dot(row.astype(jnp.float32), wide, precision=jax.lax.Precision.HIGHEST)
        return jax.nn.logsumexp(logits) - logits[label]

    return jnp.mean(jax.lax.map(loss, (hidden, labels), batch_size=min(128, len(labels))))
