"""Fixture kernels with one mistake each, written as what is replaced in them."""

from pathlib import Path

KERNELS = Path(__file__).parent.parent / "kernels"

_GEMM, _NORM = "41k_Gemm_Add_ReLU", "12p_RMSNorm"
_DOT = "jnp.dot(x_ref[...], weight_ref[...], preferred_element_type=jnp.float32)"
_BLOCKS = "_block(m, 512), _block(n, 1024), _block(k, 1024)"
_LOAD = "x = x_ref[...].astype(jnp.float32)"
_STORE = "out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)"

MISTAKES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "tiny blocks": (_GEMM, [(_BLOCKS, "128, 128, 128")]),
    "an operand read again and again": (_GEMM, [(_BLOCKS, "128, 256, 8192")]),
    "products on the vector unit": (
        _GEMM,
        [
            (_BLOCKS, "128, 256, 128"),
            ("acc_ref[...] += " + _DOT, "for c in range(128):\n        acc_ref[...] += x_ref[:, c:c + 1].astype(jnp.float32)"
             " * weight_ref[c:c + 1, :].astype(jnp.float32)"),
        ],
    ),
    "the highest precision": (
        _GEMM,
        [(_BLOCKS, "512, 512, 512"), (_DOT, "jnp.dot(x_ref[...].astype(jnp.float32), weight_ref[...].astype(jnp.float32),"
          " preferred_element_type=jnp.float32, precision=jax.lax.Precision.HIGHEST)")],
    ),
    "casts outside the kernel": (_GEMM, [(_BLOCKS, "512, 512, 1024"), (")(x, weight,", ")(x.astype(jnp.float32), weight.astype(jnp.float32),")]),
    "float32 arrays": (
        _GEMM, [(_BLOCKS, "128, 256, 2048"), (")(x, weight,", ")(x.astype(jnp.float32), weight.astype(jnp.float32),")]),
    "blocks over the edge": (_GEMM, [(_BLOCKS, "1280, 512, 1024"), ("m // bm", "-(-m // bm)")]),
    "no parallel axis": (_GEMM, [('"parallel", "parallel", "arbitrary"', '"arbitrary", "arbitrary", "arbitrary"')]),
    "one buffer": (_GEMM, [("lambda i, j, k: (k, j))", "lambda i, j, k: (k, j), pipeline_mode=pl.Buffered(1))")]),
    "transcendentals": (_NORM, [(_STORE, "for _ in range(8):\n        x = jnp.tanh(x)\n    " + _STORE)]),
    "vector work": (_NORM, [(_STORE, "for _ in range(16):\n        x = x * x + 0.5\n    " + _STORE)]),
    "one row at a time": (
        _NORM,
        [(_LOAD, "def row(i, carry):\n        at = pl.ds(pl.multiple_of(i * 16, 16), 16)\n"
          "        def column(j, carry):\n            x = x_ref[at, pl.ds(pl.multiple_of(j * 128, 128), 128)]\n"
          "            out_ref[at, pl.ds(pl.multiple_of(j * 128, 128), 128)] = x * 2\n            return carry\n"
          "        return jax.lax.fori_loop(0, 64, column, carry)\n"
          "    jax.lax.fori_loop(0, 8, row, 0)\n    return"), (_STORE, "")],
    ),
    "too many live values": (
        _NORM,
        [(_LOAD, _LOAD + "\n    wide = jax.lax.fori_loop(0, 64, lambda i, a: a * a + 0.5, x[:, :1024])"
          "\n    x = jnp.concatenate([wide, x[:, 1024:]], axis=1)")],
    ),
    "copies by hand, one after another": (
        _NORM,
        [
            ("def _kernel(x_ref, scale_ref, out_ref):",
             "def _kernel(x_hbm, scale_ref, out_hbm, x_ref, out_ref, sem):\n    rows = x_ref.shape[0]\n"
             "    at = pl.ds(pl.program_id(0) * rows, rows)\n    pltpu.sync_copy(x_hbm.at[at], x_ref)"),
            (_STORE, _STORE + "\n    pltpu.sync_copy(out_ref, out_hbm.at[at])"),
            ("in_specs=[pl.BlockSpec((rows, width), lambda i: (i, 0)), ", "in_specs=[pl.BlockSpec(memory_space=pl.ANY), "),
            ("out_specs=pl.BlockSpec((rows, width), lambda i: (i, 0))",
             "out_specs=pl.BlockSpec(memory_space=pl.ANY),\n        scratch_shapes=[pltpu.VMEM((rows, width), x.dtype),"
             " pltpu.VMEM((rows, width), x.dtype), pltpu.SemaphoreType.DMA]"),
        ],
    ),
}  # fmt: skip


def source(mistake: str) -> tuple[str, str]:
    """The workload, and the text of its fixture kernel with the mistake made.

    Raises:
        ValueError: the fixture no longer has the text that is to be replaced.
    """
    workload, replacements = MISTAKES[mistake]
    text = (KERNELS / f"{workload}.py").read_text(encoding="utf-8")
    for old, new in replacements:
        if text.count(old) != 1:
            raise ValueError(f"{workload} has {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return workload, text
