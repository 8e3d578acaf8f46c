"""The ideas ledger of a run: what may make its kernels faster, what was tried of it, and what came of that.

Each action is one event of the run, decided on under its lock; `idea` says what is legal. A verdict rests on an
evaluation that the run holds.
"""

from hawkeye_mcp.runs import store
from hawkeye_mcp.runs.idea import (
    TRUSTS,
    Action,
    AlreadyThere,
    BadEvidence,
    Idea,
    Incomplete,
    Ledger,
    LedgerError,
    Proposal,
    Trust,
    check_action,
    check_proposal,
)
from hawkeye_mcp.runs.model import State
from hawkeye_mcp.runs.store import Facts, Run

__all__ = ["AlreadyThere", "BadEvidence", "Idea", "Ledger", "LedgerError", "Proposal", "act", "propose", "trust"]


def propose(run: Run, proposal: Proposal) -> Idea:
    """Put an idea into the ledger.

    Raises:
        LedgerError: see `idea.check_proposal`.
    """

    def decide(state: State) -> tuple[str, Facts]:
        check_proposal(state.ledger, proposal)
        return "idea", {"action": "propose", "id": state.ledger.next_id, **proposal.model_dump()}

    return store.change(run, decide).ideas[-1]


def act(run: Run, idea_id: str, action: Action, *, reason: str = "", evaluation_id: str | None = None) -> Idea:
    """Adopt, confirm, refute or drop an idea.

    evaluation_id: of this run, for confirm and refute. reason: for drop, why; else what there is to say.

    Raises:
        LedgerError: the action is not legal, or a verdict's evidence does not bear it.
    """

    def decide(state: State) -> tuple[str, Facts]:
        check_action(state.ledger, idea_id, action)
        facts = {"action": action, "id": idea_id, "reason": reason}
        if action in ("confirm", "refute"):
            facts["evaluation_id"] = _evidence(run, action, evaluation_id)
        elif evaluation_id:
            raise BadEvidence(f"{action} takes no evaluation: only confirm and refute rest on one.")
        if action == "drop" and not reason.strip():
            raise Incomplete("drop needs a reason: whoever reads the ledger later must know why it was not tried.")
        return "idea", facts

    return store.change(run, decide).ledger.find(idea_id)


def trust(run: Run, reference: str, verdict: Trust, reason: str) -> State:
    """Say how far a reference computes what the workload does; the latest word on a reference holds.

    Raises:
        Incomplete: a field is empty or not one of its values.
    """
    if not reference.strip() or not reason.strip():
        raise Incomplete("trust needs the reference's name and a reason.")
    if verdict not in TRUSTS:
        raise Incomplete(f"{verdict!r} is no trust. It is one of {', '.join(TRUSTS)}.")
    return store.append(run, "trust", reference=reference, trust=verdict, reason=reason)


def _evidence(run: Run, action: Action, evaluation_id: str | None) -> str:
    """The id, if the run holds an evaluation that can bear the verdict."""
    if not evaluation_id:
        raise BadEvidence(f"{action} needs the id of an evaluation of this run that shows it. Evaluate a kernel first.")
    try:
        found = store.evaluation(run, evaluation_id)
    except store.NoEvaluation as error:
        raise BadEvidence(str(error)) from None
    if found.status in ("harness_error", "timeout"):
        raise BadEvidence(
            f"{evaluation_id} ended in {found.status}, which says nothing of the kernel. Evaluate it again."
        )
    if action == "confirm" and found.status != "correct":
        raise BadEvidence(
            f"{evaluation_id} is {found.status}: a kernel that is not correct confirms nothing. Name a correct one, or refute."
        )
    return evaluation_id
