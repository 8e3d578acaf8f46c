"""Each workload: its declaration is true, an honest bfloat16 program passes its gate, lazy ones do not."""

import importlib.util
import math
from functools import cache
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.correctness import compare
from hawkeye_mcp.workloads import UnknownWorkload, load, statement

NAMES = tuple(workloads.names())

# Input and axis of which the last sixteenth is dropped from the contraction.
CONTRACTIONS = {
    "1p_Flash_Attention": [(0, 3)],
    "8p_GEMM": [(0, 1)],
    "9p_SwiGLU_MLP": [(0, 2), (3, 0)],
    "11p_Megablox_GMM": [(0, 1)],
    "13p_Cross_Entropy": [(0, 1)],
    "41k_Gemm_Add_ReLU": [(0, 1)],
    "50k_Matmul_GELU_Softmax": [(0, 1)],
    "19k_Matmul_Subtract_Multiply_ReLU": [(0, 1)],
    "20k_Gemm_Multiply_LeakyReLU": [(0, 1)],
    "21k_Gemm_Divide_Sum_Scaling": [(0, 1)],
    "23k_Matmul_Sum_Max_AvgPool_LogSumExp_LogSumExp": [(0, 1)],
    "24k_Matmul_Scale_ResidualAdd_Clamp_LogSumExp_Mish": [(0, 1)],
    "26k_restored": [(0, 1)],
    "27k_Matmul_Mish_Mish": [(0, 1)],
    "29k_Matmul_Swish_Sum_GroupNorm": [(0, 1)],
    "30k_Matmul_Scaling_ResidualAdd": [(0, 1)],
    "31k_Gemm_BatchNorm_GELU_ReLU": [(0, 1)],
    "32k_Gemm_Sigmoid_LogSumExp": [(0, 1), (3, 1)],
    "35k_Gemm_Scaling_Hardtanh_GELU": [(0, 1)],
    "36k_Matmul_Sigmoid_Sum": [(0, 1)],
    "37k_Matmul_Swish_Scaling": [(0, 1)],
    "38k_Matmul_Dropout_Softmax": [(0, 1)],
    "40k_Gemm_GroupNorm_Min_BiasAdd": [(0, 1)],
    "42k_Gemm_Max_Subtract_GELU": [(0, 1)],
    "43k_Gemm_BatchNorm_Scaling_Softmax": [(0, 1)],
    "44k_Matmul_Divide_GELU": [(0, 1)],
    "45k_Gemm_GroupNorm_Swish_Multiply_Swish": [(0, 1)],
    "47k_Matmul_Add_Swish_Tanh_GELU_Hardtanh": [(0, 1)],
    "48k_Matmul_BatchNorm_BiasAdd_Divide_Swish": [(0, 1)],
    "49k_Matmul_AvgPool_GELU_Scale_Max": [(0, 1)],
    "2p_GQA_Attention": [(0, 3)],
    "3p_MLA_Attention": [(0, 2), (6, 0)],
    "4p_Sparse_Attention": [(0, 3)],
    "5p_Flex_Attention": [(0, 3)],
    "6p_Paged_Attention": [(0, 2)],
    "7p_Ragged_Paged_Attention": [(0, 2)],
    "10p_Sparse_MoE": [(0, 2), (4, 1)],
    "14p_Ragged_Dot": [(0, 2)],
    "15p_RetNet_Retention": [(0, 3)],
    "16p_Mamba2_SSD": [(0, 3)],
    "17p_Triangle_Multiplication": [(0, 2)],
    "18k_Conv2D_ReLU_BiasAdd": [(0, 1)],
    "22k_Conv2d_InstanceNorm_Divide": [(0, 1)],
    "25k_Conv3d_GroupNorm_Mean": [(0, 1)],
    "28k_ConvTranspose3d_LayerNorm_GELU_Scaling": [(0, 1)],
    "33k_Conv3d_Mish_Tanh": [(0, 1)],
    "34k_Conv2d_Activation_BatchNorm": [(0, 1)],
    "39k_Conv2d_GELU_GlobalAvgPool": [(0, 1)],
    "46k_Conv2d_GroupNorm_Tanh_HardSwish_ResidualAdd_LogSumExp": [(0, 1)],
}


