"""From a file to its facts, whatever its language."""

from pathlib import Path

from hawkeye_mcp.intake.references import cuda_facts, python_kernels, python_tree, text
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Facts, Language
from hawkeye_mcp.intake.references.text import ReferenceUnreadable


def facts(path: Path) -> Facts:
    """The facts of one reference; without kernels if it has none.

    Raises:
        ReferenceUnreadable: no facts can be had of it.
    """
    source = text.read(path)
    try:
        found = _python(path, source) if path.suffix == ".py" else _cuda(path, source)
    except ReferenceUnreadable as error:
        raise ReferenceUnreadable(error.kind, f"{path}: {error}") from None
    return found


def _cuda(path: Path, source: str) -> Facts:
    found = Found()
    cuda = cuda_facts.read(source, found)
    return _facts(path, source, ["cuda"] if cuda.kernels or cuda.launches else [], cuda, found, [])


def _python(path: Path, source: str) -> Facts:
    python, found = python_tree.parse(source), Found()
    every = cuda_facts.Cuda(constants=python_tree.constants(python))
    languages: list[Language] = []
    notes = []
    for code, line, exact in python_tree.cuda_texts(python):
        cuda = cuda_facts.read(code, found, line)
        every.add(cuda)
        if cuda.kernels and "python_with_cuda" not in languages:
            languages.append("python_with_cuda")
        if not exact:
            notes.append(f"The CUDA text at line {line} is written with escapes: its lines are counted from there.")
    kernels = python_kernels.read(python, found)
    languages += sorted({kernel.language for kernel in kernels.kernels if kernel.language != "cuda"})
    every.add(cuda_facts.Cuda(kernels.kernels, kernels.launches, [], kernels.memory))
    if "triton" in languages:
        notes.append("Triton gives shared memory and registers to a kernel by itself: the text does not say which.")
    return _facts(path, source, languages, every, found, notes)


def _facts(
    path: Path, source: str, languages: list[Language], cuda: cuda_facts.Cuda, found: Found, notes: list[str]
) -> Facts:
    return Facts(
        path=str(path),
        languages=languages,
        bytes=len(source.encode("utf-8", "replace")),
        lines=len(source.splitlines()),
        kernels=cuda.kernels,
        launches=cuda.launches,
        constants=cuda.constants,
        memory=cuda.memory,
        matrix_unit=found.matrix,
        mechanisms=found.mechanisms(),
        notes=notes,
    )
