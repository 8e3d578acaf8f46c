"""What fields of a job file contradict each other: one table, which is the check and its documentation.

A job declares some things twice, on purpose: where the two differ, one of them is a slip, and to guess which one would
be to import something else than was meant. So each such pair is an error that names the field and the way out.
"""

import json
import keyword
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hawkeye_mcp.intake import files, reading, specification_rules
from hawkeye_mcp.intake.declared import Declared, faults
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.plan import plan
from hawkeye_mcp.intake.report import InvalidJob, Problem, Report
from hawkeye_mcp.intake.rule import Rule, is_length

LOOSE = 0.5


def check(path: Path) -> Report:
    """Everything that is wrong with a job file, at once. Nothing that it names is run."""
    return read(path)[0]


def load(path: Path) -> Job:
    """The job of a valid file, its paths absolute.

    Raises:
        InvalidJob: it has errors, or names files that are not there.
    """
    report, job = read(path)
    if job is None or not report.valid:
        raise InvalidJob(report)
    return job


def load_program(path: Path) -> Job:
    """As `load`, where of all files only the program's own has to be there: its port may be written later.

    Raises:
        InvalidJob.
    """
    report, job = read(path)
    if job is None or any(missing.field == "input.path" for missing in report.missing_paths):
        raise InvalidJob(report)
    return job


def read(path: Path) -> tuple[Report, Job | None]:
    """The report on a job file, and the job, its paths absolute, unless it has errors; files may be missing."""
    try:
        raw = reading.read(path)
    except reading.UnreadableJob as error:
        problem = Problem(field="", message=f"{path}: {error.message}", fix=error.fix)
        return Report(job=str(path), valid=False, errors=(problem,)), None
    return examine(raw, path)


def examine(raw: dict[str, Any], path: Path) -> tuple[Report, Job | None]:
    """The report on what a job file at `path` holds or would hold, and the job, its paths absolute, unless it has errors."""
    folder, job = path.absolute().parent, None
    single = {}
    try:
        job = Job.model_validate_json(json.dumps(raw)).resolved(folder)
    except ValidationError as error:
        single = faults(error, raw)
    declared = Declared(raw, list(single))
    broken = [(rule, found) for rule in RULES if (found := rule.broken(declared))]
    errors = [each for rule, each in broken if not rule.warning]
    told = {each.field for each in errors}
    absent, unusable = files.missing(declared.paths(), folder)
    errors = [each for each in single.values() if each.field not in told] + errors + unusable
    if job and not errors:
        errors = files.problems(job)
    report = Report(
        job=str(path),
        valid=not errors and not absent,
        errors=tuple(errors),
        warnings=tuple(each for rule, each in broken if rule.warning),
        missing_paths=tuple(absent),
        plan=plan(job) if job and not errors else None,
    )
    return report, job if not errors else None


def _is(kind: str, job: Declared) -> bool:
    return bool(job("input.type") == kind)


def _converted(job: Declared) -> bool:
    """Whether the input is of a type that has to be converted to JAX."""
    return job("input.type") in ("pytorch", "cuda")


def _larger(job: Declared) -> str:
    sizes = job("sizes") or {}
    full, check = sizes.get("full", {}), sizes.get("check", {})
    return ", ".join(name for name in full if name in check and _bigger(check[name], full[name]))


def _bigger(one: Any, other: Any) -> bool:
    return is_length(one) and is_length(other) and one > other


def _as_large(full: dict[str, Any] | None = None, check: dict[str, Any] | None = None) -> bool:
    """Whether nothing is smaller at check; what is not named stays as it is in the file, which is not looked into."""
    if check is None:
        return True
    return all((full or {}).get(name) == value for name, value in check.items()) if check else not full


