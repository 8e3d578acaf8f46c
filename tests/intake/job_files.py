"""Job files for tests: one of each kind that is valid, and changes to them."""

import copy
import json
from pathlib import Path
from typing import Any

REMOVED = object()

JAX_SOURCE = "import jax.numpy as jnp\nROWS = 8\n\ndef workload(x):\n    return x\n\ndef get_inputs():\n    return [jnp.ones(ROWS)]\n"
TORCH_SOURCE = "import torch\nROWS = 8\n\nclass Model(torch.nn.Module):\n    pass\n\ndef get_inputs():\n    return []\n"
FILES = {
    "jax.py": JAX_SOURCE,
    "torch_module.py": TORCH_SOURCE,
    "port.py": "def workload(x):\n    return x\n",
    "kernel.cu": "__global__ void double_it(float *x) {}\n",
}

SPECIFICATION: dict[str, Any] = {
    "description": "twice x",
    "tensors": [
        {"name": "x", "role": "input", "shape": ["ROWS", 128], "dtype": "float32"},
        {"name": "out", "role": "output", "shape": ["ROWS", 128], "dtype": "float32"},
    ],
}
_BASE: dict[str, Any] = {
    "schema": "hawkeye.job/1",
    "name": "mine",
    "has_reference": False,
    "needs_jax_conversion": False,
    "sizes": {"full": {"ROWS": 64}, "check": {"ROWS": 8}},
}
JOBS: dict[str, dict[str, Any]] = {
    "jax": {**_BASE, "input": {"type": "jax", "path": "jax.py"}},
    "pytorch": {
        **_BASE,
        "input": {"type": "pytorch", "path": "torch_module.py"},
        "needs_jax_conversion": True,
        "conversion": {"method": "torchax"},
    },
    "cuda": {
        **_BASE,
        "input": {"type": "cuda", "path": "kernel.cu", "specification": SPECIFICATION},
        "needs_jax_conversion": True,
        "conversion": {"method": "port", "port": "port.py"},
    },
    "specification": {
        **_BASE,
        "input": {"type": "specification", "specification": {**SPECIFICATION, "reference_formula": "2 * x"}},
    },
}


def changed(job: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with dotted fields set, or removed; numbers in a dotted name are places in a list."""
    job = copy.deepcopy(job)
    for field, value in changes.items():
        *way, last = field.split(".")
        at: Any = job
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        if value is REMOVED:
            del at[last]
        elif isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return job


def write(folder: Path, job: Any) -> Path:
    """A job file with all files of FILES beside it."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path
