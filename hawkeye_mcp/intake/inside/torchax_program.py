"""A module as a function of JAX arrays, by torchax."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hawkeye_mcp.intake.inside.torch_calls import Call, missing, outputs

_OVERLOAD = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")


def import_torchax() -> Any:
    """torchax, which names overloads of operators with named tensors that torch 2.13 no longer has.

    They get placeholders first, which nothing can call any more.
    """
    import torch

    if "torchax" not in sys.modules:
        found = importlib.util.find_spec("torchax")
        folder = Path(found.origin or "").parent if found else Path()
        for file in folder.rglob("*.py"):
            for operator, overload in _OVERLOAD.findall(file.read_text(encoding="utf-8")):
                packet = getattr(torch.ops.aten, operator, None)
                if packet is not None and not hasattr(packet, overload):
                    setattr(packet, overload, f"aten::{operator}.{overload}")
    import torchax

    return torchax


def require() -> None:
    """Raises CaptureFailed: torch_missing, also where torchax and torch are of versions that do not go together."""
    try:
        import_torchax()
    except Exception as error:  # torchax names operators at import that other versions of torch lack
        raise missing("torchax", error) from None


def function(call: Call) -> Callable[..., list[Any]]:
    """Takes inputs, then state, as JAX arrays in the order of `call.tensors()`; tensors that it makes are JAX's too."""
    import torch

    environment = import_torchax().default_env()

    def converted(*values: Any) -> list[Any]:
        tensors = environment.j2t_iso(list(values))
        inputs = tensors[: len(call.inputs)]
        held = dict(zip(call.state, tensors[len(inputs) :], strict=True))
        with torch.no_grad(), torch.device("jax", 0), environment:
            returned = torch.func.functional_call(call.module, held, tuple(call.arguments(inputs)))
            return list(environment.t2j_iso(outputs(returned)))

    return converted
