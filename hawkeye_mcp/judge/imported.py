"""Inside the verifier: a workload folder as `hawkeye job import` wrote it, held against what was recorded.

The folder's program is emitted and checked code; this is the first process that loads it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hawkeye_mcp import workloads
from hawkeye_mcp.intake import values
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.inside import agreement
from hawkeye_mcp.intake.inside.flops import flops
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.judge import correctness, drawing
from hawkeye_mcp.judge.verify import module_of
from hawkeye_mcp.workload_check.program import flatten
from hawkeye_mcp.workloads import Tolerance, Workload

_SEEDS = (11, 12, 13)
_PRODUCTS = ("dot_general", "ragged_dot_general", "conv_general_dilated")
Arrays = Sequence[Any]


def recorded(workload: str, capture: str, atol: float | None, rtol: float | None) -> dict[str, Any]:
    """The written program and oracle on every recorded trial.

    capture: the folder of `capture.json` and `goldens.npz`. atol, rtol: allowed to the program; without them, what its own
    rounding in float64 leaves to it.

    Returns:
        "problems": in words, of the program; "worst_abs", "elements"; "oracle": by output, `errors` against the results in
        float64; "float64": whether there were any.
    """
    declared = workloads.find(workload)
    module = module_of(workload)
    of = Capture.model_validate_json((Path(capture) / "capture.json").read_text(encoding="utf-8"))
    given = of.sizes["check"]
    own = _drawn(module, declared, "check", 0)[len(given.arrays) :]  # the program's own arrays are never drawn
    run, oracle = jax.jit(module.workload), jax.jit(module.oracle)
    problems: list[str] = []
    told: dict[str, Any] = {"problems": problems, "worst_abs": 0.0, "elements": 0, "oracle": [], "float64": False}
    with np.load(Path(capture) / "goldens.npz", allow_pickle=False) as arrays:
        for trial in range(of.trials):
            inputs = [_typed(arrays[f"check/{trial}/in/{a.name}"], a.dtype) for a in given.arrays] + own
            results, precise = _leaves(run(*inputs)), _leaves(oracle(*inputs))
            for number, output in enumerate(given.outputs):
                golden = _typed(arrays[f"check/{trial}/out/{number}"], output.dtype)
                key = f"check/{trial}/out64/{number}"
                exact = arrays[key] if key in arrays else None
                within = agreement.allowed(golden, exact)
                if atol is not None and rtol is not None:
                    within = agreement.Allowed(atol, rtol, f"{atol:g} + {rtol:g} |result|")
                found = agreement.compare(results[number], golden, within)
                told["elements"] += found.elements
                told["worst_abs"] = max(told["worst_abs"], found.worst_abs) if found.elements else told["worst_abs"]
                if not found.ok:
                    problems.append(_told(number, trial, found, within))
                if exact is not None:
                    told["float64"] = True
                    told["oracle"].append(_errors(precise[number], exact))
    return told


def _told(number: int, trial: int, found: agreement.Difference, within: agreement.Allowed) -> str:
    if found.what:
        return f"output {number} is {found.what}"
    return (
        f"output {number} of trial {trial}: {found.wrong} of {found.elements} elements differ by more than {within.reason}; "
        f"worst at {list(found.worst)}: {found.here:.6g}, recorded {found.there:.6g}"
    )


def described(workload: str, own: int) -> dict[str, Any]:
    """The structure of the written program at each size, and its operations at full size.

    own: how many of its last arguments are arrays of the program's own, which it then closes over.
    """
    declared = workloads.find(workload)
    module = module_of(workload)
    found: dict[str, Any] = {"structures": {}, "flops": None}
    for size in ("full", "check"):
        shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in declared.shapes(declared.inputs, size)]
        count = len(shapes) - own
        held = _drawn(module, declared, size, 0)[count:] if own else []
        closed = jax.make_jaxpr(lambda *given, held=held: module.workload(*given, *held))(*shapes[:count])
        found["structures"][size] = structure(closed)
        if size == "full":
            found["flops"] = flops(closed.jaxpr)
    return found


def figures(workload: str) -> dict[str, Any]:
    """What right programs score on fresh draws, by the metrics of a gate: {"scalar", "axis", "honest": {name: errors}}.

    Of each variant the worst errors. Where float32 products may be rounded to bfloat16, as a TPU's matrix unit does, that
    is a variant too. axis: the first that is longer than 1 in every output; -1: none.
    """
    declared = workloads.find(workload)
    module = module_of(workload)
    oracle = jax.jit(module.oracle)
    draws = [_drawn(module, declared, "check", seed) for seed in _SEEDS]
    expected = [_leaves(oracle(*inputs)) for inputs in draws]
    axis = _axis(expected[0])
    program = flatten(module.workload, draws[0])
    variants: dict[str, Callable[..., Any]] = {"as XLA compiles it": jax.jit(module.workload)}
    has_products = any(step.primitive in _PRODUCTS for step in program.steps)
    if has_products:
        variants["with products of bfloat16"] = jax.jit(lambda *inputs: _coarse(program, inputs))
    honest = {}
    for name, run in variants.items():
        errors = [
            _errors(out, ref, axis)
            for inputs, refs in zip(draws, expected, strict=True)
            for out, ref in zip(_leaves(run(*inputs)), refs, strict=True)
        ]
        honest[name] = {key: _largest([error[key] for error in errors]) for key in ("E", "R")}
    return {
        "axis": axis,
        "honest": honest,
        "products": has_products,
        "finite": all(bool(np.isfinite(ref).all()) for refs in expected for ref in refs),
    }


def _axis(outputs: Arrays) -> int:
    ranks = min(out.ndim for out in outputs)
    return next((axis for axis in range(ranks) if all(out.shape[axis] > 1 for out in outputs)), -1)


def _coarse(program: Any, inputs: Arrays) -> list[Any]:
    """The program with float32 operands of every product rounded to bfloat16."""
    held = dict(program.constants) | dict(zip(program.inputs, inputs, strict=True))
    for step in program.steps:
        operands = [held[number] for number in step.inputs]
        if step.primitive in _PRODUCTS:
            operands = [_rounded(array) for array in operands]
        held |= zip(step.outputs, step.run(operands), strict=True)
    return [held[number] for number in program.outputs]


def _rounded(array: Any) -> Any:
    return jax.lax.reduce_precision(array, 8, 7) if array.dtype == jnp.float32 else array


def _drawn(module: Any, declared: Workload, size: workloads.Size, seed: int) -> list[Any]:
    dims = dict(declared.sizes[size])
    return list(drawing.draw(module, dims)(jax.random.key(seed)))


def _typed(array: values.Array, dtype: str) -> values.Array:
    """What .npz files hold as unsigned integers of the same width."""
    return array if array.dtype == jnp.dtype(dtype) else array.view(jnp.dtype(dtype))


def _errors(out: Any, ref: Any, axis: int = -1) -> dict[str, float | None]:
    """E and R of an output against what is right; None where it is not finite."""
    ref = np.asarray(ref)
    axis = axis if axis >= 0 else _axis([ref])
    tolerance = Tolerance(metric="R", limit=1e30, axis=max(axis, 0), reason="")
    out = np.asarray(out)
    errors, _ = correctness.compare([out], [ref], [(ref.shape, str(out.dtype))], tolerance)
    return {"E": errors[0].error_e if ref.ndim and axis >= 0 else None, "R": errors[0].error_r}


def _largest(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return max(known) if known and len(known) == len(found) else None


def _leaves(outputs: Any) -> list[Any]:
    return [np.asarray(out) for out in jax.tree.leaves(outputs)]


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {
    "recorded_import": recorded,
    "described_import": described,
    "figures_of_import": figures,
}
