"""The value gate: a port's results against those recorded of the program that it stands for.

Three things came out of the port's sandbox and any may be forged: the exported program, the emitted source and the
structure. Here the first two are run on the same recorded arguments, and the source's structure is taken down anew in a
trusted process; they must all be one program. What is imported later is the emitted source, which the import runs once
more against the recorded results, from the folder as it was written.
"""

from pathlib import Path
from typing import Any, Literal

from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.intake import values
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.compare_structure import compare
from hawkeye_mcp.intake.graph import Graph, read
from hawkeye_mcp.intake.trace_port import PortRefused, Traced, TracedSize
from hawkeye_mcp.intake.values import OutputAgreement
from hawkeye_mcp.judge.workers import WorkerDied, WorkerPool, WorkerTimeout
from hawkeye_mcp.workloads import Size

RUN_S = 300.0
_TRACE_S = 120.0
Status = Literal["agrees", "differs", "failed", "refused"]
_NEXT: dict[Status, str] = {
    "agrees": "Compare structures next: what values cannot show is a constant, an axis or a dtype.",
    "differs": "Mend the first problem, then verify the port again.",
    "failed": "Make the port run on the CPU within its memory and time at the check size, then verify it again.",
    "refused": "Write the port in plain jax.numpy and jax.lax, then verify it again.",
}


class Verified(BaseModel):
    """What the value gate found of a port. agrees: it passed; differs: other results; failed: it does not run; refused:
    its program may not be run here or cannot be imported.
    """

    model_config = ConfigDict(extra="forbid")

    status: Status
    message: str
    next_step: str
    problems: list[str] = []
    outputs: list[OutputAgreement] = []
    trials: int
    atol: float
    rtol: float
    notes: list[str] = []
    isolation: str
    structures: dict[Size, dict[str, Any]] = Field(
        {}, description="Of the emitted source at each size, taken down in a trusted process.", exclude=True
    )

    @property
    def passed(self) -> bool:
        return self.status == "agrees"


async def verify(
    traced: Traced, capture: Capture, folder: Path, *, atol: float, rtol: float, verifiers: WorkerPool
) -> Verified:
    """Run a traced port on what `folder` holds recorded (`capture.json`, `goldens.npz`).

    Raises:
        WorkerError, WorkerUnavailable: the harness is at fault.
    """
    check = traced.sizes["check"]
    found = Verified(
        status="agrees",
        message="",
        next_step="",
        trials=capture.trials,
        atol=atol,
        rtol=rtol,
        isolation=traced.isolation,
    )
    constants = [one.model_dump() for one in check.constants]
    request = {"cpu": check.cpu, "source": check.source, "constants": constants, "atol": atol, "rtol": rtol}
    try:
        reply = await verifiers.call("run_port", RUN_S, folder=str(folder), **request)
    except (WorkerDied, WorkerTimeout) as error:
        return _ended(found, "failed", [f"Running the port ended its process or took too long: {error}"[:1000]])
    for which, what in (("exported", "The port"), ("emitted", "The source emitted from the port")):
        outcome = reply[which]
        if outcome is None:
            continue
        if "refused" in outcome:
            return _ended(found, "refused", [f"{what} is not run: {outcome['refused']}"])
        if "failed" in outcome:
            return _ended(found, "failed", [f"{what} fails when it runs: {outcome['failed']}"])
    found.outputs = [OutputAgreement.model_validate(one) for one in reply["exported"]["outputs"]]
    if problems := [text for one in found.outputs if (text := values.problem(one, atol, rtol))]:
        return _ended(found, "differs", problems)
    if check.not_emittable:
        return _ended(found, "refused", [f"Its results agree, but it cannot be written down: {check.not_emittable}"])
    if not all(one["ok"] for one in reply["emitted"]["outputs"]):
        return _ended(found, "refused", ["Its exported program and its emitted source are different computations."])
    try:
        found.structures = await structures(traced, verifiers)
    except PortRefused as error:
        return _ended(found, "refused", [error.message])
    found.notes, problems = _ignored(capture, found, reply["constant"])
    return _ended(found, "differs" if problems else "agrees", problems)


def _ended(found: Verified, status: Status, problems: list[str]) -> Verified:
    found.status, found.problems, found.next_step = status, problems, _NEXT[status]
    found.message = (
        problems[0]
        if problems
        else (
            f"The port agrees with what was recorded: {len(found.outputs)} output(s), {found.trials} trial(s), "
            f"|difference| <= {found.atol:g} + {found.rtol:g} * |recorded|."
        )
    )
    return found


async def structures(traced: Traced, verifiers: WorkerPool) -> dict[Size, dict[str, Any]]:
    """The structure of the emitted source at each size, taken down in a trusted process.

    Raises:
        PortRefused: it cannot be, or is not what the port's process says it is. WorkerError, WorkerUnavailable.
    """
    found: dict[Size, dict[str, Any]] = {}
    fix = _NEXT["refused"]
    for size, one in traced.sizes.items():
        if one.not_emittable:
            raise PortRefused(f"At {size} size it cannot be written down: {one.not_emittable}", fix)
        reply = await _structure(one, verifiers)
        if "refused" in reply:
            raise PortRefused(f"The source emitted at {size} size is not traced: {reply['refused']}", fix)
        found[size] = reply["structure"]
        comparison = await run_sync(compare, reply["structure"], one.structure)  # seconds, where it is hostile
        if comparison.verdict == "divergent":
            raise PortRefused(f"What the port's process says of its structure at {size} size is not so.", fix)
    return found


async def _structure(one: TracedSize, verifiers: WorkerPool) -> dict[str, Any]:
    constants = [constant.model_dump() for constant in one.constants]
    arguments = [[list(shape), dtype] for shape, dtype in one.arguments]
    try:
        return await verifiers.call(
            "port_structure", _TRACE_S, source=one.source, constants=constants, arguments=arguments
        )
    except (WorkerDied, WorkerTimeout) as error:
        return {"refused": f"{error}"[:500]}


def _ignored(capture: Capture, found: Verified, constant: list[str]) -> tuple[list[str], list[str]]:
    """Notes and problems of arguments that the port does not use. Recorded results tell nothing of one that is the same
    number everywhere, as a bias that was never trained is."""
    of = capture.sizes["check"]
    used = _used(read(found.structures["check"]))
    reference = _used(read(of.structure)) if of.structure else None
    notes, problems = [], []
    for number, array in enumerate(of.arrays):
        if number in used or (reference is not None and number not in reference):
            continue
        if reference is not None:
            problems.append(f"The port ignores {array.name}, which the program uses. Use it.")
        elif array.name in constant:
            problems.append(
                f"The port ignores {array.name}, and every recorded element of it is the same number, so results cannot "
                "show whether it matters. Use it, or give it other values in the source."
            )
        else:
            notes.append(f"The port ignores {array.name}; its results agree all the same.")
    return notes, problems


def _used(graph: Graph) -> set[int]:
    """The arguments on which an output depends."""
    refs = [*graph.outputs, *(ref for node in graph.nodes for ref in node.operands)]
    return {int(ref[1:]) for ref in refs if ref.startswith("a")}
