"""Workload folders: what each one declares, without importing jax."""

import difflib
import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hawkeye_mcp import content
from hawkeye_mcp.intake import approval as approvals

Size = Literal["full", "check"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class UnknownWorkload(ValueError):
    """No such workload; the message names the nearest ones."""


class Unapproved(UnknownWorkload):
    """The workload is not scored before a person approves it; the message says why, and how."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            f"Nothing is scored by {folder}: {why}. Its program was made of a description, or of a port that nothing could be "
            "held against, so a person has to say that it computes what is meant. "
            f"Next: hawkeye job approve {folder}"
        )
        self.why = why


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

    @property
    def gate(self) -> str:
        return f"{self.metric} <= {self.limit:g}"


class Baseline(_Table):
    """Two values of one dimension along which the XLA program's cost is linear: where a profile of it is taken."""

    axis: str
    at: tuple[int, int]
    reason: str = ""


class Survives(_Table):
    """Wrong programs that this workload's test cannot tell, and why that is understood; see workload_check.

    mutant: a name that `hawkeye workloads check` prints, or a pattern of names with * and ?.
    """

    mutant: str
    reason: str


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
    baseline: Baseline | None = Field(None, description="Without it, no profile of the XLA program is taken.")
    outside: Outside = Outside()
    survives: tuple[Survives, ...] = ()
    does_not_fit: dict[str, str] = Field({}, description="Chip: the compiler's words on the baseline at full size.")
    approval: Literal["", "required"] = Field(
        "",
        description="required: its program was made of a description, so nothing is scored before a person approves.",
    )
    folder: Path

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        """Every dimension that an array names has a length at every size."""
        if set(self.sizes) != set(get_args(Size)) or self.sizes["full"].keys() != self.sizes["check"].keys():
            raise ValueError("[sizes] needs full and check, with the same dimensions")
        for size, dims in self.sizes.items():
            if wrong := sorted(name for name, length in dims.items() if not 0 < length < 2**63):
                raise ValueError(f"[sizes] {size}: the length of {', '.join(wrong)} must be positive")
            for array in (*self.inputs, *self.outputs):
                if wrong := [str(dim) for dim in array.shape if (dim not in dims if isinstance(dim, str) else dim < 1)]:
                    raise ValueError(
                        f"{array.name}: {', '.join(wrong)} is no dimension of [sizes] {size}, nor a length"
                    )
        return self

    def shapes(self, arrays: tuple[Array, ...], size: Size) -> list[tuple[tuple[int, ...], str]]:
        """(shape, dtype) of the given inputs or outputs at one size."""
        dims = self.sizes[size]
        return [(tuple(dims[d] if isinstance(d, str) else d for d in array.shape), array.dtype) for array in arrays]

    @property
    def reference(self) -> str:
        """What `find` finds it by, in any process: its name, or its folder's path if it is not shipped."""
        return self.name if self.shipped else str(self.folder)

    @property
    def shipped(self) -> bool:
        return self.folder == _shipped(self.name)

    @property
    def unapproved(self) -> str:
        """Why nothing may be scored by it as its text stands; empty if it may."""
        return (approvals.missing(self.folder) or "") if self.approval else ""

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
    with (_shipped(name) / "workload.toml").open("rb") as file:
        return Workload(name=name, folder=_shipped(name), **tomllib.load(file))


def find(reference: str) -> Workload:
    """A shipped workload by its name, or any other by the path of its folder: something with a slash in it.

    Only for what a person or this package itself names: a path that an agent chose must not come here.

    Raises:
        UnknownWorkload: no such name, or a folder that is no workload; the message says what is wrong with it.
    """
    if "/" not in reference:
        if reference not in names() and (Path(reference) / "workload.toml").is_file():
            raise UnknownWorkload(
                f"There is no workload {reference!r} here; for the folder of that name say ./{reference}/."
            )
        return load(reference)
    folder = Path(reference).resolve()
    if folder == _shipped(folder.name):
        return load(folder.name)
    check_name(folder.name)
    if missing := [name for name in ("workload.toml", "workload.py") if not (folder / name).is_file()]:
        raise UnknownWorkload(
            f"{folder} is no workload: it has no {' and no '.join(missing)}. `hawkeye workloads new NAME` writes one."
        )
    try:
        return Workload(name=folder.name, folder=folder, **tomllib.loads((folder / "workload.toml").read_text("utf-8")))
    except ValidationError as error:
        wrong = "; ".join(": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"]))) for e in error.errors())
        raise UnknownWorkload(f"{folder / 'workload.toml'} is not a workload's declaration: {wrong}.") from None
    except (ValueError, RecursionError, OSError, TypeError) as error:
        raise UnknownWorkload(f"{folder / 'workload.toml'} cannot be read: {error}. Mend the file.") from None


def find_to_score(reference: str) -> Workload:
    """What `find` finds, if kernels may be scored by it.

    Raises:
        UnknownWorkload: as `find`; Unapproved: a person has to approve it first.
    """
    found = find(reference)
    refuse_unapproved(found)
    return found


def refuse_unapproved(workload: Workload) -> None:
    """Raises Unapproved: a person has to approve the workload before anything is scored by it."""
    if why := workload.unapproved:
        raise Unapproved(workload.folder, why)


def check_name(name: str) -> None:
    """Raises UnknownWorkload if a workload that is not shipped cannot have this name."""
    if name in names():
        raise UnknownWorkload(f"{name} is the name of a workload that is shipped: choose another.")
    if not _NAME.fullmatch(name):
        raise UnknownWorkload(f"{name!r} is no name for a workload: use letters, digits, _ and - only.")


def _shipped(name: str) -> Path:
    return content.folder("workloads") / name


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
    lines += ["", "## Reference (plain JAX, this is the baseline)", "```python", _reference(workload.code()), "```"]
    return "\n".join(lines)


@lru_cache(maxsize=256)
def _reference(code: str) -> str:
    """Of a workload's code `workload` and what it uses; the draw of the inputs and the oracle stay with the judge."""
    import ast

    hidden = {"create_inputs", "oracle"}
    keep = [
        ast.get_source_segment(code, node) or ""
        for node in ast.parse(code).body
        if not (isinstance(node, ast.FunctionDef) and node.name in hidden)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return "\n\n".join(keep).strip()
