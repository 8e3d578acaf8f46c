"""Inside a worker: the measured programs, built with their authors' own kernels in exactly the recorded configuration.

tokamax's grouped matmul runs its steps in an inner pipeline whose length is read at run time. Its body and blocks are
kept, and the steps are put on the kernel's grid, where they can be counted. Its cross entropy is built with a sum for a
mean: they differ by a few scalar operations per call, and one profile then serves both.
"""

import contextlib
import dataclasses
import functools
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.accuracy.known_values import Specialised, specialise
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.profiler import static_profile

_OPS = "tokamax._src.ops."
# of each of tokamax's files the module and class whose times it holds
_CLASSES = {
    "pallas_mosaic_tpu_ragged_dot": ("ragged_dot.pallas_mosaic_tpu", "PallasMosaicTpuRaggedDot"),
    "pallas_mosaic_tpu_flash_attention": ("attention.pallas_mosaic_tpu", "PallasMosaicTpuFlashAttention"),
    "pallas_mosaic_tpu_flash_attention_vjp": ("attention.pallas_mosaic_tpu_vjp", "PallasMosaicTpuFlashAttentionVjp"),
    "pallas_mosaic_tpu_linear_softmax_cross_entropy_loss": (
        "linear_softmax_cross_entropy_loss.pallas_mosaic_tpu",
        "PallasMosaicTpuLinearSoftmaxCrossEntropyLoss",
    ),
    "pallas_mosaic_tpu_linear_softmax_cross_entropy_loss_vjp": (
        "linear_softmax_cross_entropy_loss.pallas_mosaic_tpu",
        "PallasMosaicTpuLinearSoftmaxCrossEntropyLossVjp",
    ),
    "ragged_dot": ("ragged_dot.base", "RaggedDot"),
    "dot_product_attention": ("attention.base", "DotProductAttention"),
    "xla_chunked_dot_product_attention": ("attention.xla_chunked", "XlaChunkedDotProductAttention"),
    "linear_softmax_cross_entropy_loss": ("linear_softmax_cross_entropy_loss.base", "LinearSoftmaxCrossEntropyLoss"),
    "linear_softmax_cross_entropy_loss_vjp": (
        "linear_softmax_cross_entropy_loss.base",
        "LinearSoftmaxCrossEntropyLossVjp",
    ),
    "normalization": ("normalization.base", "Normalization"),
    "normalization_vjp": ("normalization.base", "NormalizationVjp"),
    "triangle_multiplication": ("triangle_multiplication.base", "TriangleMultiplication"),
}


def program(file: str, spec: str, config: str, chip: str) -> tuple[bytes, Specialised]:
    """The exported program of one row for a chip, and what is known of its kernels' prefetched arrays.

    Raises:
        Exception: whatever the kernel's authors raise for arguments that it does not take.
    """
    build = _matmul if file == "measured.csv" else functools.partial(_tokamax, file)
    target = AbstractDevice(device_kind=CHIPS[chip].device_kind, num_cores=CHIPS[chip].cores, platform="tpu")
    vmem_bytes = int(static_profile.peaks(chip)["vmem_bytes"])
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)), _steps_on_the_grid(vmem_bytes):
        function, shapes = build(spec, config)
        found = specialise(function, shapes)
        return tracer.export_for(found.closed, "tpu", shapes), found


Built = tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]


def _tokamax(file: str, spec: str, config: str) -> Built:
    import pydantic

    op_module = importlib.import_module(_OPS + "op")
    module, name = _CLASSES[file]
    cls = getattr(importlib.import_module(_OPS + module), name)
    chosen = pydantic.TypeAdapter(cls.config_cls).validate_json(config)
    op = cls().replace(config=chosen)
    arguments = op_module._get_arg_spec_adapter(op).validate_json(spec)
    if "reduction" in arguments:
        arguments["reduction"] = "sum"
    leaves, tree = jax.tree.flatten(arguments)
    is_array = [isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves]

    def function(*arrays: Any) -> Any:
        given = iter(arrays)
        values = [next(given) if array else leaf for leaf, array in zip(leaves, is_array, strict=True)]
        arguments = dict(tree.unflatten(values))
        out, residuals = op._fwd(**arguments, config=chosen)
        return jax.tree.leaves((out, residuals) if arguments.get("return_residuals") else out)

    return function, [leaf for leaf, array in zip(leaves, is_array, strict=True) if array]


@contextlib.contextmanager
def _steps_on_the_grid(vmem_bytes: int) -> Iterator[None]:
    def call(kernel: Any, out_shape: Any, grid_spec: Any, compiler_params: Any, input_buffer_count: Any = None, **kw: Any) -> Any:  # fmt: skip
        limited = dataclasses.replace(compiler_params, vmem_limit_bytes=vmem_bytes)  # it takes more than the default
        return pl.pallas_call(kernel, out_shape, grid_spec=grid_spec, compiler_params=limited, **kw)

    try:
        common = importlib.import_module("tokamax._src.mosaic_tpu")
    except ImportError:
        yield
        return
    with mock.patch.object(common, "custom_buffered_pallas_call", call):
        yield


def _matmul(spec: str, config: str) -> Built:
    """The notebook's matmul: https://docs.jax.dev/en/latest/pallas/tpu/matmul.html, with its options by name."""
    sizes, blocks = json.loads(spec), json.loads(config)
    m, k, n = sizes["m"], sizes["k"], sizes["n"]
    transposed, relu = sizes.get("rhs_transposed", False), sizes.get("relu", False)
    shapes = [
        jax.ShapeDtypeStruct((m, k), jnp.bfloat16),
        jax.ShapeDtypeStruct((n, k) if transposed else (k, n), jnp.bfloat16),
    ]
    if not blocks:
        return (lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.bfloat16)), shapes
    bm, bk, bn = blocks["block_m"], blocks["block_k"], blocks["block_n"]
    steps = k // bk
    dims = (((1,), (1 if transposed else 0,)), ((), ()))

    def kernel(x_ref: Any, y_ref: Any, z_ref: Any, acc_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)  # type: ignore[untyped-decorator]
        def _() -> None:
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jax.lax.dot_general(x_ref[...], y_ref[...], dims, preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == steps - 1)  # type: ignore[untyped-decorator]
        def _() -> None:
            out = acc_ref[...]
            z_ref[...] = (jax.nn.relu(out) if relu else out).astype(z_ref.dtype)

    def function(x: Any, y: Any) -> Any:
        rhs = (
            pl.BlockSpec((bn, bk), lambda i, j, s: (j, s))
            if transposed
            else pl.BlockSpec((bk, bn), lambda i, j, s: (s, j))
        )
        return pl.pallas_call(
            kernel,
            grid=(m // bm, n // bn, steps),
            in_specs=[pl.BlockSpec((bm, bk), lambda i, j, s: (i, s)), rhs],
            out_specs=pl.BlockSpec((bm, bn), lambda i, j, s: (i, j)),
            scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
            out_shape=jax.ShapeDtypeStruct((m, n), jnp.bfloat16),
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
        )(x, y)  # fmt: skip

    return function, shapes
