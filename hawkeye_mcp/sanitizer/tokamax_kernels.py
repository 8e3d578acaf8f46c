"""Pallas TPU kernels of tokamax 0.0.12 (`pip install tokamax==0.0.12`), called below its own choice of tiles.

They are those that its operations run on a TPU. A right kernel must be silent; FOUND are the kinds that these are not
silent on for a reason that stands in their source.
"""

from importlib import util

from hawkeye_mcp.sanitizer.corpus import Case
from hawkeye_mcp.sanitizer.public_kernels import Text, written

MISSING = "tokamax is not installed, so its kernels were not looked at: pip install tokamax==0.0.12"

# Where the vocabulary is no multiple of its block, `calculate_xw_tiled` masks the last block of w in the pipeline's own
# window. The backward kernel multiplies by w once more, in its second stage, after the window was fetched anew and
# without a mask: what lies past the edge reaches the gradient of x, scaled by exp(-lse).
FOUND: dict[str, tuple[str, ...]] = {
    "tokamax cross entropy, ragged vocabulary": ("input_written",),
    "tokamax cross entropy, ragged, backward": ("ragged_edge", "input_written"),
}

_OPS = "tokamax._src.ops"
_GMM = f"from {_OPS}.ragged_dot.pallas_mosaic_tpu_kernel import gmm, tgmm"
_LOSS = (
    f"from {_OPS}.linear_softmax_cross_entropy_loss.pallas_mosaic_tpu_kernel import (\n"
    "    linear_softmax_cross_entropy_loss_bwd_pallas_mosaic_tpu as backward,\n"
    "    linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu as forward,\n)"
)
_SPLASH = (
    f"from {_OPS}.experimental.tpu.splash_attention import splash_attention_kernel as splash\n"
    f"from {_OPS}.experimental.tpu.splash_attention import splash_attention_mask as masks"
)
_GROUPS = "jnp.array([60, 4, 0, 192], jnp.int32)"
_DEFAULT = "precision=jax.lax.Precision.DEFAULT"
_HEADS = "float32[2,256,128] float32[2,256,128] float32[2,256,128]"
_ONE_KEY = "float32[2,256,128] float32[256,128] float32[256,128]"
_CAUSAL, _FULL = "masks.CausalMask((256, 256))", "masks.FullMask((256, 256))"
_LOCAL = "masks.LocalMask((256, 256), (64, 0), 0)"
_BLOCKS = "b_block_size=128, h_block_size=128, v_block_size=128"


def _grouped(kernel: str = "gmm", dtype: str = "float32", more: str = "") -> str:
    return f"return {kernel}(x, w, group_sizes={_GROUPS}, {_DEFAULT}, out_dtype=jnp.{dtype}{more})"


def _kernel(mask: str, config: str, maker: str, more: str) -> str:
    return (
        f"config = dataclasses.replace(splash.SplashConfig.get_default(){config})\n"
        f"kernel = splash.{maker}({mask}, config=config, q_seq_shards=1{more})"
    )


def _splash(mask: str, config: str = "", maker: str = "make_splash_mha", more: str = "") -> str:
    return f"{_kernel(mask, config, maker, more)}\nreturn kernel(q, k, v)"


def _gradient(mask: str, config: str = "", maker: str = "make_splash_mha") -> str:
    call = "jax.grad(lambda q, k, v: kernel(q, k, v).sum(), argnums=(0, 1, 2))(q, k, v)"
    return f"{_kernel(mask, config, maker, '')}\nreturn {call}"


