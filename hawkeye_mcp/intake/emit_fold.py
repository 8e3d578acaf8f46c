"""Operations on scalar constants, done while a program is written: only those that every machine rounds in the same way."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_EXACT = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "neg": np.negative,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "sqrt": np.sqrt, "div": np.divide,
}  # fmt: skip


def folded(name: str, values: Sequence[Any], dtype: Any) -> Any | None:
    """The scalar that an operation on scalars gives; None if it is left to the program."""
    with np.errstate(all="ignore"):
        if name == "convert_element_type":
            return np.asarray(values[0]).astype(dtype)[()]
        if name == "not" and np.asarray(values[0]).dtype == np.bool_:
            return ~values[0]
        if name not in _EXACT or (name == "div" and np.asarray(values[0]).dtype.kind in "iub"):
            return None
        return np.asarray(_EXACT[name](*values)).astype(dtype)[()]
