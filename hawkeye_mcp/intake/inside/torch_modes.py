"""Modes of PyTorch under which a module is made or run otherwise than it says."""

import contextlib
from collections.abc import Iterator
from typing import Any


def small_alone(largest_bytes: int, all_bytes: int) -> Any:
    """A mode in which arrays of chance, ones or nothing that take more memory than that have shapes and no values."""
    import torch
    from torch.overrides import TorchFunctionMode

    makes = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.normal}

    class Small(TorchFunctionMode):  # type: ignore[misc]
        left = all_bytes

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func not in makes or kwargs.get("device") is not None:
                return func(*args, **kwargs)
            shape = func(*args, **kwargs | {"device": "meta"})
            if shape.nbytes > min(largest_bytes, self.left):
                return shape
            self.left -= shape.nbytes
            return func(*args, **kwargs)

    return Small()


@contextlib.contextmanager
def float64_default() -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def widened() -> Any:
    """A mode in which what asks for a narrower float gets a float64."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    narrow = (torch.float32, torch.bfloat16, torch.float16)

    class Widened(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args, kwargs = torch.utils._pytree.tree_map(
                lambda value: torch.float64 if isinstance(value, torch.dtype) and value in narrow else value,
                (args, kwargs or {}),
            )
            return func(*args, **kwargs)

    return Widened()
