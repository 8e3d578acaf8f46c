"""A JAX function recorded: traced as it is at both sizes, run at the check size."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hawkeye_mcp.intake import seeded
from hawkeye_mcp.intake.capture import Capture, CaptureFailed, SizeCapture
from hawkeye_mcp.intake.inside import draws, source
from hawkeye_mcp.intake.inside.naming import identifiers
from hawkeye_mcp.intake.inside.program import Traced, narrow_floats, trace, write
from hawkeye_mcp.intake.inside.record import Array, Record, is_float, narrowed, narrowed_name, wide
from hawkeye_mcp.intake.inside.request import Request
from hawkeye_mcp.intake.inside.sizes import Argument, Found, captured, same_arguments, same_at_every_seed, unused
from hawkeye_mcp.intake.inside.trials import Trial, deterministic, recorded, tolerance, worthless
from hawkeye_mcp.workloads import Size


@dataclass(frozen=True)
class Call:
    """arrays: those among the arguments, with values or as shapes alone. others: the rest, by place, baked in as it is."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    arrays: tuple[Any, ...]
    others: dict[int, Any]
    tree: Any

    def flat(self, *arrays: Any) -> list[Any]:
        """The function of its arrays alone; gives a list of arrays."""
        import jax

        return [leaf for leaf in jax.tree.leaves(self.function(*self.arguments(arrays)))]

    def arguments(self, arrays: Sequence[Any]) -> Any:
        import jax

        rest = iter(arrays)
        count = len(self.arrays) + len(self.others)
        return jax.tree.unflatten(self.tree, [self.others[n] if n in self.others else next(rest) for n in range(count)])


def capture(request: Request, sha256: str, record: Record, progress: source.Progress) -> Capture:
    """Raises CaptureFailed, of any kind but those of PyTorch."""
    progress("importing the JAX function")
    path, notes = Path(request.path), list[str]()
    module = source.load(path, request.sizes["check"], "hawkeye_source_check")
    progress("running the function at the check size")
    calls = [_build(module, request, request.seed + n) for n in range(max(request.trials, draws.SEEDS))]
    arguments = _arguments(calls[0])
    choices = _choices(calls, arguments)
    notes += draws.notes(choices)
    traced = _traced(calls[0], arguments, path)
    write(traced, [argument.name for argument in arguments])  # what has no spelling, such as a kernel, may not run here
    trials = [
        _trial(call, traced, arguments, choices, n, path, notes) for n, call in enumerate(calls[: request.trials])
    ]
    worthless(trials, notes)
    check = Found(arguments, traced.outputs, traced, trials[0].values)

    full = check
    if request.sizes["full"] != request.sizes["check"]:
        progress("tracing the function at full size")
        full = _full(request, arguments, choices, path)
    dropped = unused([check, full])
    sizes: dict[Size, SizeCapture] = {"check": captured("check", check, dropped, choices, record, program=True)}
    sizes["full"] = sizes["check"] if full is check else captured("full", full, dropped, choices, record, program=True)
    recorded(trials, [argument.name for argument in arguments], record)
    return Capture(
        source_sha256=sha256,
        route="jax",
        versions={"jax": metadata.version("jax")},
        sizes=sizes,
        trials=len(trials),
        notes=tuple(dict.fromkeys(notes)),
        tolerance=tolerance(trials),
        deterministic=True,
    )


def _build(module: ModuleType, request: Request, seed: int) -> Call:
    """The function and its arguments, drawn from one seed where inputs_fn takes one.

    Raises:
        CaptureFailed: no_entry_point, source_fails, too_big.
    """
    path = Path(request.path)
    function, give = _entries(module, request)
    with source.told(path, f"{request.inputs_fn} fails"):
        given = seeded.given(give, seed)
    return _call(function, given, request)


def _entries(module: ModuleType, request: Request) -> tuple[Callable[..., Any], Callable[..., Any]]:
    path = Path(request.path)
    function = source.entry(module, request.entry, path, "the JAX function")
    give = source.entry(module, request.inputs_fn, path, "the function that returns the inputs as a list")
    return function, give


def _call(function: Callable[..., Any], given: Any, request: Request) -> Call:
    import jax

    if not isinstance(given, list | tuple):
        raise CaptureFailed(
            "source_fails",
            f"{request.inputs_fn} in {Path(request.path).name} returns {type(given).__name__} instead of a list.",
            f"Let it return the arguments of {request.entry} as a list, in their order.",
        )
    names, arrays, others = list[str](), list[Any](), dict[int, Any]()
    parameters = _parameter_names(function, len(given))
    leaves, tree = jax.tree_util.tree_flatten_with_path(tuple(given))
    for place, (keys, leaf) in enumerate(leaves):
        if isinstance(leaf, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct):
            names.append(parameters[keys[0].idx] + jax.tree_util.keystr(keys[1:]))
            arrays.append(leaf)
        else:
            others[place] = leaf
    return Call(function, tuple(names), tuple(arrays), others, tree)


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        found = {}.values()
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names[:count], *(f"input_{n}" for n in range(len(names), count))]