RULES = (
    # What is declared twice, on purpose
    Rule(
        "has_reference",
        lambda job: job("has_reference") is True and job("references") in ((), []),
        "has_reference is true, and references names none.",
        "Name them in references, or set has_reference to false.",
    ),
    Rule(
        "has_reference",
        lambda job: job("has_reference") is False and bool(job("references")),
        "has_reference is false, and references names some, which would be ignored.",
        "Set has_reference to true, or remove references.",
    ),
    Rule(
        "conversion.method",
        lambda job: job("conversion.method") == "torchax" and _is("cuda", job),
        "torchax converts PyTorch, and the input is CUDA C++.",
        'Set conversion.method to "port", and conversion.port to a JAX file that computes the same.',
    ),
    Rule(
        "needs_jax_conversion",
        lambda job: job("needs_jax_conversion") is False and _converted(job),
        "needs_jax_conversion is false, and the input is not JAX: without a JAX program there is nothing to judge by.",
        'Set needs_jax_conversion to true, and conversion.method to "torchax" (for pytorch) or to "port" (for pytorch and '
        "cuda; conversion.port then names the JAX file).",
    ),
    Rule(
        "conversion.emit_readable_reference",
        lambda job: job.says("conversion.emit_readable_reference"),
        "There is no choice about a readable reference: the converted program is always written out, because everything is "
        "judged by it.",
        "Remove conversion.emit_readable_reference.",
    ),
    Rule(
        "needs_jax_conversion",
        lambda job: job("needs_jax_conversion") is True and _is("jax", job),
        "needs_jax_conversion is true, and the input is JAX: it is its own reference.",
        "Set needs_jax_conversion to false, and remove conversion; or correct input.type.",
    ),
    Rule(
        "evaluation.compare_against_source",
        lambda job: job("evaluation.compare_against_source") is True and _is("cuda", job),
        "compare_against_source is true, and the source is CUDA, which does not run on a TPU or here.",
        "Set evaluation.compare_against_source to false.",
    ),
    Rule(
        "evaluation.compare_against_source",
        lambda job: job("evaluation.compare_against_source") is True and _is("specification", job),
        "compare_against_source is true, and a specification has no source to run.",
        "Set evaluation.compare_against_source to false.",
    ),
    Rule(
        "needs_jax_conversion",
        lambda job: job("needs_jax_conversion") is True and _is("specification", job),
        "needs_jax_conversion is true, and a specification becomes JAX without a conversion.",
        "Set needs_jax_conversion to false, and remove conversion.",
    ),
    Rule(
        "conversion.method",
        lambda job: (
            job("needs_jax_conversion") is False
            and job("conversion.method") in ("torchax", "port")
            and job("input.type") in ("jax", "specification")
        ),
        "conversion.method is given, and needs_jax_conversion is false.",
        'Set conversion.method to "none"; or, if the program is not JAX, correct input.type and needs_jax_conversion.',
    ),
    Rule(
        "conversion.method",
        lambda job: job("needs_jax_conversion") is True and job("conversion.method") == "none" and _converted(job),
        "needs_jax_conversion is true, and conversion.method does not say how.",
        'Set conversion.method to "torchax" (for pytorch) or to "port" (for pytorch and cuda).',
    ),
    Rule(
        "conversion.port",
        lambda job: job("conversion.method") == "port" and job("conversion.port") is None,
        'conversion.method is "port", and conversion.port names no file.',
        "Set conversion.port to the JAX file that defines workload(...); it may be written later.",
    ),
    Rule(
        "conversion.port",
        lambda job: job("conversion.method") in ("torchax", "none") and isinstance(job("conversion.port"), str),
        'conversion.port names a file, and conversion.method is not "port": the file would be ignored.',
        'Set conversion.method to "port", or remove conversion.port.',
    ),
    Rule(
        "conversion.port",
        lambda job: job("conversion.port") is not None and job("conversion.port") == job("input.path"),
        "conversion.port is the input's own file.",
        "Name the JAX file that was written from it.",
    ),
    # The program
    Rule(
        "input.path",
        lambda job: job("input.path") is None and job("input.type") in ("jax", "pytorch", "cuda"),
        "input.path is missing.",
        'Name the source file; or, if there is none, set input.type to "specification".',
    ),
    Rule(
        "input.path",
        lambda job: isinstance(job("input.path"), str) and _is("specification", job),
        "input.path names a file, and a specification has no source.",
        "Remove input.path; a JAX file that computes what is specified is input.specification.baseline.",
    ),
    Rule(
        "input.entry_point",
        lambda job: isinstance(job("input.entry_point"), str) and _is("specification", job),
        "input.entry_point names something in a source, and a specification has none.",
        "Remove input.entry_point; a baseline defines workload(...).",
    ),
    *specification_rules.RULES,
    # Sizes and tolerances
    Rule(
        "sizes",
        lambda job: ", ".join(
            sorted(name for names in (job("sizes") or {}).values() for name in names if keyword.iskeyword(name))
        ),
        "{} is a word of Python's, and no constant's name.",
        "Name constants at the top level of the source file.",
    ),
    Rule(
        "sizes.check",
        _larger,
        "{} is larger at check than at full.",
        "check is for correctness and is run often: make it small.",
        warning=True,
    ),
    Rule(
        "sizes",
        lambda job: not job.faulty("sizes") and _as_large(**(job("sizes") or {})),
        "Nothing is smaller at check than at full: correctness is then checked at full size, which may take long.",
        "Give a constant of the source a smaller value in sizes.check.",
        warning=True,
    ),
    Rule(
        "correctness.atol",
        lambda job: not job.faulty("correctness.atol") and job("correctness.atol") > LOOSE,
        f"An absolute tolerance above {LOOSE} lets wrong results pass.",
        "Say what the program's precision warrants; 0.01 is usual.",
        warning=True,
    ),
    Rule(
        "correctness.rtol",
        lambda job: not job.faulty("correctness.rtol") and job("correctness.rtol") > LOOSE,
        f"A relative tolerance above {LOOSE} lets wrong results pass.",
        "Say what the program's precision warrants; 0.01 is usual.",
        warning=True,
    ),
    Rule(
        "correctness.trials",
        lambda job: job("conversion.method") == "port" and _is("pytorch", job) and job("correctness.trials") == 1,
        "By one set of results, a port that has them written down in it is as good as one that computes them.",
        "Set correctness.trials to 2 or more; 3 is usual.",
        warning=True,
    ),
    Rule(
        "correctness",
        lambda job: (
            job("conversion.method") in ("torchax", "none")
            and job("input.type") in ("jax", "pytorch")
            and (job.says("correctness.atol") or job.says("correctness.rtol"))
        ),
        "atol and rtol are given, and they are of the gate for ports: what holds here follows from the recorded results.",
        "Remove them, or leave them for a later port.",
        warning=True,
    ),
    # What is allowed, and probably not meant
    Rule(
        "evaluation.compare_against_source",
        lambda job: job("evaluation.compare_against_source") is True and _is("jax", job),
        "The source is JAX, so it is the workload's baseline already: nothing more is run.",
        "Set evaluation.compare_against_source to false.",
        warning=True,
    ),
    Rule(
        "references",
        lambda job: ", ".join({reference["path"] for reference in job("references") or ()} & {job("input.path")}),
        "{} is the input, and also a reference to it.",
        "Name another implementation, or set has_reference to false.",
        warning=True,
    ),
)
