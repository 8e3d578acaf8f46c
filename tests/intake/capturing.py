"""Requests to record a source, for tests that do so in their own process."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.inside.__main__ import record
from hawkeye_mcp.intake.inside.request import Request


def captured(folder: Path, text: str, **changed: Any) -> tuple[Capture, dict[str, Any]]:
    """The capture of a PyTorch source, and the arrays of its goldens.npz.

    changed: of the request; `check` and `full` are its sizes.
    """
    (folder / "model.py").write_text(text, encoding="utf-8")
    sizes = {"check": changed.pop("check", {}), "full": changed.pop("full", changed.get("check", {}))}
    request = {
        "language": "pytorch", "path": str(folder / "model.py"), "entry": "Model", "inputs_fn": "get_inputs",
        "init_inputs_fn": "get_init_inputs", "convert": True, "sizes": sizes, "seed": 7, "trials": 2,
        "folder": str(folder), "record_bytes": 10_000_000, "memory_bytes": 16 << 30,
    }  # fmt: skip
    found = record(Request.model_validate(request | changed), lambda stage: None)
    with np.load(folder / "goldens.npz") as file:
        return found, dict(file)


def jax_source(**changed: Any) -> dict[str, Any]:
    return {"language": "jax", "entry": "workload", **changed}


def run(capture: Capture, goldens: dict[str, Any], trial: int) -> list[Any]:
    """What the emitted program makes of a trial's arguments."""
    import jax.numpy as jnp
    from jax import lax

    check = capture.sizes["check"]
    assert check.program
    scope: dict[str, Any] = {"jnp": jnp, "lax": lax, "np": np}
    exec(check.program, scope)
    given = [typed(goldens[f"check/{trial}/in/{array.name}"], array.dtype) for array in check.arrays]
    results = scope["workload"](*given, *(goldens[key] for key in check.constants.values()))
    return [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]


def typed(array: Any, dtype: str) -> Any:
    return array.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else array
