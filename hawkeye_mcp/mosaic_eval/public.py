"""The Pallas kernels for TPUs that jax itself ships, at small sizes, to see how much of them the evaluator runs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import example_kernel, flash_attention, matmul
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, tgmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention, quantization_utils
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention, ref_ragged_paged_attention
from jax.experimental.pallas.ops.tpu.random import philox, threefry
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """build: the function and its inputs. reference: what to compare with where jax's interpreter cannot run it."""

    name: str
    build: Callable[[], tuple[Function, list[Any]]]
    reference: Function | None = None


Built = tuple[Function, list[Any]]


def _normal(seed: int, shape: tuple[int, ...], dtype: Any = jnp.bfloat16) -> Any:
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32).astype(dtype)


def _several(count: int, shape: tuple[int, ...], dtype: Any = jnp.bfloat16) -> list[Any]:
    return [_normal(seed, shape, dtype) for seed in range(count)]


def _sum_of_gradients(function: Function, argnums: tuple[int, ...]) -> Function:
    """The backward kernels: gradients of a weighted sum, whose weights make no two elements alike."""

    def loss(*inputs: Any) -> Any:
        out = function(*inputs).astype(jnp.float32)
        return (out * jnp.sin(jnp.arange(out.size, dtype=jnp.float32)).reshape(out.shape)).sum()

    gradient: Function = jax.grad(loss, argnums=argnums)
    return gradient


_FLASH_BLOCKS = flash_attention.BlockSizes(
    block_q=128, block_k_major=128, block_k=128, block_b=1, block_q_major_dkv=128, block_k_major_dkv=128,
    block_k_dkv=128, block_q_dkv=128, block_k_major_dq=128, block_k_dq=128, block_q_dq=128,
)  # fmt: skip
_SPLASH_BLOCKS = splash.BlockSizes(
    block_q=128, block_kv=128, block_kv_compute=128, block_q_dkv=128, block_kv_dkv=128, block_kv_dkv_compute=128,
    block_q_dq=128, block_kv_dq=128,
)  # fmt: skip


def _flash(*, backward: bool = False, **options: Any) -> Built:
    run = partial(flash_attention.flash_attention, block_sizes=_FLASH_BLOCKS, sm_scale=0.1, **options)
    inputs = _several(3, (1, 2, 256, 128), jnp.float32)
    return (_sum_of_gradients(run, (0, 1, 2)) if backward else run), inputs


