"""Inside the verifier: a kernel held against what PyTorch itself gave on the same arguments."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hawkeye_mcp import artifact
from hawkeye_mcp.intake import values
from hawkeye_mcp.judge.port import Refused, exported, recorded_trials


def run_kernel(folder: str, cpu: str, atol: float, rtol: float) -> dict[str, Any]:
    """Run a kernel's artifact for the CPU (base64) on every recorded trial.

    folder: of `capture.json` and `goldens.npz`. Arrays that the program closes over are the kernel's last arguments, as of
    an imported workload.

    Returns:
        {"refused": why}, {"failed": why} or {"outputs"}, of `values.OutputAgreement`.
    """
    capture, trials = recorded_trials(Path(folder))
    of = capture.sizes["check"]
    with np.load(Path(folder) / "goldens.npz", allow_pickle=False) as arrays:
        own = [arrays[key].view(of.constant_dtypes[name]) for name, key in of.constants.items()]
    shapes = [(array.shape, array.dtype) for array in of.arrays] + [(array.shape, array.dtype.name) for array in own]
    try:
        run = exported(cpu, shapes)
    except (artifact.Unreadable, Refused) as error:
        return {"refused": str(error)[:2000]}
    try:
        actual = [[np.asarray(x) for x in jax.tree.leaves(run(*inputs, *own))] for inputs, _ in trials]
    except Exception as error:  # out of memory, or whatever else the kernel's program does
        return {"failed": f"{type(error).__name__}: {error}"[:2000]}
    found = values.agreement(actual, [outputs for _, outputs in trials], atol, rtol)
    return {"outputs": [one.model_dump(mode="json") for one in found]}


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {"run_kernel": run_kernel}
