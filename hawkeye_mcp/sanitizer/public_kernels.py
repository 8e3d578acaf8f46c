"""Pallas TPU kernels that jax itself ships, in the ways that their callers use them: a right kernel must be silent.

Each is a kernel text as a candidate would write it, that calls the public function.
"""

from collections.abc import Sequence

from hawkeye_mcp.sanitizer.corpus import Case, case

Text = tuple[str, str, str, str, str]  # name, imports, arguments, inputs, body

_HEAD = '''"""{name}

inputs: {inputs}
"""
import jax
import jax.numpy as jnp
import numpy as np
{imports}


def workload({arguments}):
{body}
'''

_FLASH = "from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes, SegmentIds, flash_attention"
_SPLASH = "from jax.experimental.pallas.ops.tpu import splash_attention as splash"
_MATMUL = "from jax.experimental.pallas.ops.tpu.matmul import matmul"
_GMM = "from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm"
_PAGED = "from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention, quantization_utils"
_RAGGED = "from jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import ragged_paged_attention"
_RANDOM = "from jax.experimental.pallas.ops.tpu.random import philox, threefry"
_DOUBLE = "from jax.experimental.pallas.ops.tpu.example_kernel import double"

_QKV = "float32[1,2,256,128] float32[1,2,256,128] float32[1,2,256,128]"
_BLOCKS = (
    "BlockSizes(block_q=128, block_k_major=128, block_k=128, block_b=1, block_q_major_dkv=128, block_k_major_dkv=128,"
    " block_k_dkv=128, block_q_dkv=128, block_k_major_dq=128, block_k_dq=128, block_q_dq=128)"
)
_HEADS = "float32[2,256,128] float32[2,256,128] float32[2,256,128]"
_SPLASH_BLOCKS = (
    "splash.splash_attention_kernel.BlockSizes(block_q=128, block_kv=128, block_kv_compute=128, block_q_dkv=128,"
    " block_kv_dkv=128, block_kv_dkv_compute=128, block_q_dq=128, block_kv_dq=128)"
)
_PAGES = "float32[4,4,128] float32[2,16,16,128] float32[2,16,16,128] int32[4,4]<16"
_LENGTHS = "jnp.array([64, 1, 17, 40], jnp.int32)"
_GROUPS = "jnp.array([60, 4, 0, 192], jnp.int32)"
_KV = "float32[64,4,128] float32[16,16,4,128] int32[4,8]<16"
_RAGGED_CALL = (
    "return ragged_paged_attention(q, pages, jnp.array([40, 20, 128, 1], jnp.int32), indices,"
    " jnp.array([0, 24, 25, 57, 58], jnp.int32), jnp.array([4], jnp.int32), num_kv_pages_per_block=2,"
    " num_queries_per_block={block}{more})"
)


def _flash(options: str) -> str:
    return f"return flash_attention(q, k, v{options}, block_sizes={_BLOCKS})"


def _gradient(call: str) -> str:
    return f"def loss(q, k, v):\n    {call}.sum()\nreturn jax.grad(loss, argnums=(0, 1, 2))(q, k, v)"


def _splash(mask: str, *, maker: str = "make_splash_mha_single_device", more: str = "") -> str:
    return (
        f"mask = splash.MultiHeadMask([{mask} for _ in range(2)])\n"
        f"kernel = splash.{maker}(mask, block_sizes={_SPLASH_BLOCKS}{more})\n"
        "return kernel(q, k, v)"
    )


def _splash_gradient(mask: str) -> str:
    head, _, _ = _splash(mask).rpartition("\n")
    return f"{head}\nreturn jax.grad(lambda q, k, v: kernel(q, k, v).sum(), argnums=(0, 1, 2))(q, k, v)"


_CAUSAL, _FULL = "splash.CausalMask((256, 256))", "splash.FullMask((256, 256))"
_LOCAL = "splash.LocalMask((256, 256), (64, 0), 0)"

