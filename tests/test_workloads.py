"""Each workload's declaration is true, its draws have what the statement says, and programs fail that leave out a part
which is more than one operation (of the others workload_check makes mutants)."""

import importlib.util
from functools import cache
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.correctness import compare
from hawkeye_mcp.judge.drawing import draw
from hawkeye_mcp.workloads import UnknownWorkload, load, statement

NAMES = tuple(workloads.names())

_zeros = jnp.zeros_like


def _in_order(table):
    return jnp.arange(table.size, dtype=table.dtype).reshape(table.shape)


# What is left out or taken for granted when inputs are changed as shown: (name, what, {input: change}).
LEFT_OUT = [
    ("2p_GQA_Attention", "scores", {0: _zeros}),
    ("3p_MLA_Attention", "scores", {2: _zeros}),
    ("3p_MLA_Attention", "rotated key", {3: lambda kv_down: kv_down.at[:, -64:].set(0)}),
    ("4p_Sparse_Attention", "scores", {0: _zeros}),
    ("5p_Flex_Attention", "scores", {0: _zeros}),
    ("6p_Paged_Attention", "scores", {0: _zeros}),
    ("6p_Paged_Attention", "lengths", {3: lambda lengths: lengths * 0 + lengths.max()}),
    ("6p_Paged_Attention", "page table", {4: _in_order}),
    ("7p_Ragged_Paged_Attention", "scores", {0: _zeros}),
    ("7p_Ragged_Paged_Attention", "page table", {3: _in_order}),
    ("10p_Sparse_MoE", "routing", {1: _zeros}),
    ("16p_Mamba2_SSD", "decay", {3: lambda a_log: a_log + 100}),
    ("16p_Mamba2_SSD", "memory", {3: lambda a_log: a_log - 8}),
    ("17p_Triangle_Multiplication", "gates", {4: _zeros, 5: _zeros}),
]


@cache
def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"workload_{name}", load(name).folder / "workload.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _run(name: str):
    return jax.jit(_module(name).workload)


@cache
def _draw(name: str):
    return draw(_module(name), load(name).sizes["check"])


@cache
def _case(name: str, seed: int):
    """Inputs at the check size, the honest program's output and the oracle's, as numpy arrays."""
    module = _module(name)
    inputs = _draw(name)(jax.random.key(seed))
    honest = jax.tree.leaves(_run(name)(*inputs))
    oracle = jax.tree.leaves(jax.jit(module.oracle)(*inputs))
    return inputs, [np.asarray(o) for o in honest], [np.asarray(o) for o in oracle]


def _problem(name: str, outputs, seed: int) -> str | None:
    workload = load(name)
    expected = _case(name, seed)[2]
    return compare(outputs, expected, workload.shapes(workload.outputs, "check"), workload.tolerance)[1]


def _shapes(name: str, size: str):
    dims = load(name).sizes[size]
    inputs = jax.eval_shape(lambda key: _module(name).create_inputs(key, dims), jax.random.key(0))
    return (
        inputs,
        jax.eval_shape(_module(name).workload, *inputs),
        jax.eval_shape(_module(name).oracle, *inputs),
    )


def test_all_are_listed_in_numeric_order():
    numbers = [int(name.split("_")[0].rstrip("pk")) for name in NAMES]
    assert numbers == sorted(numbers)
    # Each upstream number once; the one without power is there as upstream has it and as its source does.
    twice = {name for name in NAMES if numbers.count(int(name.split("_")[0].rstrip("pk"))) > 1}
    assert twice <= {"26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", "26k_restored"}
    assert [name for name in NAMES if load(name).no_power] in (
        [],
        ["26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply"],
    )


def test_the_grouped_oracle_is_a_loop_over_groups_of_any_size():
    lhs, rhs, _ = _case("11p_Megablox_GMM", 1)[0]
    sizes = [0, 128, 1, 255, 200, 0, 127, 313]
    out = np.asarray(_module("11p_Megablox_GMM").oracle(lhs, rhs, jnp.array(sizes)))
    ends = np.cumsum(sizes)
    for group, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        want = np.asarray(lhs[start:end], np.float64) @ np.asarray(rhs[group], np.float64)
        np.testing.assert_allclose(out[start:end], want, atol=1e-4)


@pytest.mark.parametrize(("name", "what", "changes"), LEFT_OUT)
def test_leaving_a_part_out_fails(name, what, changes):
    inputs = [changes[i](array) if i in changes else array for i, array in enumerate(_case(name, 1)[0])]
    outputs = jax.tree.leaves(_run(name)(*inputs))
    assert _problem(name, [np.asarray(out) for out in outputs], 1)


def test_retention_without_decay_or_with_a_signed_sum_fails():
    (query, key, value), _, _ = _case("15p_RetNet_Retention", 1)
    length = query.shape[2]
    causal = np.tril(np.ones((length, length)))
    decay = (1 - 2.0 ** (-5 - np.arange(query.shape[1])))[:, None, None]
    distance = np.maximum(np.arange(length)[:, None] - np.arange(length), 0)
    q, k, v = (np.asarray(array, np.float64) for array in (query, key, value))
    scores = q @ k.swapaxes(-1, -2) * causal
    for weights, magnitude in ((scores, np.abs), (scores * decay**distance, lambda sums: sums)):
        out = weights / np.maximum(magnitude(weights).sum(axis=-1, keepdims=True), 1) @ v
        assert _problem("15p_RetNet_Retention", [out.astype(value.dtype)], 1)


def test_no_token_of_the_experts_hangs_on_rounding():
    x, router = _case("10p_Sparse_MoE", 1)[0][:2]
    logits = np.sort(np.asarray(x, np.float64) @ np.asarray(router, np.float64), axis=-1)
    assert ((logits[..., -2] - logits[..., -3]) > 0.02 * np.abs(logits).max(axis=-1)).all()


