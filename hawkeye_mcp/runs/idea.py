"""The life of an idea: proposed, adopted, then confirmed, refuted or dropped; what is legal when, and nothing of files.

proposed -> adopted -> confirmed | refuted, and both of the first may be dropped. The last three are final.
"""

import posixpath
import re
import unicodedata
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["ALGORITHMIC", "STRUCTURAL", "NON_PORTABLE"]
Status = Literal["proposed", "adopted", "confirmed", "refuted", "dropped"]
Action = Literal["adopt", "confirm", "refute", "drop"]
Trust = Literal["aligned", "partial", "divergent", "rejected"]

LONGEST_TEXT = 2_000  # characters
_ID = "idea-"
KINDS: tuple[str, ...] = get_args(Kind)
TRUSTS: tuple[str, ...] = get_args(Trust)
LEGAL: dict[Status, dict[Action, Status]] = {
    "proposed": {"adopt": "adopted", "drop": "dropped"},
    "adopted": {"confirm": "confirmed", "refute": "refuted", "drop": "dropped"},
    "confirmed": {},
    "refuted": {},
    "dropped": {},
}


class LedgerError(ValueError):
    """The ledger refuses; the message says why and what is legal."""


class UnknownIdea(LedgerError):
    """There is no idea of that id."""


class IllegalTransition(LedgerError):
    """That action is not legal from the idea's status, or not for an idea of its class."""


class RefutedBefore(LedgerError):
    """The same claim was refuted in this run."""


class AlreadyThere(LedgerError):
    """The same claim is in the ledger and not given up."""


class ReferenceRejected(LedgerError):
    """The idea comes from a reference that is not trusted."""


class BadEvidence(LedgerError):
    """A verdict without an evaluation of this run that can bear it."""


class Incomplete(LedgerError):
    """A field that an idea needs is empty or not one of its values."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=True, serialize_by_alias=True)


class Step(_Strict):
    """One change of an idea's status."""

    time: str
    action: Literal["propose", "adopt", "confirm", "refute", "drop"]
    reason: str = ""
    evaluation_id: str | None = None


class Proposal(_Strict):
    """An idea as it is put forward."""

    claim: str = Field(
        max_length=LONGEST_TEXT, description="What would make the kernel faster, as one statement that can be wrong."
    )
    evidence: str = Field(
        max_length=LONGEST_TEXT,
        description='What suggests it: a file and line ("flash.cu:120"), a finding of a profile.',
    )
    kind: Kind = Field(
        alias="class",
        description="ALGORITHMIC: what is computed; STRUCTURAL: how work and data are arranged; NON_PORTABLE: only the "
        "other hardware has what it needs.",
    )
    mechanism: str = Field("", max_length=LONGEST_TEXT, description="How it saves time where it comes from.")
    tpu_translation: str = Field("", max_length=LONGEST_TEXT, description="What it becomes on a TPU.")
    falsifiable_as: str = Field(
        max_length=LONGEST_TEXT, description="The result of an evaluation or a profile that would refute it."
    )
    reference: str | None = Field(
        None, max_length=LONGEST_TEXT, description="The reference that it comes from; null: from none."
    )


class Idea(Proposal):
    id: str
    status: Status = "proposed"
    history: list[Step] = []

    @property
    def untested(self) -> bool:
        """Whether a test of it is still ahead."""
        return self.status in ("proposed", "adopted") and self.kind != "NON_PORTABLE"


class Trusted(_Strict):
    """How far a reference is trusted: whether it computes what the workload does."""

    reference: str
    trust: Trust
    reason: str
    time: str


