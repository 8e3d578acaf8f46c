"""The arrays that are recorded, and what the type of each is called."""

import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hawkeye_mcp.intake.capture import CaptureFailed

Array = np.ndarray[Any, np.dtype[Any]]
_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32"}  # jax has no others as it is used here


class Record:
    """Arrays by key; too many bytes of them are an error as soon as they come."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit, self._arrays = limit_bytes, dict[str, Array]()

    def add(self, key: str, array: Array) -> str:
        """Raises CaptureFailed: too_big."""
        self._arrays[key] = array
        if self.bytes > self._limit:
            largest = sorted(self._arrays.items(), key=lambda item: -item[1].nbytes)[:3]
            named = ", ".join(f"{k} {list(a.shape)} {a.nbytes / 1e6:.4g} MB" for k, a in largest)
            raise CaptureFailed(
                "too_big",
                f"The arrays to be recorded take more than {self._limit / 1e6:g} MB; the largest so far: {named}.",
                "Give `sizes` smaller numbers at `check`, or `correctness` fewer trials.",
            )
        return key

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def save(self, path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
            for key, array in self._arrays.items():
                with file.open(f"{key}.npy", "w", force_zip64=True) as stream:
                    np.lib.format.write_array(stream, raw(array), allow_pickle=False)


def raw(array: Array) -> Array:
    """bfloat16 and float8, which .npy files do not know, as unsigned integers of the same width."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    return contiguous.view(f"u{array.dtype.itemsize}") if array.dtype.isbuiltin != 1 else contiguous


def narrowed_name(dtype: str) -> str:
    """What `narrowed` makes of a type."""
    return _NARROW.get(dtype, dtype)


def narrowed(array: Array, name: str) -> Array:
    """The array as jax has it: at most 32 bits an element.

    Raises:
        CaptureFailed: integers that do not fit, or a type that has no counterpart.
    """
    if array.dtype.kind == "c":
        raise CaptureFailed(
            "not_convertible",
            f"{name} is complex ({array.dtype}), which TPU kernels do not compute with.",
            "Take real and imaginary parts as two arrays.",
        )
    to = np.dtype(_NARROW.get(array.dtype.name, array.dtype))
    if to != array.dtype and to.kind in "iu" and array.size:
        limits = np.iinfo(to)
        if array.min() < limits.min or array.max() > limits.max:
            raise CaptureFailed(
                "source_fails",
                f"{name} holds integers beyond {to.name}, and programs for a TPU have no wider ones here.",
                "Make the source give smaller integers.",
            )
    return array.astype(to)


def is_float(dtype: Any) -> bool:
    """Also for bfloat16 and float8, which numpy does not know as such."""
    return np.dtype(dtype).kind == "f" or "float" in np.dtype(dtype).name


def epsilon(dtype: Any) -> float:
    """Distance from 1 to the next larger number."""
    return float(ml_dtypes.finfo(dtype).eps)


def wide(array: Array) -> Array:
    """As float64, whatever it is."""
    return np.asarray(array, np.float64)
