"""A record as a capture writes it, made by hand, and a verifier without a process of its own."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.intake import port_inside, trace_port
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.judge import verify

NAMES = ("x", "weight", "bias")
SHAPES = {"check": ((4, 128), (128,), (128,)), "full": ((64, 128), (128,), (128,))}


def program(x, weight, bias):
    """What is recorded."""
    mean = jax.numpy.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean + 1e-5) * weight + bias, jax.numpy.argmax(x, axis=-1)


def record(folder: Path, *, converted: bool = True, bias: float | None = None, trials: int = 2) -> Capture:
    """Write the record of `program`; converted: with its structure. bias: one number everywhere instead of drawn ones."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for trial in range(trials):
        draws = np.random.default_rng(trial)
        given = [draws.standard_normal(shape, dtype=np.float32) for shape in SHAPES["check"]]
        if bias is not None:
            given[2] = np.full_like(given[2], bias)
        arrays |= {f"check/{trial}/in/{name}": array for name, array in zip(NAMES, given, strict=True)}
        arrays |= {f"check/{trial}/out/{j}": np.asarray(out) for j, out in enumerate(program(*given))}
    np.savez(folder / "goldens.npz", **arrays)
    sizes = {}
    for size, shapes in SHAPES.items():
        traced = jax.make_jaxpr(program)(*(jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes))
        draw = {"kind": "normal", "mean": 0.0, "std": 1.0}
        sizes[size] = {
            "arrays": [
                {"name": name, "role": "input", "shape": shape, "dtype": "float32", "draw": draw}
                for name, shape in zip(NAMES, shapes, strict=True)
            ],
            "outputs": [{"shape": aval.shape, "dtype": aval.dtype.name} for aval in traced.out_avals],
            "structure": structure(traced) if converted else None,
        }
    route = "jax" if converted else "golden"
    whole = {"source_sha256": "", "route": route, "versions": {}, "sizes": sizes, "trials": trials}
    (folder / "capture.json").write_text(json.dumps(whole))
    return Capture.model_validate_json(json.dumps(whole))


def traced(function: Any) -> trace_port.Traced:
    """A port of our own, traced here as it would be in the sandbox."""
    sizes = {size: [[shape, "float32"] for shape in shapes] for size, shapes in SHAPES.items()}
    reply = port_inside.answer(function, {"sizes": sizes, "names": list(NAMES)}, tracer)
    assert not reply["failures"], reply["failures"]
    found = {size: trace_port._size(reply["sizes"][size], size, sizes[size]) for size in sizes}
    return trace_port.Traced(sizes=found, names=list(NAMES), isolation="none")


class Here:
    """A pool of verifiers whose work is done in this process."""

    async def call(self, method: str, timeout_s: float, **params: Any) -> dict[str, Any]:
        return json.loads(json.dumps(verify.HANDLERS[method](**params)))
