"""The signature that a job's workload will have: inputs first, then parameters."""

from pathlib import Path

from hawkeye_mcp.intake import python_source
from hawkeye_mcp.intake.job import Job, Specification
from hawkeye_mcp.intake.parsing import NotPython


def arguments(specification: Specification) -> list[str]:
    """Names of what goes in, in the order of the workload's arguments."""
    tensors = specification.tensors
    return [t.name for role in ("input", "parameter") for t in tensors if t.role == role]


def of(job: Job) -> tuple[str | None, str]:
    """The signature as Python says it, and where it is from; or None, and why it is not known."""
    if job.needs_approval and job.input.specification:
        return f"workload({', '.join(arguments(job.input.specification))})", "from the specification's tensors"
    if job.input.type == "pytorch":
        return (
            None,
            "The names of a module's parameters are known once it has been run: hawkeye job plan JOB.json --capture",
        )
    try:
        found = python_source.read(Path(job.input.path or "").read_text(encoding="utf-8"))
    except (OSError, ValueError, NotPython) as error:
        return None, f"{job.input.path} cannot be read: {error}."
    if job.input.entry not in found.functions:
        return None, f"{job.input.path} defines no function {job.input.entry} with `def` at its top level."
    return f"workload({', '.join(found.functions[job.input.entry])})", f"from {job.input.entry} in {job.input.path}"