class Ledger(BaseModel):
    """Every idea of a run, in the order of proposal, and what is thought of the references."""

    ideas: list[Idea] = []
    trust: list[Trusted] = []

    @property
    def next_id(self) -> str:
        """One above all that there are: a line that was damaged leaves a gap, and the ids after it stay as they are."""
        numbers = [
            int(idea.id.removeprefix(_ID)) for idea in self.ideas if re.fullmatch(rf"{_ID}[0-9]{{1,9}}", idea.id)
        ]
        return f"{_ID}{max(numbers, default=0) + 1}"

    def find(self, idea_id: str) -> Idea:
        """
        Raises:
            UnknownIdea: naming those that there are.
        """
        for idea in self.ideas:
            if idea.id == idea_id:
                return idea
        known = ", ".join(idea.id for idea in self.ideas) or "none yet: propose one first"
        raise UnknownIdea(f"There is no idea {idea_id!r}. Ideas of this run: {known}.")

    def rejected(self, reference: str | None) -> Trusted | None:
        """What is said of a reference, if that is that it is rejected."""
        if reference is None:
            return None
        latest = next((one for one in reversed(self.trust) if same_reference(one.reference, reference)), None)
        return latest if latest and latest.trust == "rejected" else None


def same_reference(one: str, other: str) -> bool:
    """Whether two names are of one file, however the path is spelt."""
    return posixpath.normpath(one.strip()) == posixpath.normpath(other.strip())


def normalised(claim: str) -> str:
    """A claim without what makes no other claim of it: case, punctuation, spacing, forms of the same letter, what is not
    seen. That one thing is more than another is part of it.
    """
    folded = unicodedata.normalize("NFKC", claim).casefold()
    seen = "".join(letter for letter in folded if unicodedata.category(letter) != "Cf")
    return " ".join(re.findall(r"\w+|[<>\u2264\u2265]", seen.replace("_", " ")))


def check_proposal(ledger: Ledger, proposal: Proposal) -> None:
    """
    Raises:
        LedgerError: something is missing, the claim was refuted before, or is in the ledger already.
    """
    for name in ("claim", "evidence", "falsifiable_as"):
        if not re.search(r"\w", normalised(getattr(proposal, name))):
            raise Incomplete(f"{name} is empty. Say it in words: an idea without it cannot be tested or judged.")
    same = [idea for idea in ledger.ideas if normalised(idea.claim) == normalised(proposal.claim)]
    for idea in same:
        if idea.status == "refuted":
            raise RefutedBefore(
                f"{idea.id} claims the same and was refuted by evaluation {idea.history[-1].evaluation_id}. A refuted idea "
                "does not come back: propose another claim, one that says what is different now."
            )
    for idea in same:
        if idea.status != "dropped":
            raise AlreadyThere(f"{idea.id} claims the same and is {idea.status}. {_legal(idea)}")


def check_action(ledger: Ledger, idea_id: str, action: Action) -> Idea:
    """The idea, if the action is legal for it.

    Raises:
        LedgerError: it is not; the message names what is.
    """
    idea = ledger.find(idea_id)
    if action == "adopt" and idea.kind == "NON_PORTABLE":
        raise IllegalTransition(
            f"{idea.id} is NON_PORTABLE: it needs what a TPU does not have, so it can never be adopted. {_legal(idea)}"
        )
    if action not in LEGAL[idea.status]:
        raise IllegalTransition(f"{idea.id} is {idea.status}, so it cannot be {_past(action)}. {_legal(idea)}")
    if action == "adopt" and (rejected := ledger.rejected(idea.reference)):
        raise ReferenceRejected(
            f"{idea.id} comes from {rejected.reference}, which is rejected ({rejected.reason}). Nothing from it can be "
            f"adopted. {_legal(idea)}"
        )
    return idea


def _past(action: Action) -> str:
    return {"adopt": "adopted", "confirm": "confirmed", "refute": "refuted", "drop": "dropped"}[action]


def legal(idea: Idea) -> list[Action]:
    """What may be done with an idea, whatever is thought of where it comes from."""
    return [a for a in LEGAL[idea.status] if not (a == "adopt" and idea.kind == "NON_PORTABLE")]


def _legal(idea: Idea) -> str:
    possible = legal(idea)
    return f"Legal for it now: {', '.join(possible)}." if possible else "It is final: propose another idea."