# What each parameter of a tail after a matmul or a convolution is when it is left out.
NEUTRAL = dict.fromkeys(
    ("bias", "linear_bias", "conv_bias", "b1", "b2", "in_bias", "ln_bias", "gn_bias", "bn_bias", "bn_mean"), 0
) | {"add_value": 0, "beta": 0, "gamma": 1, "scale": 1, "multiply_weight": 1}
NEUTRAL |= dict.fromkeys(("in_weight", "ln_weight", "gn_weight", "bn_weight", "bn_scale", "bn_var"), 1)
# Subtracting a mean takes these away again, so that leaving them out is right; the last is drawn too small.
UNNOTICED = {
    ("22k_Conv2d_InstanceNorm_Divide", "conv_bias"),
    ("26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", "bias"),
    ("26k_BMM_InstanceNorm_Sum_ResidualAdd_Multiply", "in_weight"),
    ("28k_ConvTranspose3d_LayerNorm_GELU_Scaling", "conv_bias"),
    ("31k_Gemm_BatchNorm_GELU_ReLU", "bias"),
    ("50k_Matmul_GELU_Softmax", "bias"),
}
PARAMETERS = [
    (name, array.name)
    for name in NAMES
    for array in load(name).inputs
    if load(name).family.startswith(("matmul and", "convolution"))
    if array.name in NEUTRAL and (name, array.name) not in UNNOTICED
]


_zeros, _ones = jnp.zeros_like, jnp.ones_like


def _in_order(table):
    return jnp.arange(table.size, dtype=table.dtype).reshape(table.shape)


# What is left out or taken for granted when inputs are changed as shown: (name, what, {input: change}).
LEFT_OUT = [
    ("2p_GQA_Attention", "scores", {0: _zeros}),
    ("3p_MLA_Attention", "scores", {2: _zeros}),
    ("3p_MLA_Attention", "rotated key", {3: lambda kv_down: kv_down.at[:, -64:].set(0)}),
    ("4p_Sparse_Attention", "scores", {0: _zeros}),
    ("5p_Flex_Attention", "scores", {0: _zeros}),
    ("5p_Flex_Attention", "bias", {3: _zeros}),
    ("6p_Paged_Attention", "scores", {0: _zeros}),
    ("6p_Paged_Attention", "last token", {3: lambda lengths: lengths - 1}),
    ("6p_Paged_Attention", "lengths", {3: lambda lengths: lengths * 0 + lengths.max()}),
    ("6p_Paged_Attention", "page table", {4: _in_order}),
    ("7p_Ragged_Paged_Attention", "scores", {0: _zeros}),
    ("7p_Ragged_Paged_Attention", "last token", {2: lambda lengths: lengths - 1}),
    ("7p_Ragged_Paged_Attention", "page table", {3: _in_order}),
    ("10p_Sparse_MoE", "routing", {1: _zeros}),
    ("16p_Mamba2_SSD", "decay", {3: lambda a_log: a_log + 100}),
    ("16p_Mamba2_SSD", "memory", {3: lambda a_log: a_log - 8}),
    ("17p_Triangle_Multiplication", "mask", {1: _ones}),
    ("17p_Triangle_Multiplication", "gates", {4: _zeros, 5: _zeros}),
    ("17p_Triangle_Multiplication", "scale", {6: _ones}),
    ("17p_Triangle_Multiplication", "output gate", {8: _zeros}),
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
    return jax.jit(lambda key: _module(name).create_inputs(key, load(name).sizes["check"]))


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["full", "check"])
def test_declared_shapes_are_what_the_code_gives(name, size):
    workload = load(name)
    inputs, outputs, oracle = (jax.tree.leaves(tree) for tree in _shapes(name, size))
    assert [(a.shape, str(a.dtype)) for a in inputs] == workload.shapes(workload.inputs, size)
    assert [(a.shape, str(a.dtype)) for a in outputs] == workload.shapes(workload.outputs, size)
    assert [(a.shape, str(a.dtype)) for a in oracle] == [(a.shape, "float32") for a in outputs]


