"""A PyTorch module with the arguments of one seed: built, run as it is, run in float64."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from hawkeye_mcp.intake import seeded
from hawkeye_mcp.intake.capture import CaptureFailed, torch_install
from hawkeye_mcp.intake.inside import source
from hawkeye_mcp.intake.inside.record import Array, narrowed
from hawkeye_mcp.intake.inside.request import Request
from hawkeye_mcp.intake.inside.torch_modes import float64_default, widened

_CLASS = "`input.entry_point` is a class of torch.nn.Module, whose arguments `input.init_inputs_fn` returns as a list."
_INPUTS_SEED = 1_000_003
Tensor = Any  # torch is imported where it is used: this package is read without it too


def require() -> None:
    """Raises CaptureFailed: torch_missing."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise missing("torch", error) from None


def missing(name: str, error: Exception) -> CaptureFailed:
    return CaptureFailed(
        "torch_missing",
        f"A PyTorch module is recorded by running it, and {name} cannot be imported here: {error}.",
        f"Install it: {torch_install()}",
    )


@dataclass(frozen=True)
class Call:
    """inputs: tensors among the arguments, by name. others: what else is among them, by place, baked in as it is.

    state: parameters, then whatever other tensors the modules hold, by their own names, each tensor once.
    """

    module: Any
    inputs: dict[str, Tensor]
    state: dict[str, Tensor]
    leaves: tuple[Any, ...]
    tree: Any

    @property
    def others(self) -> list[Any]:
        import torch

        return [leaf for leaf in self.leaves if not isinstance(leaf, torch.Tensor)]

    def tensors(self) -> dict[str, Tensor]:
        return self.inputs | self.state

    def arguments(self, inputs: Sequence[Tensor]) -> Any:
        """The positional arguments with these tensors in the places of `inputs`."""
        import torch

        new = iter(inputs)
        leaves = [next(new) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return torch.utils._pytree.tree_unflatten(leaves, self.tree)


def build(module: ModuleType, request: Request, seed: int) -> Call:
    """The person's module in evaluation mode and its inputs, drawn from one seed.

    Raises:
        CaptureFailed: no_entry_point, source_fails, too_big.
    """
    return _call(make(module, request, seed), give(module, request, seed))


def make(module: ModuleType, request: Request, seed: int) -> Any:
    """The module alone. Raises as `build`."""
    import torch

    path = Path(request.path)
    meant = source.entry(module, request.entry, path, "the module")
    seeded.generators(seed)
    initial: list[Any] = []
    if hasattr(module, request.init_inputs_fn):
        with source.told(path, f"{request.init_inputs_fn} fails"):
            initial = list(getattr(module, request.init_inputs_fn)())
    with source.told(path, f"{request.entry} cannot be made", _CLASS):
        made = meant if isinstance(meant, torch.nn.Module) else meant(*initial)
        if not isinstance(made, torch.nn.Module):
            raise CaptureFailed(
                "no_entry_point",
                f"{request.entry} in {path.name} makes {type(made).__name__}, which is no torch.nn.Module.",
                _CLASS,
            )
        return made.eval()


def give(module: ModuleType, request: Request, seed: int) -> list[Any]:
    """The inputs alone, which do not hang on how many numbers the module took. Raises as `build`."""
    path = Path(request.path)
    function = source.entry(module, request.inputs_fn, path, "the function that returns the inputs as a list")
    seeded.generators(seed + _INPUTS_SEED)
    with source.told(path, f"{request.inputs_fn} fails"):
        given = function()
    if not isinstance(given, list | tuple):
        raise CaptureFailed(
            "source_fails",
            f"{request.inputs_fn} in {path.name} returns {type(given).__name__} instead of a list.",
            "Let it return the arguments of forward as a list, in their order.",
        )
    return list(given)


def _call(module: Any, given: list[Any]) -> Call:
    import torch

    leaves, tree = torch.utils._pytree.tree_flatten(given)
    return Call(module, inputs(module, given), state(module), tuple(leaves), tree)


def inputs(module: Any, given: Sequence[Any]) -> dict[str, Tensor]:
    """The tensors among forward's arguments, by names of its parameters."""
    import torch

    found: dict[str, Tensor] = {}
    for name, value in zip(_argument_names(module.forward, len(given)), given, strict=True):
        for path, leaf in torch.utils._pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                found[name + torch.utils._pytree.keystr(path)] = leaf
    return found


def _argument_names(function: Any, count: int) -> list[str]:
    """The first positional parameters' names; those that *args takes get numbers."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names[:count], *(f"input_{n}" for n in range(len(names), count))]


def state(module: Any) -> dict[str, Tensor]:
    """Tensors that the module and its parts hold: in the order of its state, then those that the state leaves out."""
    import torch

    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    named = [
        *module.state_dict(keep_vars=True).items(),
        *module.named_buffers(),
        *(
            (f"{prefix}.{name}" if prefix else name, value)
            for prefix, part in module.named_modules()
            for name, value in vars(part).items()
        ),
    ]
    for name, value in named:
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            seen.add(id(value))
            found[name] = value
    return found


def role(tensor: Tensor) -> Any:
    import torch

    return "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"


def eager(call: Call, path: Path) -> tuple[list[Tensor], list[str]]:
    """(tensors that forward returns, names of inputs and state that it changed in place, which are as before again)."""
    import torch

    before = {name: tensor.detach().clone() for name, tensor in call.tensors().items()}
    with torch.no_grad(), source.told(path, "forward fails"):
        returned = call.module(*call.arguments(list(call.inputs.values())))
        found = [leaf.detach().clone() for leaf in outputs(returned)]
        changed = [name for name, tensor in call.tensors().items() if not _same(tensor, before[name])]
        for name in changed:
            call.tensors()[name].copy_(before[name])
    return found, changed


def abstract_outputs(call: Call, path: Path) -> list[Tensor]:
    """What forward returns, where its shapes and types alone are wanted: on whatever device the module was made."""
    import torch

    abstract = any(tensor.is_meta for tensor in call.tensors().values())
    with torch.no_grad(), torch.device("meta" if abstract else "cpu"), source.told(path, "forward fails"):
        return outputs(call.module(*call.arguments(list(call.inputs.values()))))


def _same(one: Tensor, other: Tensor) -> bool:
    import torch

    if one.dtype.is_floating_point:
        return one.shape == other.shape and bool(torch.allclose(one, other, rtol=0, atol=0, equal_nan=True))
    return bool(torch.equal(one, other))


def outputs(returned: Any) -> list[Tensor]:
    import torch

    return [leaf for leaf in torch.utils._pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor)]


def in_float64(call: Call) -> list[Tensor]:
    """forward's tensors where every float that takes part is a float64, whatever forward casts to. May raise anything."""
    import torch

    def wide(tensor: Tensor) -> Tensor:
        return tensor.detach().double() if tensor.is_floating_point() else tensor.detach().clone()

    arguments = call.arguments([wide(tensor) for tensor in call.inputs.values()])
    held = {name: wide(tensor) for name, tensor in call.state.items()}
    with torch.no_grad(), float64_default(), widened():
        return [wide(tensor) for tensor in outputs(torch.func.functional_call(call.module, held, tuple(arguments)))]


_OWN_TYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}


def to_numpy(tensor: Tensor, name: str) -> Array:
    """A copy of the values, of jax's types.

    Raises:
        CaptureFailed: for types and layouts that have no counterpart.
    """
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized:
        raise CaptureFailed(
            "not_convertible", f"{name} is a sparse or quantized tensor, which has no counterpart.", "Use a dense one."
        )
    plain, own = tensor.detach().resolve_conj().resolve_neg().contiguous(), _OWN_TYPES.get(dtype_name(tensor))
    if own is None:
        return narrowed(plain.numpy().copy(), name)
    integers = {1: torch.uint8, 2: torch.uint16}[plain.element_size()]
    return np.asarray(plain.view(integers).numpy().copy().view(own))


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
