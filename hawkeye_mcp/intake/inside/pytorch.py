"""A PyTorch module recorded: eager results at the check size, and the program that torchax makes of it at both."""

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from hawkeye_mcp.intake.capture import Capture, CaptureFailed, SizeCapture
from hawkeye_mcp.intake.inside import draws, source, torch_calls, torch_modes, torchax_program
from hawkeye_mcp.intake.inside.naming import identifiers
from hawkeye_mcp.intake.inside.program import Shaped, Traced, trace
from hawkeye_mcp.intake.inside.record import Array, Record, narrowed_name
from hawkeye_mcp.intake.inside.request import Request
from hawkeye_mcp.intake.inside.sizes import Argument, Found, captured, same_arguments, same_at_every_seed, unused
from hawkeye_mcp.intake.inside.torch_calls import Call
from hawkeye_mcp.intake.inside.trials import Trial, compared, deterministic, recorded, tolerance, worthless
from hawkeye_mcp.workloads import Size

LARGEST_VALUE_BYTES, VALUES_BYTES = 1 << 28, 1 << 30  # of one array, and of all, that are made at full size
_DROPOUT = "Look for a dropout that stays on in evaluation mode: functional.dropout needs training=self.training."
_PORT = "Set conversion.method to `port` and write the JAX yourself: it is held against the recorded results."


def capture(request: Request, sha256: str, record: Record, progress: source.Progress) -> Capture:
    """Raises CaptureFailed, of any kind."""
    progress("importing PyTorch")
    torch_calls.require()
    if request.convert:
        torchax_program.require()
    path, notes = Path(request.path), list[str]()
    module = source.load(path, request.sizes["check"], "hawkeye_source_check")
    progress("running the module at the check size")
    calls = [torch_calls.build(module, request, request.seed + n) for n in range(max(request.trials, draws.SEEDS))]
    arguments = _arguments(calls[0])
    choices = _choices(calls, arguments)
    notes += draws.notes(choices)
    trials = [_trial(call, arguments, choices, n, path, notes) for n, call in enumerate(calls[: request.trials])]
    worthless(trials, notes)
    outputs = [(out.shape, out.dtype.name) for out in trials[0].out]

    progress("converting the module with torchax")
    traced = _traced(calls[0], arguments, request, notes)
    eager_check = compared(traced, trials, [a.name for a in arguments]) if traced else None
    if eager_check and not eager_check.ok:
        said = f"torchax's program of the module does not compute what the module does: {eager_check.tolerance}"
        if request.convert:
            raise CaptureFailed("eager_disagrees", said, _PORT)
        notes.append(f"{said} So its structure is not known.")
        traced = eager_check = None
    check = Found(arguments, outputs, traced, trials[0].values)

    full = check
    if request.sizes["full"] != request.sizes["check"]:
        progress("tracing the module at full size")
        full = _full(request, arguments, choices, traced is not None, notes)
    dropped = unused([check, full])
    if gone := [a.source for a, drop in zip(arguments, dropped, strict=True) if drop]:
        notes.append(f"The program does not depend on {', '.join(gone)}: no arguments.")
    sizes: dict[Size, SizeCapture] = {
        "check": captured("check", check, dropped, choices, record, program=request.convert),
    }
    sizes["full"] = (
        sizes["check"] if full is check else captured("full", full, dropped, choices, record, program=request.convert)
    )
    kept = [argument.name for argument, drop in zip(arguments, dropped, strict=True) if not drop]
    recorded(trials, kept, record)
    return Capture(
        source_sha256=sha256,
        route="torchax" if request.convert else "golden",
        versions=_versions(traced is not None),
        sizes=sizes,
        trials=len(trials),
        notes=tuple(dict.fromkeys(notes)),
        eager_check=eager_check,
        tolerance=tolerance(trials),
        deterministic=True,
    )


def _arguments(call: Call) -> list[Argument]:
    tensors = call.tensors()
    roles = ["input"] * len(call.inputs) + [torch_calls.role(tensor) for tensor in call.state.values()]
    return [
        Argument(own, name, role, tuple(tensor.shape), narrowed_name(torch_calls.dtype_name(tensor)))
        for (own, tensor), name, role in zip(tensors.items(), identifiers(tensors), roles, strict=True)
    ]


def _choices(calls: Sequence[Call], arguments: Sequence[Argument]) -> dict[str, draws.Choice]:
    """How each argument is drawn, by name. Raises CaptureFailed if a seed changes more than values."""
    same_at_every_seed([_arguments(call) for call in calls], [call.others for call in calls])
    return {
        a.name: draws.choose([torch_calls.to_numpy(call.tensors()[a.source], a.source) for call in calls])
        for a in arguments
    }


