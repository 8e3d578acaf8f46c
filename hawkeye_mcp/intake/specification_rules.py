"""The rules about specifications, part of the table in `rules`."""

import keyword
from collections import Counter
from typing import Any

from hawkeye_mcp.intake import formula
from hawkeye_mcp.intake.declared import Declared
from hawkeye_mcp.intake.rule import Rule, is_length

SPECIFICATION = "input.specification"
TENSORS, FORMULA, BASELINE = (
    f"{SPECIFICATION}.tensors",
    f"{SPECIFICATION}.reference_formula",
    f"{SPECIFICATION}.baseline",
)
_TAKEN = {"jax", "jnp", "lax", "workload", "get_inputs"}


def _is(kind: str, job: Declared) -> bool:
    return bool(job("input.type") == kind)


def _repeated(names: list[str]) -> str:
    return ", ".join(name for name, count in Counter(names).items() if count > 1)


def _tensors(job: Declared, *roles: str) -> list[dict[str, Any]]:
    return [tensor for tensor in job(TENSORS) or () if tensor["role"] in roles]


def _sized(job: Declared) -> dict[str, Any]:
    """Names that a shape may have, with their values at full and at check, where that is the one at full unless it differs."""
    sizes = job("sizes") or {}
    full = (job(f"{SPECIFICATION}.constants") or {}) | sizes.get("full", {})
    check = full | sizes.get("check", {})
    return {name: (full.get(name), check[name]) for name in check}


def _lengthless(job: Declared) -> str:
    known = _sized(job)
    names = {dim for tensor in job(TENSORS) or () for dim in tensor["shape"] if isinstance(dim, str)}
    return ", ".join(sorted(name for name in names if not all(map(is_length, known.get(name, (None,))))))


def _names(job: Declared) -> list[str]:
    tensors = [tensor["name"] for tensor in job(TENSORS) or ()]
    return tensors + list(_sized(job))


def _unusable(job: Declared) -> str:
    return ", ".join(sorted(name for name in {*_names(job)} if keyword.iskeyword(name) or name in _TAKEN))


def _wrong_in_formula(job: Declared) -> str:
    text = job(FORMULA)
    if not text or any(job.faulty(field) for field in (TENSORS, "sizes", f"{SPECIFICATION}.constants")):
        return ""
    given = [tensor["name"] for tensor in _tensors(job, "input", "parameter")]
    if found := formula.problems(text, frozenset(given) | frozenset(_sized(job))):
        return "; ".join(found)
    wanted, got = len(_tensors(job, "output")), formula.results(text)
    return f"it has {got} results, and {wanted} outputs are declared" if got not in (wanted, None) and wanted else ""


def _unused(job: Declared) -> str:
    text = job(FORMULA)
    if not text or job.faulty(TENSORS) or _wrong_in_formula(job):
        return ""
    return ", ".join(t["name"] for t in _tensors(job, "input", "parameter") if t["name"] not in formula.used(text))


def _sizes_of_nothing(job: Declared) -> str:
    """Sizes that neither a shape nor the formula names; a JAX file may have constants that only it knows."""
    text = job(FORMULA)
    if not text or job(BASELINE) or job.faulty(TENSORS) or _wrong_in_formula(job):
        return ""
    dims = {dim for tensor in job(TENSORS) or () for dim in tensor["shape"] if isinstance(dim, str)}
    given = {name for names in (job("sizes") or {}).values() for name in names}
    return ", ".join(sorted(given - dims - formula.used(text)))


def _integers(job: Declared) -> str:
    if job.faulty(TENSORS) or job(BASELINE):
        return ""
    return ", ".join(t["name"] for t in _tensors(job, "input", "parameter") if "int" in t["dtype"])


RULES = (
    # The specification
    Rule(
        SPECIFICATION,
        lambda job: job(SPECIFICATION) is None and job("input.type") in ("specification", "cuda"),
        "input.specification is missing: nothing else says what arrays go in and come out.",
        "Add it, with description and tensors.",
    ),
    Rule(
        SPECIFICATION,
        lambda job: isinstance(job(SPECIFICATION), dict) and job("input.type") in ("jax", "pytorch"),
        "input.specification is given, and the program itself says what it computes: it would be ignored.",
        'Remove it, or set input.type to "specification".',
    ),
    Rule(
        FORMULA,
        lambda job: (
            _is("specification", job)
            and isinstance(job(SPECIFICATION), dict)
            and job(FORMULA) is None
            and job(BASELINE) is None
        ),
        "The specification has neither reference_formula nor baseline: there is nothing to compute with.",
        "Give the formula as a JAX expression, or name a JAX file as input.specification.baseline.",
    ),
    Rule(
        BASELINE,
        lambda job: isinstance(job(FORMULA), str) and isinstance(job(BASELINE), str) and _is("specification", job),
        "The specification has a reference_formula and a baseline, and which of them is meant cannot be told.",
        "Remove one of them.",
    ),
    Rule(
        SPECIFICATION,
        lambda job: _is("cuda", job) and (isinstance(job(FORMULA), str) or isinstance(job(BASELINE), str)),
        "For cuda the JAX program is conversion.port: a reference_formula or baseline would be ignored.",
        "Remove input.specification.reference_formula and input.specification.baseline.",
    ),
    Rule(
        TENSORS,
        lambda job: bool(job(TENSORS)) and not _tensors(job, "input"),
        "No tensor is an input.",
        'Give one the role "input".',
    ),
    Rule(
        TENSORS,
        lambda job: bool(job(TENSORS)) and not _tensors(job, "output"),
        "No tensor is an output.",
        'Give one the role "output".',
    ),
    Rule(
        TENSORS,
        lambda job: _repeated([tensor["name"] for tensor in job(TENSORS) or ()]),
        "Two tensors are called {}.",
        "Give each a name of its own.",
    ),
    Rule(
        TENSORS,
        lambda job: ", ".join(sorted({tensor["name"] for tensor in job(TENSORS) or ()} & set(_sized(job)))),
        "{} is a tensor and also a constant or a size.",
        "Give each a name of its own.",
    ),
    Rule(
        TENSORS,
        lambda job: "" if job.faulty("sizes") or job.faulty(f"{SPECIFICATION}.constants") else _lengthless(job),
        "Shapes name {}, which is no positive integer at both sizes.",
        "Give it a length in sizes.full and sizes.check, or in input.specification.constants.",
    ),
    Rule(
        SPECIFICATION,
        lambda job: _unusable(job) if job(SPECIFICATION) else "",
        "{} cannot be a name in a Python program that imports jax.",
        "Choose another name.",
    ),
    Rule(
        FORMULA,
        _wrong_in_formula,
        "The reference_formula is not one: {}.",
        "Write one JAX expression over the names of the tensors that go in, the constants and the sizes.",
    ),
    Rule(
        "sizes",
        _sizes_of_nothing,
        "sizes gives a value to {}, which no shape and no formula names.",
        "Remove it, or name it in a tensor's shape.",
    ),
    Rule(
        FORMULA,
        _unused,
        "The formula does not use {}.",
        "Use it, or remove the tensor.",
        warning=True,
    ),
    Rule(
        TENSORS,
        _integers,
        "What the integers of {} mean is not said: they are drawn as 0 or 1.",
        "If they are indices or lengths, name a baseline that defines get_inputs().",
        warning=True,
    ),
)