@pytest.mark.parametrize("size", ["full", "check"])
def test_cached_lengths_add_up_to_the_declared_work_and_are_shuffled_by_the_key(size):
    paged = load("6p_Paged_Attention")
    dims = paged.sizes[size] | {"HQ": 1, "HKV": 1, "D": 1}
    draws = [_module(paged.name).create_inputs(jax.random.key(seed), dims) for seed in (1, 2)]
    lengths = np.asarray(draws[0][3])
    assert {1, 17, dims["PPS"] * 16} <= set(lengths.tolist())
    assert lengths.max() <= dims["PPS"] * 16
    assert lengths.sum() == dims["TOKENS"]
    for index in (3, 4):  # lengths and page table
        assert np.sort(draws[0][index], axis=None).tolist() == np.sort(draws[1][index], axis=None).tolist()
        assert (np.asarray(draws[0][index]) != np.asarray(draws[1][index])).any()
    if size == "full":
        page_bytes = 2 * 2 * 16 * paged.sizes["full"]["HKV"] * paged.sizes["full"]["D"]
        assert paged.unread_bytes == page_bytes * (dims["P"] - np.ceil(lengths / 16).sum())


@pytest.mark.parametrize("size", ["full", "check"])
def test_ragged_sequences_add_up_to_the_declared_work_and_are_shuffled_by_the_key(size):
    ragged = load("7p_Ragged_Paged_Attention")
    dims = ragged.sizes[size] | {"HQ": 1, "KV": 2, "D": 1}
    draws = [_module(ragged.name).create_inputs(jax.random.key(seed), dims) for seed in (1, 2)]
    kv_lens, table, starts, active = (np.asarray(array) for array in draws[0][2:])
    new = np.diff(starts)
    assert starts[0] == 0
    assert new.sum() == dims["M"]
    assert (new > 0).sum() == active[0] < len(new)
    assert (new <= kv_lens).all()
    assert (kv_lens % 16 != 0)[: active[0]].all()
    assert (new * kv_lens).sum() == dims["PAIRS"]
    assert len(set(table.ravel().tolist())) == table.size
    assert (kv_lens != np.asarray(draws[1][2])).any()
    if size == "full":
        page_bytes = 2 * 16 * ragged.sizes["full"]["KV"] * ragged.sizes["full"]["D"]
        assert ragged.unread_bytes == page_bytes * (dims["P"] - np.ceil(kv_lens / 16).sum())


def test_rms_norm_without_scale_or_with_a_wrong_epsilon_fails():
    (x, scale), honest, _ = _case("12p_RMSNorm", 1)
    workload = _module("12p_RMSNorm").workload
    assert _problem("12p_RMSNorm", [np.asarray(workload(x, jnp.ones_like(scale)))], 1)
    wide = np.asarray(x, np.float64)
    wrong = wide / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6) * np.asarray(scale, np.float64)
    assert _problem("12p_RMSNorm", [wrong.astype(honest[0].dtype)], 1)


def test_attention_without_its_mask_or_its_scores_fails():
    (query, key, value), honest, _ = _case("1p_Flash_Attention", 1)
    assert _problem(
        "1p_Flash_Attention", [np.asarray(_module("1p_Flash_Attention").workload(query * 0, key, value))], 1
    )
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) * 128**-0.5
    unmasked = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), value)
    assert _problem("1p_Flash_Attention", [np.asarray(unmasked)], 1)


@pytest.mark.slow
def test_cross_entropy_over_part_of_the_vocabulary_or_half_of_the_tokens_fails():
    (hidden, weight, labels), _, _ = _case("13p_Cross_Entropy", 1)
    workload = _module("13p_Cross_Entropy").workload
    assert _problem("13p_Cross_Entropy", [np.asarray(workload(hidden[::2], weight, labels[::2]))], 1)
    logits = jnp.dot(hidden, weight).astype(jnp.float32)
    part = jax.nn.logsumexp(logits[:, : 3840 * 15 // 16], axis=-1) - logits[jnp.arange(len(labels)), labels]
    assert _problem("13p_Cross_Entropy", [np.asarray(part.mean())], 1)


@pytest.mark.parametrize("size", ["full", "check"])
def test_groups_are_ragged_sum_to_all_rows_and_are_shuffled_by_the_key(size):
    dims = load("11p_Megablox_GMM").sizes[size]
    # Group sizes do not depend on the widths of the matrices.
    small = dims | {"K": 1, "N": 1}
    create = _module("11p_Megablox_GMM").create_inputs
    first, second = (np.asarray(create(jax.random.key(seed), small)[2]) for seed in (1, 2))
    assert first.sum() == dims["M"]
    assert {0, 1} <= set(first.tolist())
    assert first.max() > 0.3 * dims["M"]
    assert len(set(first.tolist())) > len(first) // 2
    assert sorted(first) == sorted(second)
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_the_statement_shows_the_reference_and_hides_the_judging(name):
    text = statement(load(name))
    reference = text.split("```python")[1]
    assert "import jax" in reference
    assert "def workload(" in reference
    assert "oracle" not in reference
    assert "create_inputs" not in text
    assert "jax.random" not in text
    namespace = {}
    exec(reference.split("```")[0], namespace)  # what an agent is shown runs by itself
    inputs, outputs, _ = _shapes(name, "check")
    assert jax.eval_shape(namespace["workload"], *inputs) == outputs


def test_an_unknown_workload_is_answered_with_near_names():
    with pytest.raises(UnknownWorkload, match="Nearest: .*8p_GEMM"):
        load("8p_GEM")
    with pytest.raises(UnknownWorkload, match="12p_RMSNorm"):
        load("../12p_RMSNorm")
