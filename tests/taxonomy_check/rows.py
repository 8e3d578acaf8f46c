"""A row of a taxonomy in a folder of its own, for tests."""

from pathlib import Path
from typing import Any

import pytest

from hawkeye_mcp import content

FACTS = {"v5e": {"name": "v5e", "mxu_side": 128}, "7x": {"name": "7x", "mxu_side": 256}}

CELL = """\
title = "Copy in large blocks"
one_line = "When steps are short, make blocks larger."
second = { M = 32 }

[params]
block = 8

[[counters]]
name = "grid_steps"
direction = "down"
least_ratio = 4

[v5e]
predicted_speedup = [2, 4]
[v5p]
predicted_speedup = [2, 4]
[v6e]
predicted_speedup = [0.97, 1.03]
applies = false
["7x"]
predicted_speedup = [3, 5]
params = { block = 16 }
[["7x".counters]]
name = "dma_starts"
direction = "up"
least_ratio = 2
"""

TOML = """\
family = "elementwise"
summary = "2 x."
source = "written here"
flops = 1024
flops_formula = "M*128"
least_bytes = 8192

[sizes]
full = { M = 64 }
check = { M = 16 }

[[inputs]]
name = "x"
shape = ["M", 128]
dtype = "float32"

[[outputs]]
name = "out"
shape = ["M", 128]
dtype = "float32"

[tolerance]
metric = "R"
limit = 0.001
reason = "exact"

[baseline]
axis = "M"
at = [16, 32]
"""

PYTHON = """\
import jax


def create_inputs(key, size):
    return (jax.random.normal(key, (size["M"], 128)),)


def workload(x):
    return 2 * x


def oracle(x):
    return 2 * x
"""

KERNEL = """\
import jax
from jax.experimental import pallas as pl

BLOCK = {{ BLOCK }}


def _body(x_ref, out_ref):
    out_ref[...] = {{ EXPRESSION }} * x_ref[...]


def kernel(x):
    spec = pl.BlockSpec((BLOCK, 128), lambda i: (i, 0))
    return pl.pallas_call(
        _body,
        grid=(x.shape[0] // BLOCK,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)
"""


def taxonomy_of(root: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> Path:
    """One row, 01_copy, as the whole taxonomy. texts: of files of its source instead of the usual ones."""
    files = {
        "cell.toml": CELL,
        "workload.toml": TOML,
        "workload.py": PYTHON,
        "naive_kernel.py.j2": KERNEL.replace("{{ BLOCK }}", "8").replace("{{ EXPRESSION }}", "2"),
        "optimized_kernel.py.j2": KERNEL.replace("{{ BLOCK }}", "{{ block }}").replace("{{ EXPRESSION }}", "2"),
        "guide.md.j2": "# 01 Copy ({{ tpu }})\n\nAn MXU here has a side of {{ chip.mxu_side }}.\n",
    }
    assert not set(texts) - set(files)
    folder = root / "taxonomy" / "source" / "01_copy"
    folder.mkdir(parents=True)
    for name, text in (files | texts).items():
        (folder / name).write_text(text)
    elsewhere: Any = content.folder
    monkeypatch.setattr(content, "folder", lambda name: root / name if name == "taxonomy" else elsewhere(name))
    return root / "taxonomy"
