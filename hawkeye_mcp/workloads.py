"""Workload folders: what each one declares, without importing jax."""

import difflib
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import content

Size = Literal["full", "check"]


class UnknownWorkload(ValueError):
    """No such workload; the message names the nearest ones."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Array(_Table):
    """An input or output; each dimension is a number or the name of one in the size."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    what: str = ""


class Tolerance(_Table):
    metric: Literal["E", "R"]
    limit: float
    rtol: float = 0.01
    atol: float = 0.01
    axis: int = Field(0, description="Axis over which E takes the mean of the oracle's output.")
    reason: str


class Baseline(_Table):
    """How the XLA baseline is predicted: profiled at two values of one dimension along which its cost is linear."""

    axis: str
    at: tuple[int, int]
    reason: str = ""


class Outside(_Table):
    """Heavy operations (stablehlo names) that may stay outside Pallas."""

    allow: tuple[str, ...] = ()
    reason: str = ""


class Workload(_Table):
    name: str
    family: str
    summary: str = Field(description="One line: what it computes.")
    source: str
    changed: str = Field("", description="What differs from upstream, and why.")
    sizes: dict[Size, dict[str, int]]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    flops: float = Field(description="Useful floating-point operations at full size.")
    flops_formula: str
    least_flops: float | None = Field(None, description="What no correct kernel can do without, if less than flops.")
    least_bytes: float = Field(description="Bytes of inputs and outputs, each once, at full size, less unread_bytes.")
    unread_bytes: float = Field(0, description="Bytes of inputs that a correct kernel may leave unread at full size.")
    algebraic: str = Field("", description="Work that a kernel may save by algebra; a speedup from it must say so.")
    no_power: str = Field("", description="Why no inputs can tell a wrong kernel; such a workload is in no aggregate.")
    tolerance: Tolerance
    baseline: Baseline
    outside: Outside = Outside()
    folder: Path

    def shapes(self, arrays: tuple[Array, ...], size: Size) -> list[tuple[tuple[int, ...], str]]:
        """(shape, dtype) of the given inputs or outputs at one size."""
        dims = self.sizes[size]
        return [(tuple(dims[d] if isinstance(d, str) else d for d in array.shape), array.dtype) for array in arrays]

    def code(self) -> str:
        return (self.folder / "workload.py").read_text(encoding="utf-8")


def names() -> list[str]:
    """All workload names, in numeric order."""
    found = [path.parent.name for path in content.folder("workloads").glob("*/workload.toml")]
    return sorted(found, key=lambda name: (int("".join(c for c in name.split("_")[0] if c.isdigit()) or 0), name))


@cache
def load(name: str) -> Workload:
    """One workload's declaration.

    Raises:
        UnknownWorkload: with the nearest names.
    """
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3) or known[:3]
        raise UnknownWorkload(f"There is no workload {name!r}. Nearest: {', '.join(near)}. All: {', '.join(known)}.")
    folder = content.folder("workloads") / name
    with (folder / "workload.toml").open("rb") as file:
        return Workload(name=name, folder=folder, **tomllib.load(file))


def statement(workload: Workload) -> str:
    """The problem as an agent reads it: what to compute, on what shapes, how it is judged."""
    lines = [f"# {workload.name}", "", workload.summary, "", "## Signature"]
    lines.append(f"def workload({', '.join(array.name for array in workload.inputs)})")
    for kind, arrays in (("inputs", workload.inputs), ("outputs", workload.outputs)):
        lines += ["", f"## {kind.capitalize()} (full size; check size)"]
        for array, (full, dtype), (check, _) in zip(
            arrays, workload.shapes(arrays, "full"), workload.shapes(arrays, "check"), strict=True
        ):
            lines.append(f"- {array.name}: {dtype} {list(full)}; {list(check)} {array.what}".rstrip())
    lines += [
        "",
        "## How it is judged",
        "Define workload(...) with this signature in one Python file, computing with Pallas TPU kernels; read sizes from the",
        "arguments' shapes. It is traced at both sizes, verified at the check size against a high-precision oracle on fresh",
        f"secret inputs (gate: {workload.tolerance.metric} <= {workload.tolerance.limit}), and timed at the full size.",
        f"Work: {workload.flops:.4g} FLOP ({workload.flops_formula}), at least {workload.least_bytes:.4g} bytes of HBM traffic.",
    ]
    if workload.outside.allow:
        lines.append(f"May stay outside Pallas: {', '.join(workload.outside.allow)} ({workload.outside.reason})")
    else:
        lines.append("Matrix multiplications and convolutions outside Pallas are rejected.")
    lines += ["", "## Reference (plain JAX, this is the baseline)", "```python", _reference(workload), "```"]
    return "\n".join(lines)


def _reference(workload: Workload) -> str:
    """The source of `workload` and what it uses; the draw of the inputs and the oracle stay with the judge."""
    import ast

    code = workload.code()
    hidden = {"create_inputs", "oracle"}
    keep = [
        ast.get_source_segment(code, node) or ""
        for node in ast.parse(code).body
        if not (isinstance(node, ast.FunctionDef) and node.name in hidden)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return "\n\n".join(keep).strip()