_SPLASH_IMPORTS = f"import dataclasses\n{_SPLASH}"
_TEXTS: tuple[Text, ...] = (
    ("tokamax gmm", _GMM, "x, w", "float32[256,256] float32[4,256,128]", _grouped()),
    ("tokamax gmm, bf16", _GMM, "x, w", "bfloat16[256,256] bfloat16[4,256,128]", _grouped(dtype="bfloat16")),
    ("tokamax gmm, transposed", _GMM, "x, w", "float32[256,256] float32[4,128,256]", _grouped(more=", transpose_rhs=True")),
    ("tokamax gmm, ragged k", _GMM, "x, w", "float32[256,200] float32[4,200,128]", _grouped()),
    ("tokamax gmm, three buffers", _GMM, "x, w", "float32[256,256] float32[4,256,256]", _grouped(more=", input_buffer_count=3")),
    ("tokamax gmm, activation", _GMM, "x, w", "float32[256,256] float32[4,256,128]", _grouped(more=", activation=jax.nn.silu")),
    ("tokamax tgmm", _GMM, "x, w", "float32[128,256] float32[256,128]", _grouped("tgmm")),
    ("tokamax tgmm, bf16", _GMM, "x, w", "bfloat16[256,256] bfloat16[256,128]", _grouped("tgmm", "bfloat16")),
    ("tokamax tgmm, scopes combined", _GMM, "x, w", "float32[128,256] float32[256,128]", _grouped("tgmm", more=", combine_scopes=True")),
    ("tokamax cross entropy", _LOSS, "x, labels, w", "float32[256,256] int32[256]<512 float32[256,512]", f"return forward(x, labels, w, {_BLOCKS})"),
    ("tokamax cross entropy, ragged vocabulary", _LOSS, "x, labels, w", "float32[256,256] int32[256]<500 float32[256,500]", f"return forward(x, labels, w, {_BLOCKS})"),
    ("tokamax cross entropy, mean", _LOSS, "x, labels, w", "bfloat16[256,256] int32[256]<512 bfloat16[256,512]", f'return forward(x, labels, w, reduction="mean", {_BLOCKS})'),
    ("tokamax cross entropy, backward", _LOSS, "lse, x, labels, w", "float32[256] float32[256,256] int32[256]<512 float32[256,512]", f"return backward(jnp.float32(1), lse, x, labels, w, {_BLOCKS})"),
    ("tokamax cross entropy, ragged, backward", _LOSS, "lse, x, labels, w", "float32[256] float32[256,256] int32[256]<500 float32[256,500]", f"return backward(jnp.float32(1), lse, x, labels, w, {_BLOCKS})"),
    ("tokamax splash attention, causal", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL)),
    ("tokamax splash attention, full", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_FULL)),
    ("tokamax splash attention, local", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_LOCAL)),
    ("tokamax splash attention, soft cap", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL, ", attn_logits_soft_cap=20.0")),
    ("tokamax splash attention, residuals", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL, more=", save_residuals=True")),
    ("tokamax splash attention, inner loop", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL, ", block_kv=256, block_kv_compute=128")),
    ("tokamax splash attention, natural exponent", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_FULL, ", use_base2_exp=False")),
    ("tokamax splash attention, divided outside", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL, ", fuse_reciprocal=False")),
    ("tokamax splash attention, other scheduler", _SPLASH_IMPORTS, "q, k, v", _HEADS, _splash(_CAUSAL, ", use_experimental_scheduler=True")),
    ("tokamax splash attention, one key head", _SPLASH_IMPORTS, "q, k, v", _ONE_KEY, _splash(_CAUSAL, maker="make_splash_mqa")),
    ("tokamax splash attention, causal gradient", _SPLASH_IMPORTS, "q, k, v", _HEADS, _gradient(_CAUSAL)),
    ("tokamax splash attention, local gradient", _SPLASH_IMPORTS, "q, k, v", _HEADS, _gradient(_LOCAL)),
    ("tokamax splash attention, one key head, gradient", _SPLASH_IMPORTS, "q, k, v", _ONE_KEY, _gradient(_CAUSAL, maker="make_splash_mqa")),
)  # fmt: skip


def cases() -> list[Case]:
    """None where tokamax is not installed: see MISSING."""
    return written(_TEXTS) if util.find_spec("tokamax") else []