@pytest.mark.parametrize("name", NAMES)
def test_declared_work_is_that_of_the_full_size(name):
    workload = load(name)
    arrays = (*workload.inputs, *workload.outputs)
    size_of = {"bfloat16": 2, "float32": 4, "int32": 4}
    total = sum(math.prod(shape) * size_of[dtype] for shape, dtype in workload.shapes(arrays, "full"))
    assert workload.least_bytes + workload.unread_bytes == total
    formula = workload.flops_formula.split(",")[0]
    assert workload.flops == eval(formula, {}, dict(workload.sizes["full"]))
    assert set(workload.sizes["full"]) == set(workload.sizes["check"])
    assert 0 < workload.baseline.at[0] < workload.baseline.at[1] < workload.sizes["full"][workload.baseline.axis]


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_traces_at_its_reduced_sizes(name):
    workload = load(name)
    for reduced in workload.baseline.at:
        dims = workload.sizes["full"] | {workload.baseline.axis: reduced}
        inputs = jax.eval_shape(lambda key, dims=dims: _module(name).create_inputs(key, dims), jax.random.key(0))
        outputs = jax.tree.leaves(jax.eval_shape(_module(name).workload, *inputs))
        shapes = [tuple(dims[d] if isinstance(d, str) else d for d in out.shape) for out in workload.outputs]
        assert [out.shape for out in outputs] == shapes


def test_the_grouped_oracle_is_a_loop_over_groups_of_any_size():
    lhs, rhs, _ = _case("11p_Megablox_GMM", 1)[0]
    sizes = [0, 128, 1, 255, 200, 0, 127, 313]
    out = np.asarray(_module("11p_Megablox_GMM").oracle(lhs, rhs, jnp.array(sizes)))
    ends = np.cumsum(sizes)
    for group, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        want = np.asarray(lhs[start:end], np.float64) @ np.asarray(rhs[group], np.float64)
        np.testing.assert_allclose(out[start:end], want, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_honest_bfloat16_program_passes(name, seed):
    assert _problem(name, _case(name, seed)[1], seed) is None


@pytest.mark.parametrize("name", NAMES)
def test_zeros_a_constant_and_another_draws_answer_fail(name):
    honest, oracle = _case(name, 1)[1:]
    assert "zero" in _problem(name, [np.zeros_like(out) for out in honest], 1) or honest[0].ndim == 0
    # A scalar's own mean is the answer; the best guess without computing is the uniform distribution's loss.
    guess = math.log(load(name).sizes["check"].get("V", 2))
    constants = [np.full_like(out, ref.mean() if ref.ndim else guess) for out, ref in zip(honest, oracle, strict=True)]
    assert _problem(name, constants, 1)
    assert _problem(name, _case(name, 2)[1], 1)


@pytest.mark.parametrize("name", NAMES)
def test_one_nan_and_a_stale_last_row_fail(name):
    honest = _case(name, 1)[1]
    with_nan = np.array(honest[0])
    with_nan.reshape(-1)[-1:] = np.nan
    assert "nan" in _problem(name, [with_nan, *honest[1:]], 1)
    if honest[0].ndim:
        stale = np.array(honest[0])
        axis = load(name).tolerance.axis
        (np.moveaxis(stale, axis, 0) if axis else stale.reshape(-1, stale.shape[-1]))[-1] = 0
        assert _problem(name, [stale, *honest[1:]], 1)


@pytest.mark.parametrize(("name", "which", "axis"), [(n, *c) for n, cs in CONTRACTIONS.items() for c in cs])
def test_dropping_a_sixteenth_of_the_contraction_fails(name, which, axis):
    inputs = list(_case(name, 1)[0])
    length = inputs[which].shape[axis]
    kept = jnp.arange(length) < length - max(1, length // 16)
    shape = [length if i == axis else 1 for i in range(inputs[which].ndim)]
    inputs[which] = inputs[which] * kept.reshape(shape).astype(inputs[which].dtype)
    outputs = jax.tree.leaves(_run(name)(*inputs))
    assert _problem(name, [np.asarray(out) for out in outputs], 1)


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_leaving_out_a_parameter_fails(name, parameter):
    which = [array.name for array in load(name).inputs].index(parameter)
    inputs = list(_case(name, 1)[0])
    inputs[which] = jnp.full_like(inputs[which], NEUTRAL[parameter])
    assert _problem(name, [np.asarray(_run(name)(*inputs))], 1)


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
