"""Artifact: the bytes that tracing a candidate yields, read back on the trusted side. Imports jax: workers only."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jax import export
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import tpu
from jax._src.lib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


class Unreadable(ValueError):
    """The bytes are not an artifact this version can read."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def mlir_context() -> ir.Context:
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True  # Mosaic's stable form is not a registered dialect
    tpu.register_dialect(context)
    return context


@dataclass(frozen=True)
class Program:
    """An exported program and its StableHLO module, which lives as long as its context."""

    exported: export.Exported
    module: ir.Module
    context: ir.Context

    @property
    def inputs(self) -> list[tuple[tuple[int, ...], str]]:
        return [(tuple(aval.shape), str(aval.dtype)) for aval in self.exported.in_avals]

    @property
    def outputs(self) -> list[tuple[tuple[int, ...], str]]:
        return [(tuple(aval.shape), str(aval.dtype)) for aval in self.exported.out_avals]


def read(data: bytes) -> Program:
    """Raises Unreadable."""
    try:
        exported = export.deserialize(bytearray(data))
        context = mlir_context()
        with context, ir.Location.unknown(context):
            module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
    except Exception as error:  # whatever the parser raises on hostile bytes
        raise Unreadable(f"the artifact cannot be read: {error}") from error
    return Program(exported, module, context)


def operations(parent: Any) -> Iterator[ir.Operation]:
    """Every operation below one, depth first."""
    for region in parent.regions:
        for block in region:
            for op in block:
                yield op.operation
                yield from operations(op.operation)
