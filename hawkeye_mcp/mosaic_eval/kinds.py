"""Kinds of arithmetic, by the names that they have in Mosaic and in StableHLO.

One jaxpr is lowered to both, so what is of one kind in the one is of the same kind in the other; the table names what
jax lowers otherwise. Sums, differences, products of elements, comparisons and integers are no kind: either dialect adds
and drops them on its own.
"""

import math
from typing import Any

from jax._src.lib.mlir import ir

PRODUCT = "matrix product"
_ROOT, _LOGARITHM, _EXPONENTIAL, _DIVISION = "root", "logarithm", "exponential", "division"
_ANGLE, _REDUCTION = "sine or cosine", "reduction"
_MOSAIC: dict[str, tuple[str, ...]] = {
    "tpu.matmul": (PRODUCT,),
    "vector.contract": (PRODUCT,),
    "vector.multi_reduction": (_REDUCTION,),
    "tpu.reduce_index": (_REDUCTION,),
    "tpu.all_reduce": (_REDUCTION,),
    "arith.divf": (_DIVISION,),
    "tpu.reciprocal": (_DIVISION,),
    "math.exp": (_EXPONENTIAL,),
    "math.exp2": (_EXPONENTIAL,),
    "math.expm1": (_EXPONENTIAL,),
    "math.log": (_LOGARITHM,),
    "math.log2": (_LOGARITHM,),
    "math.log1p": (_LOGARITHM,),
    "math.sqrt": (_ROOT,),
    "math.rsqrt": (_ROOT,),
    "math.cbrt": (_ROOT,),
    "math.sin": (_ANGLE,),
    "math.cos": (_ANGLE,),
    "math.tan": (_ANGLE,),
    "math.tanh": ("tanh",),
    "math.erf": (_DIVISION,),  # StableHLO has none: it is exported as one polynomial divided by another
    "math.powf": ("power",),
}
_STABLEHLO: dict[str, tuple[str, ...]] = {
    "dot_general": (PRODUCT,),
    "dot": (PRODUCT,),
    "convolution": (PRODUCT,),
    "reduce": (_REDUCTION,),
    "divide": (_DIVISION,),
    "exponential": (_EXPONENTIAL,),
    "exponential_minus_one": (_EXPONENTIAL,),
    "logistic": (_EXPONENTIAL, _DIVISION),  # Mosaic has no such operation: 1 / (1 + exp(-x))
    "log": (_LOGARITHM,),
    "log_plus_one": (_LOGARITHM,),
    "sqrt": (_ROOT,),
    "rsqrt": (_ROOT,),
    "cbrt": (_ROOT,),
    "sine": (_ANGLE,),
    "cosine": (_ANGLE,),
    "tan": (_ANGLE,),
    "tanh": ("tanh",),
    "erf": (_DIVISION,),
    "power": ("power",),
}


def kinds(op: ir.Operation) -> tuple[str, ...]:
    """Of an operation in either dialect."""
    dialect, _, name = op.name.removeprefix("stable_mosaic.").partition(".")
    if dialect in ("stablehlo", "chlo", "mhlo"):
        found = _STABLEHLO.get(name, ())
        return found if name != "divide" or _floats(op.results[0].type) else ()
    return _MOSAIC.get(f"{dialect}.{name}", ())


def items(op: ir.Operation) -> float:
    """How much an operation of Mosaic does: multiplications of a matrix product, else the elements it goes through."""
    if op.name.endswith(("tpu.matmul", "vector.contract")):
        lhs, rhs, out = (_elements(value.type) for value in (*list(op.operands)[:2], op.results[0]))
        return math.sqrt(lhs * rhs * out)  # (m k)(k n)(m n) = (m k n)^2
    return max((_elements(value.type) for value in (*op.operands, *op.results)), default=1.0)


def _elements(kind: Any) -> float:
    return float(math.prod(ir.VectorType(kind).shape)) if isinstance(kind, ir.VectorType) else 1.0


def _floats(kind: Any) -> bool:
    element = ir.RankedTensorType(kind).element_type if isinstance(kind, ir.RankedTensorType) else kind
    return "f" in str(element)
