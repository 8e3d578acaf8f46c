"""From a heap of files to a proposal of what each is for: the program, and references to it.

The proposal rests on lines of the files, which it names. Where two files might be the program it says so and proposes none.
"""

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import workloads
from hawkeye_mcp.intake import rules
from hawkeye_mcp.intake.inside.source import numbers
from hawkeye_mcp.intake.job import SCHEMA
from hawkeye_mcp.intake.language import INPUTS, Source, look
from hawkeye_mcp.intake.parsing import parse

SUFFIXES = (".py", ".cu", ".cuh", ".cc", ".cpp", ".h", ".hpp")
SKIPPED = frozenset({"__pycache__", "build", "dist", "node_modules", "venv", "site-packages"})
MOST_FILES = 500
_REFERENCE: dict[str, str] = {"pytorch_with_inline_cuda": "cuda"} | {
    language: language for language in ("cuda", "triton", "pallas", "jax", "pytorch")
}


class TooMany(ValueError):
    """There are more files than anyone meant."""


class Role(Source):
    role: Literal["primary", "reference", "none"]
    why: str = Field(description="Why it has this role.")


class Classification(BaseModel):
    """A proposal."""

    model_config = ConfigDict(frozen=True)

    files: tuple[Role, ...]
    primary: str | None = Field(description="The program. Null: none, or it cannot be told which.")
    references: tuple[str, ...] = ()
    ambiguity: str | None = Field(None, description="Why there is no primary.")
    job: dict[str, Any] | None = Field(None, description="A valid job file, its paths as seen from where it is to lie.")
    lacking: tuple[str, ...] = Field((), description="Why there is no job file although there is a primary.")

    @property
    def exit_code(self) -> int:
        """0 one primary, 3 none or several, 4 nothing that can be read."""
        if all(file.language == "unreadable" for file in self.files):
            return 4
        return 0 if self.primary else 3


def classify(paths: Sequence[Path], folder: Path) -> Classification:
    """Look at files, and at what is in folders.

    folder: where the job file is to lie, from which its paths are seen.

    Raises:
        TooMany: more than MOST_FILES files.
    """
    found = [look(path) for path in files(paths)]
    chosen, ambiguity = _primary(found)
    roles = tuple(_role(source, chosen, ambiguity) for source in found)
    references = [role for role in roles if role.role == "reference"] if chosen else []
    job, lacking = _job(chosen, references, folder) if chosen else (None, ())
    return Classification(
        files=roles,
        primary=chosen.path if chosen else None,
        references=tuple(reference.path for reference in references),
        ambiguity=ambiguity,
        job=job,
        lacking=lacking,
    )


def files(paths: Sequence[Path]) -> list[Path]:
    """The files meant, each once: those named, and in folders those that might be sources.

    Raises:
        TooMany: more than MOST_FILES.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for each in _under(path) if path.is_dir() else [path]:
            found.setdefault(each.resolve(), each)
            if len(found) > MOST_FILES:
                raise TooMany(f"There are more than {MOST_FILES} files. Name the few that matter.")
    return list(found.values())


def _under(folder: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        yield from (Path(at) / name for name in sorted(names) if name.endswith(SUFFIXES))


def _primary(found: list[Source]) -> tuple[Source | None, str | None]:
    """The program, or why it cannot be told."""
    programs = [source for source in found if source.language in ("pytorch", "jax") and source.entry_points]
    complete = [source for source in programs if source.gives_inputs]
    kernels = [source for source in found if source.language in ("cuda", "pytorch_with_inline_cuda")]
    candidates = complete or programs or kernels
    if not found:
        return None, f"There is no source file: none ends in {', '.join(SUFFIXES)}."
    if not candidates:
        return None, "No file holds a program that could be brought: a PyTorch module, a JAX function or a CUDA kernel."
    if len(candidates) > 1:
        told = "; ".join(f"{source.path} ({_offers(source)})" for source in candidates)
        return (
            None,
            f"Any of {len(candidates)} files might be the program: {told}. Name the one that is, and its references.",
        )
    (only,) = candidates
    if only.language in ("pytorch", "jax") and only.entry_point is None:
        told = ", ".join(f"{entry.what} (line {entry.line})" for entry in only.entry_points)
        return (
            None,
            f"In {only.path} any of {told} might be the entry point. Say which as input.entry_point of a job file.",
        )
    return only, None


def _offers(source: Source) -> str:
    what = ", ".join(f"{entry.what}, line {entry.line}" for entry in source.entry_points)
    return f"{source.language}: {what or 'no entry point'}{', and ' + INPUTS if source.gives_inputs else ''}"


def _role(source: Source, primary: Source | None, ambiguity: str | None) -> Role:
    role: Literal["primary", "reference", "none"]
    if source is primary:
        role, why = "primary", f"It is the only one that offers a program ({_offers(source)})."
        if not source.gives_inputs:
            why = f"Nothing else could be the program ({_offers(source)})."
    elif source.language in _REFERENCE and primary:
        role, why = "reference", f"It is {_REFERENCE[source.language]}, and not the program."
        if source.language == "jax" and "workload" in [entry.what for entry in source.entry_points]:
            why += " If it is a port of the program, name it as conversion.port instead."
    else:
        role, why = "none", source.note or (ambiguity and "Which file is the program cannot be told.") or ""
    return Role(**dict(source), role=role, why=why)


def _job(primary: Source, references: list[Role], folder: Path) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """A job file for what was found, or what keeps it from being valid."""
    if primary.language not in ("pytorch", "jax"):
        return None, (
            "CUDA does not say what shapes it is called with: a job needs input.specification, and conversion.port.",
        )
    if not primary.gives_inputs:
        return None, (f"{primary.path} defines no {INPUTS}(), which returns the inputs as a list. Add it.",)
    torch = primary.language == "pytorch"
    job: dict[str, Any] = {
        "schema": SCHEMA,
        "name": _name(Path(primary.path)),
        "input": {
            "type": primary.language,
            "path": str(Path(primary.path).absolute()),
            "entry_point": primary.entry_point,
        },
        "has_reference": bool(references),
        "references": [
            {"type": _REFERENCE[reference.language], "path": str(Path(reference.path).absolute())}
            for reference in references
        ],
        "needs_jax_conversion": torch,
        "conversion": {"method": "torchax" if torch else "none"},
        "sizes": {"full": _integers(Path(primary.path))},
    }
    report, _ = rules.examine(job, folder / "job.json")
    if not report.valid:
        return None, tuple(f"{error.message} {error.fix}" for error in report.errors)
    for part in (job["input"], *job["references"]):  # only now: the folder may still have to be made
        part["path"] = os.path.relpath(part["path"], folder.absolute())
    return job, ()


def _name(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem).strip("_-")[:80] or "brought"
    return f"{name}_brought" if name in workloads.names() else name


def _integers(path: Path) -> dict[str, int]:
    """Integers at the top level of the file: what a size may replace, with the values that it has."""
    tree = parse(path.read_text(encoding="utf-8"))
    assert isinstance(tree, ast.Module)
    return {
        name: value.value
        for name, value in numbers(tree).items()
        if isinstance(value, ast.Constant) and isinstance(value.value, int) and not isinstance(value.value, bool)
    }