def _flash_with_bias() -> Built:
    def run(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return flash_attention.flash_attention(q, k, v, bias, sm_scale=0.1, block_sizes=_FLASH_BLOCKS)

    return run, [*_several(3, (1, 2, 256, 128)), _normal(3, (1, 2, 256, 256), jnp.float32)]


def _flash_with_segments() -> Built:
    def run(q: Any, k: Any, v: Any, segments: Any) -> Any:
        ids = flash_attention.SegmentIds(segments, segments)
        return flash_attention.flash_attention(q, k, v, None, ids, sm_scale=0.1, block_sizes=_FLASH_BLOCKS)

    segments = (jnp.arange(256, dtype=jnp.int32) // 100)[None]
    return run, [*_several(3, (1, 2, 256, 128)), segments]


def _splash(kind: str, mask: Any, *, backward: bool = False, soft_cap: float | None = None) -> Built:
    heads = 2
    make = splash.make_splash_mha if kind == "mha" else splash.make_splash_mqa

    def run(q: Any, k: Any, v: Any) -> Any:
        kernel = make(
            masks.MultiHeadMask([mask for _ in range(heads)]),
            block_sizes=_SPLASH_BLOCKS, head_shards=1, q_seq_shards=1, attn_logits_soft_cap=soft_cap,
        )  # fmt: skip
        return kernel(q * 0.1, k, v)

    key_shape = (heads, 256, 128) if kind == "mha" else (256, 128)
    inputs = [_normal(0, (heads, 256, 128)), _normal(1, key_shape), _normal(2, key_shape)]
    return (_sum_of_gradients(run, (0, 1, 2)) if backward else run), inputs


_GROUPS = np.array([100, 0, 56, 228], np.int32)


def _gmm(*, transpose: bool = False, dtype: Any = jnp.bfloat16) -> Built:
    run = partial(gmm, transpose_rhs=transpose, preferred_element_type=jnp.float32)
    return run, [_normal(0, (384, 256), dtype), _normal(1, (4, 256, 256), dtype), jnp.asarray(_GROUPS)]


def _tgmm() -> Built:
    run = partial(tgmm, preferred_element_type=jnp.float32)
    return run, [_normal(0, (256, 384)), _normal(1, (384, 256)), jnp.asarray(_GROUPS)]


def _matmul(left: Any, right: Any, **options: Any) -> Built:
    return partial(matmul.matmul, block_shape=(128, 128), block_k=128, **options), [left, right]


def _whole(seed: int, dtype: Any) -> Any:
    return jax.random.randint(jax.random.key(seed), (256, 256), -8, 8).astype(dtype)


def _paged(*, inline: bool = True, quantized: bool = False, soft_cap: float | None = None) -> Built:
    def run(q: Any, k: Any, v: Any, lengths: Any, pages: Any) -> Any:
        if quantized:
            k, v = quantization_utils.quantize_to_int8(k), quantization_utils.quantize_to_int8(v)
        return paged_attention(
            q, k, v, lengths, pages, pages_per_compute_block=2, inline_seq_dim=inline, attn_logits_soft_cap=soft_cap
        )

    pages = jnp.asarray(np.random.default_rng(0).permutation(16).reshape(4, 4).astype(np.int32))
    lengths = jnp.asarray(np.array([64, 40, 17, 5], np.int32))
    q = _normal(0, (4, 16, 128), jnp.float32) * 0.1
    return run, [q, *(_normal(seed, (2, 16, 16, 128), jnp.float32) for seed in (1, 2)), lengths, pages]


def _ragged_paged(**options: Any) -> Built:
    def run(q: Any, pages: Any, lengths: Any, indices: Any, starts: Any, count: Any) -> Any:
        return ragged_paged_attention(
            q, pages, lengths, indices, starts, count, sm_scale=0.1, num_kv_pages_per_block=2, num_queries_per_block=8,
            **options,
        )  # fmt: skip

    indices = jnp.asarray(np.random.default_rng(0).permutation(16).reshape(4, 4).astype(np.int32))
    numbers = ([64, 40, 17, 5], [0, 10, 20, 28, 32], [4])
    lengths, starts, count = (jnp.asarray(np.array(each, np.int32)) for each in numbers)
    return run, [_normal(0, (32, 8, 128)), _normal(1, (16, 16, 4, 128)), lengths, indices, starts, count]


def _ragged_reference(**options: Any) -> Function:
    return partial(ref_ragged_paged_attention, sm_scale=0.1, **options)


def _whole_product(left: Any, right: Any) -> Any:
    return jnp.matmul(left.astype(jnp.int32), right.astype(jnp.int32))


def _random_bits(generate: Function, shape: tuple[int, ...]) -> Built:
    return (lambda key: generate(key, 32, shape)), [jnp.asarray(np.array([12345, 67890], np.uint32))]


def _example() -> Built:
    return (lambda x: example_kernel.double(x)), [_normal(0, (64, 256), jnp.float32)]


CASES = [
    Case("double", _example),
    Case("matmul bf16", lambda: _matmul(_normal(0, (256, 256)), _normal(1, (256, 256)))),
    Case("matmul f32", lambda: _matmul(_normal(0, (256, 256), jnp.float32), _normal(1, (256, 256), jnp.float32))),
    Case("matmul int8", lambda: _matmul(_whole(0, jnp.int8), _whole(1, jnp.int8), out_dtype=jnp.int32)),
    Case("matmul int4", lambda: _matmul(_whole(0, jnp.int4), _whole(1, jnp.int4), out_dtype=jnp.int32), _whole_product),
    Case(
        "matmul fp8", lambda: _matmul(_whole(0, jnp.float8_e4m3fn), _whole(1, jnp.float8_e4m3fn), out_dtype=jnp.float32)
    ),
    Case("gmm", _gmm),
    Case("gmm, transposed", partial(_gmm, transpose=True)),
    Case("gmm f32", partial(_gmm, dtype=jnp.float32)),
    Case("tgmm", _tgmm),
    Case("flash attention", _flash),
    Case("flash attention, causal", partial(_flash, causal=True)),
    Case("flash attention, bias", _flash_with_bias),
    Case("flash attention, segments", _flash_with_segments),
    Case("flash attention, backward", partial(_flash, backward=True)),
    Case("flash attention, causal, backward", partial(_flash, causal=True, backward=True)),
    Case("splash attention", lambda: _splash("mha", masks.FullMask((256, 256)))),
    Case("splash attention, causal", lambda: _splash("mha", masks.CausalMask((256, 256)))),
    Case("splash attention, local", lambda: _splash("mha", masks.LocalMask((256, 256), (64, 0), 0))),
    Case("splash attention, soft cap", lambda: _splash("mha", masks.CausalMask((256, 256)), soft_cap=30.0)),
    Case("splash attention, one key head", lambda: _splash("mqa", masks.CausalMask((256, 256)))),
    Case("splash attention, backward", lambda: _splash("mha", masks.CausalMask((256, 256)), backward=True)),
    Case(
        "splash attention, one key head, backward", lambda: _splash("mqa", masks.CausalMask((256, 256)), backward=True)
    ),
    Case("paged attention", _paged),
    Case("paged attention, grid over sequences", partial(_paged, inline=False)),
    Case("paged attention, soft cap", partial(_paged, soft_cap=20.0)),
    Case("paged attention, int8 pages", partial(_paged, quantized=True)),
    Case("ragged paged attention", _ragged_paged, _ragged_reference()),
    Case(
        "ragged paged attention, window", lambda: _ragged_paged(sliding_window=16), _ragged_reference(sliding_window=16)
    ),
    Case("ragged paged attention, soft cap", lambda: _ragged_paged(soft_cap=20.0), _ragged_reference(soft_cap=20.0)),
    Case("philox", lambda: _random_bits(philox.philox_random_bits, (256, 512))),
    Case("threefry", lambda: _random_bits(threefry.plthreefry_random_bits, (256, 512))),
]