def _trial(
    call: Call,
    arguments: Sequence[Argument],
    choices: Mapping[str, draws.Choice],
    number: int,
    path: Path,
    notes: list[str],
) -> Trial:
    """Run one seed, with arrays that no seed changes perturbed.

    Raises:
        CaptureFailed: source_fails, non_deterministic.
    """
    _perturb(call, arguments, choices, number)
    values = {a.name: torch_calls.to_numpy(call.tensors()[a.source], a.source) for a in arguments}
    found, changed = torch_calls.eager(call, path)
    again, _ = torch_calls.eager(call, path)
    if changed:
        notes.append(f"forward changes {', '.join(changed)} in place; that is no result, and each run starts afresh.")
    names = [f"output {place}" for place in range(len(found))]
    out = [torch_calls.to_numpy(tensor, name) for tensor, name in zip(found, names, strict=True)]
    if not out:
        raise CaptureFailed("source_fails", "forward returns no tensor.", "Let it return its results.")
    second = [torch_calls.to_numpy(tensor, "an output") for tensor in again]
    deterministic(out, second, _DROPOUT)
    return Trial(values, out, _out64(call, found, notes))


def _perturb(call: Call, arguments: Sequence[Argument], choices: Mapping[str, draws.Choice], number: int) -> None:
    import torch

    for argument in arguments:
        tensor = call.tensors()[argument.source]
        before = torch_calls.to_numpy(tensor, argument.source)
        after = draws.perturbed(before, choices[argument.name], argument.name, number)
        if after is not before:
            with torch.no_grad():
                tensor.data = tensor.data.clone()  # an expanded one has one place in memory for several elements
                tensor.copy_(torch.from_numpy(after.astype("float32")))


def _out64(call: Call, found: Sequence[Any], notes: list[str]) -> list[Array] | None:
    try:
        exact = torch_calls.in_float64(call)
        shapes = [tuple(tensor.shape) for tensor in exact]
    except Exception as error:  # whatever the module or torch raise: it is only a probe
        notes.append(f"No results in float64: {type(error).__name__}: {str(error).strip()[:200]}")
        return None
    if shapes != [tuple(tensor.shape) for tensor in found]:
        notes.append("No results in float64: it returns other shapes there.")
        return None
    return [tensor.numpy() for tensor in exact]


def _traced(call: Call, arguments: Sequence[Argument], request: Request, notes: list[str]) -> Traced | None:
    """The module as a JAX program; None, with a note, where it need not be one.

    Raises:
        CaptureFailed: not_convertible.
    """
    try:
        return trace(torchax_program.function(call), [argument.shaped for argument in arguments])
    except Exception as error:  # torchax raises whatever its lowerings and jax raise
        said = source.words(error, Path(request.path))
        if request.convert:
            raise CaptureFailed("not_convertible", f"torchax cannot convert the module: {said}", _PORT) from None
        notes.append(f"torchax cannot convert the module, so its structure is not known: {said}")
        return None


def _full(
    request: Request, check: Sequence[Argument], choices: Mapping[str, draws.Choice], convert: bool, notes: list[str]
) -> Found:
    """The program at full size, without its arrays where that is possible."""
    import torch

    path = Path(request.path)
    module = source.load(path, request.sizes["full"], "hawkeye_source_full")
    try:
        with torch.device("meta"):
            call = torch_calls.build(module, request, request.seed)
        arguments, outputs, traced = _abstract(call, request, convert)
    except CaptureFailed as failed:
        if failed.kind == "no_entry_point":
            raise
        notes.append(f"At full size the module had to be made with its values: {failed.message}")
        call = torch_calls.build(module, request, request.seed)
        arguments, outputs, traced = _abstract(call, request, convert)
    same_arguments(check, arguments)
    return Found(arguments, outputs, traced, _values(module, request, call, arguments, choices, notes))


def _abstract(call: Call, request: Request, convert: bool) -> tuple[list[Argument], list[Shaped], Traced | None]:
    arguments = _arguments(call)
    if convert:
        traced = _traced(call, arguments, request, [])
        if traced:
            return arguments, traced.outputs, traced
    found = torch_calls.abstract_outputs(call, Path(request.path))
    return arguments, [(tuple(t.shape), narrowed_name(torch_calls.dtype_name(t))) for t in found], None


def _values(
    module: ModuleType,
    request: Request,
    call: Call,
    arguments: Sequence[Argument],
    choices: Mapping[str, draws.Choice],
    notes: list[str],
) -> dict[str, Array]:
    """Values of state, to see what they are drawn from, and of what is kept, without what is large."""
    needs_inputs = any(argument.role == "input" and not choices[argument.name].draw for argument in arguments)
    made: dict[str, Any] = {}
    try:
        with torch_modes.small_alone(LARGEST_VALUE_BYTES, VALUES_BYTES):
            made |= torch_calls.state(torch_calls.make(module, request, request.seed))
            if needs_inputs:
                made |= torch_calls.inputs(call.module, torch_calls.give(module, request, request.seed))
    except CaptureFailed as failed:
        notes.append(f"At full size values could not be made without those that are large: {failed.message}")
    state = [argument for argument in arguments if argument.role != "input" and choices[argument.name].draw]
    if absent := [a.name for a in state if a.source in made and made[a.source].is_meta]:
        notes.append(f"Too large to be made at full size, so drawn there as at the check size: {', '.join(absent)}.")
    return {
        argument.name: torch_calls.to_numpy(made[argument.source], argument.source)
        for argument in arguments
        if argument.source in made and not made[argument.source].is_meta
    }


def _versions(convert: bool) -> dict[str, str]:
    return {name: metadata.version(name) for name in ("torch", *(("torchax", "jax") if convert else ()))}