def _arguments(call: Call) -> list[Argument]:
    return [
        Argument(own, name, "input", tuple(array.shape), narrowed_name(np.dtype(array.dtype).name))
        for own, name, array in zip(call.names, identifiers(call.names), call.arrays, strict=True)
    ]


def _choices(calls: Sequence[Call], arguments: Sequence[Argument]) -> dict[str, draws.Choice]:
    """How each argument is drawn, by name. Raises CaptureFailed if a seed changes more than values."""
    same_at_every_seed([_arguments(call) for call in calls], [call.others for call in calls])
    return {
        argument.name: draws.choose([narrowed(np.asarray(call.arrays[place]), argument.source) for call in calls])
        for place, argument in enumerate(arguments)
    }


def _traced(call: Call, arguments: Sequence[Argument], path: Path) -> Traced:
    with source.told(path, "It cannot be traced", "Let jax.jit run it, and mend what that finds."):
        return trace(call.flat, [argument.shaped for argument in arguments])


def _full(request: Request, check: Sequence[Argument], choices: dict[str, draws.Choice], path: Path) -> Found:
    """The function at full size, without its arrays where that is possible."""
    import jax

    module = source.load(path, request.sizes["full"], "hawkeye_source_full")
    function, give = _entries(module, request)
    seen: list[Call] = []

    def arrays() -> Any:
        seen.append(_call(function, give(*seeded.argument(give, request.seed)), request))
        return seen[-1].arrays

    try:
        shapes = jax.eval_shape(arrays)
        call = dataclasses.replace(seen[-1], arrays=shapes)
    except Exception:  # inputs_fn takes to numpy what jax gave it, say
        call = _build(module, request, request.seed)
    arguments = _arguments(call)
    same_arguments(check, arguments)
    traced = _traced(call, arguments, path)
    kept = [place for place, argument in enumerate(arguments) if not choices[argument.name].draw]
    try:
        made = jax.jit(lambda: [arrays()[place] for place in kept])()  # makes nothing but these
    except Exception:
        made = [_build(module, request, request.seed).arrays[place] for place in kept]
    values = {arguments[p].name: narrowed(np.asarray(m), arguments[p].source) for p, m in zip(kept, made, strict=True)}
    return Found(arguments, traced.outputs, traced, values)


def _trial(
    call: Call,
    traced: Traced,
    arguments: Sequence[Argument],
    choices: dict[str, draws.Choice],
    number: int,
    path: Path,
    notes: list[str],
) -> Trial:
    values = {
        argument.name: draws.perturbed(
            narrowed(np.array(array), argument.source), choices[argument.name], argument.name, number
        )
        for argument, array in zip(arguments, call.arrays, strict=True)
    }
    with source.told(path, "It cannot be run"):
        out = traced.run(list(values.values()))
        again = _traced(call, arguments, path).run(list(values.values()))
    if not out:
        raise CaptureFailed("source_fails", "It returns no array.", "Let it return its results.")
    deterministic(out, again, "Look for random numbers that are not from jax.random.")
    return Trial(values, out, _out64(call, list(values.values()), out, notes))


def _out64(call: Call, values: Sequence[Array], out: Sequence[Array], notes: list[str]) -> list[Array] | None:
    """Results where floats of arguments are float64; what the function itself casts stays as narrow as it says."""
    import jax

    try:
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = [wide(value) if is_float(value.dtype) else value for value in values]
            exact = [np.asarray(leaf) for leaf in jax.jit(call.flat)(*given)]
            narrow = narrow_floats(jax.make_jaxpr(call.flat)(*given).jaxpr)
    except Exception as error:  # whatever the function or jax raise: it is only a probe
        notes.append(f"No results in float64: {type(error).__name__}: {str(error).strip()[:200]}")
        return None
    if [array.shape for array in exact] != [array.shape for array in out]:
        notes.append("No results in float64: it returns other shapes there.")
        return None
    if narrow:
        notes.append(
            f"In the float64 results parts stay in {', '.join(sorted(narrow))}, as the function says so itself."
        )
    return [wide(array) if is_float(array.dtype) else array for array in exact]