_TEXTS: tuple[Text, ...] = (
    ("double", _DOUBLE, "x", "float32[16,128]", "return double(x)"),
    ("matmul f32", _MATMUL, "x, y", "float32[256,256] float32[256,256]", "return matmul(x, y, block_shape=(128, 128), block_k=128)"),
    ("matmul bf16", _MATMUL, "x, y", "bfloat16[256,256] bfloat16[256,128]", "return matmul(x, y, block_shape=(128, 128), block_k=128)"),
    ("matmul int8", _MATMUL, "x, y", "int8[256,256]<9 int8[256,128]<9", "return matmul(x, y, block_shape=(128, 128), block_k=128, out_dtype=jnp.int32)"),
    ("flash attention", _FLASH, "q, k, v", _QKV, _flash("")),
    ("flash attention, causal", _FLASH, "q, k, v", _QKV, _flash(", causal=True")),
    ("flash attention, bias", _FLASH, "q, k, v, ab", f"{_QKV} float32[1,2,256,256]", _flash(", ab")),
    ("flash attention, segments", _FLASH, "q, k, v, s", f"{_QKV} int32[1,256]<2", _flash(", segment_ids=SegmentIds(s, s)")),
    ("flash attention, causal gradient", _FLASH, "q, k, v", _QKV, _gradient(_flash(", causal=True"))),
    ("flash attention, gradient", _FLASH, "q, k, v", _QKV, _gradient(_flash(""))),
    ("flash attention, one step", _FLASH, "q, k, v", _QKV, "return flash_attention(q, k, v, block_sizes=BlockSizes(block_q=128, block_k_major=256, block_k=256, block_b=1))"),
    ("flash attention, inner loop", _FLASH, "q, k, v", _QKV, "return flash_attention(q, k, v, causal=True, block_sizes=BlockSizes(block_q=128, block_k_major=256, block_k=128, block_b=1))"),
    ("splash attention, causal", _SPLASH, "q, k, v", _HEADS, _splash(_CAUSAL)),
    ("splash attention, full", _SPLASH, "q, k, v", _HEADS, _splash(_FULL)),
    ("splash attention, local", _SPLASH, "q, k, v", _HEADS, _splash(_LOCAL)),
    ("splash attention, soft cap", _SPLASH, "q, k, v", _HEADS, _splash(_CAUSAL, more=", attn_logits_soft_cap=20.0")),
    ("splash attention, residuals", _SPLASH, "q, k, v", _HEADS, _splash(_CAUSAL, more=", save_residuals=True")),
    ("splash attention, one key head", _SPLASH, "q, k, v", "float32[2,256,128] float32[256,128] float32[256,128]", _splash(_CAUSAL, maker="make_splash_mqa_single_device")),
    ("splash attention, segments", _SPLASH, "q, k, v, s", f"{_HEADS} int32[256]<2", _splash(_FULL).replace("kernel(q, k, v)", "kernel(q, k, v, splash.SegmentIds(s, s))")),
    ("splash attention, causal gradient", _SPLASH, "q, k, v", _HEADS, _splash_gradient(_CAUSAL)),
    ("splash attention, local gradient", _SPLASH, "q, k, v", _HEADS, _splash_gradient(_LOCAL)),
    ("gmm", _GMM, "x, w", "float32[256,128] float32[4,128,128]", f"return gmm(x, w, {_GROUPS})"),
    ("gmm, two blocks of k", _GMM, "x, w", "float32[256,256] float32[4,256,128]", f"return gmm(x, w, {_GROUPS})"),
    ("gmm, ragged k", _GMM, "x, w", "float32[256,200] float32[4,200,128]", f"return gmm(x, w, {_GROUPS})"),
    ("gmm, transposed", _GMM, "x, w", "float32[256,128] float32[4,128,128]", f"return gmm(x, w, {_GROUPS}, transpose_rhs=True)"),
    ("gmm, bf16", _GMM, "x, w", "bfloat16[256,128] bfloat16[4,128,128]", f"return gmm(x, w, {_GROUPS})"),
    ("gmm, sharded groups", _GMM, "x, w", "float32[256,128] float32[2,128,128]", f"return gmm(x, w, {_GROUPS}, group_offset=jnp.array(1, jnp.int32))"),
    ("tgmm", _GMM, "x, y", "float32[128,256] float32[256,128]", f"return tgmm(x, y, {_GROUPS})"),
    ("tgmm, several blocks", _GMM, "x, y", "float32[256,256] float32[256,256]", f"return tgmm(x, y, {_GROUPS})"),
    ("paged attention", _PAGED, "q, k, v, pages", _PAGES, f"return paged_attention(q, k, v, {_LENGTHS}, pages, pages_per_compute_block=2)"),
    ("paged attention, grid over the sequence", _PAGED, "q, k, v, pages", _PAGES, f"return paged_attention(q, k, v, {_LENGTHS}, pages, pages_per_compute_block=2, inline_seq_dim=False)"),
    ("paged attention, soft cap", _PAGED, "q, k, v, pages", _PAGES, f"return paged_attention(q, k, v, {_LENGTHS}, pages, pages_per_compute_block=4, attn_logits_soft_cap=10.0)"),
    ("paged attention, quantized", _PAGED, "q, k, v, pages", _PAGES, f"return paged_attention(q, quantization_utils.quantize_to_int8(k), quantization_utils.quantize_to_int8(v), {_LENGTHS}, pages, pages_per_compute_block=2)"),
    ("ragged paged attention", _RAGGED, "q, pages, indices", _KV, _RAGGED_CALL.format(block=8, more="")),
    ("ragged paged attention, window", _RAGGED, "q, pages, indices", _KV, _RAGGED_CALL.format(block=16, more=", sliding_window=16")),
    ("ragged paged attention, soft cap", _RAGGED, "q, pages, indices", _KV, _RAGGED_CALL.format(block=32, more=", soft_cap=10.0")),
    ("philox", _RANDOM, "key", "uint32[2]<99", "return philox.philox_random_bits(key, 32, (256, 512))"),
    ("philox, ragged", _RANDOM, "key", "uint32[2]<99", "return philox.philox_random_bits(key, 32, (200, 300))"),
    ("threefry", _RANDOM, "key", "uint32[2]<99", "return threefry.plthreefry_random_bits(key, 32, (256, 512))"),
    ("threefry, ragged", _RANDOM, "key", "uint32[2]<99", "return threefry.plthreefry_random_bits(key, 32, (200, 300))"),
)  # fmt: skip


def cases() -> list[Case]:
    return written(_TEXTS)


def written(texts: Sequence[Text]) -> list[Case]:
    """Kernel files of calls."""
    found = []
    for name, imports, arguments, inputs, body in texts:
        indented = "\n".join(f"    {line}" for line in body.splitlines())
        text = _HEAD.format(name=name, inputs=inputs, imports=imports, arguments=arguments, body=indented)
        found.append(case(name, text))
    return found
