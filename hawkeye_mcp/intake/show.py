"""Job files' reports, plans and proposals as text for people."""

from hawkeye_mcp.intake.classify import Classification
from hawkeye_mcp.intake.plan import Plan
from hawkeye_mcp.intake.report import Problem, Report


def report(found: Report) -> str:
    """What is wrong with a job file; the plan is told by `plan`."""
    state = "valid" if found.valid else "not valid" if found.errors else "valid, but files are missing"
    lines = [f"{found.job}: {state}"]
    lines += _problems("error", found.errors)
    for missing in found.missing_paths:
        lines += [f"  missing  {missing.field}", f"           There is no file {missing.path}."]
        lines += ["           Put it there, or correct the path; a relative one is seen from the job file's folder."]
    lines += _problems("warning", found.warnings)
    return "\n".join(lines)


def _problems(kind: str, problems: tuple[Problem, ...]) -> list[str]:
    lines = []
    for problem in problems:
        lines += [f"  {kind:<8} {problem.field or 'the file'}", f"           {problem.message}"]
        lines += [f"           Fix: {problem.fix}"]
    return lines


def plan(found: Plan) -> str:
    """What an import will do."""
    lines = [f"{found.workload} for {found.tpu}", f"Oracle: {found.oracle}."]
    lines += [f"Signature: {found.signature} ({found.signature_note})" if found.signature else found.signature_note]
    for shape in found.shapes:
        lines += [f"  {shape.name}: {shape.role}, {shape.dtype} {list(shape.full)}, at check size {list(shape.check)}"]
    lines += [f"Executed: {', '.join(found.executes) or 'nothing that you wrote'}"]
    if found.only_read:
        lines += [f"Only read: {', '.join(found.only_read)}"]
    if found.needs_torch:
        missing = (
            f"; not installed here: {', '.join(found.torch_missing)}" if found.torch_missing else ", which is installed"
        )
        lines += [f"Needs: hawkeye-mcp[torch]{missing}"]
    lines += ["", "Steps:"]
    for number, phase in enumerate(found.phases, 1):
        lines += [f"{number:>2}. {phase.name} [{phase.where}]: {phase.does}"]
        if phase.gate:
            lines += [f"    Stops unless {phase.gate}."]
    used = {phase.where for phase in found.phases}
    lines += ["", *(f"[{name}] {what}." for name, what in found.places.items() if name in used)]
    lines += [f"Writes DIR/{found.workload}/: {', '.join(found.writes)}. If a step stops, nothing is written."]
    lines += [f"Budget: {found.budget}."]
    if found.approval:
        lines += [f"Approval: {found.approval}."]
    return "\n".join(lines)


def classification(found: Classification) -> str:
    """What each file is for."""
    lines = []
    for file in found.files:
        lines += [f"{file.path}: {file.language}; {file.role}. {file.why}".rstrip()]
        lines += [f"  line {each.line}: {each.what}" for each in file.evidence]
        lines += [f"  line {each.line}: {each.what} (entry point)" for each in file.entry_points]
    if found.ambiguity:
        lines += ["", found.ambiguity]
    lines += [f"No job file: {reason}" for reason in found.lacking]
    return "\n".join(lines)
