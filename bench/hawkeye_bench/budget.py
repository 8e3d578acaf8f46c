"""What a run may spend and what it has spent: the same for every agent, condition and machine.

A productive turn is an edit of a kernel file, a judgement of a new text or a reading of a cell. The server's call log
tells of judgements and readings, the agent's transcript of edits, model calls, tokens and dollars.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import calllog

# Of wall time and of money: beyond it a limit is none.
MOST_MINUTES = 1e6
MOST_USD = 1e6

Limit = Literal["productive_turn_limit", "turn_limit", "token_limit", "cost_limit"]


class Budget(BaseModel):
    """Of one run. tokens and cost_usd hold only for agents whose client tells them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    productive_turns: int = Field(50, ge=1)
    turns: int = Field(200, ge=1, description="Model calls, productive or not.")
    evaluations: int = Field(0, ge=0, description="0: as many as the productive turns allow.")
    minutes: float = Field(
        60.0, gt=0, le=MOST_MINUTES, description="Wall time of the agent; the last judgement comes after it."
    )
    tokens: int | None = Field(None, ge=1, description="Prompt and completion together.")
    cost_usd: float | None = Field(None, gt=0, le=MOST_USD)


@dataclass(frozen=True)
class Spent:
    """tokens, cost_usd: None as long as no model call said."""

    productive_turns: int = 0
    turns: int = 0
    tokens: int | None = None
    cost_usd: float | None = None


AnySpent = TypeVar("AnySpent", bound=Spent)


def after(spent: AnySpent, line: dict[str, Any]) -> AnySpent:
    """What has been spent after one line of the call log or of the transcript."""
    if is_judgement(line) or calllog.cells_read([line]) or line.get("kind") == "edit":
        return replace(spent, productive_turns=spent.productive_turns + 1)
    if line.get("kind") not in ("model", "usage"):
        return spent
    if line["kind"] == "model":
        spent = replace(spent, turns=spent.turns + 1)
    used = [told for name in ("prompt_tokens", "completion_tokens") if (told := number(line, name)) is not None]
    if used:
        spent = replace(spent, tokens=(spent.tokens or 0) + int(sum(used)))
    if (cost_usd := number(line, "cost_usd")) is not None:
        spent = replace(spent, cost_usd=(spent.cost_usd or 0.0) + cost_usd)
    return spent


def number(line: Mapping[str, Any], name: str) -> float | None:
    """A figure of a line, which may be anybody's; None where it is none that can be: no number, negative, past 1e15."""
    found = line.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1e15:
        return None
    return found


def is_judgement(line: dict[str, Any]) -> bool:
    """Whether a text was judged; a verdict that was known already is none, nor is a fault of the judge."""
    return calllog.is_verdict(line) and not line.get("cached") and line.get("status") != "harness_error"


def exceeded(budget: Budget, spent: Spent) -> Limit | None:
    """The limit that ends the run now; None while it may go on.

    The call to the model that is one too many has been made when it is noticed, so `turns` itself is still allowed.
    """
    if spent.productive_turns >= budget.productive_turns:
        return "productive_turn_limit"
    if spent.turns > budget.turns:
        return "turn_limit"
    if budget.tokens is not None and (spent.tokens or 0) >= budget.tokens:
        return "token_limit"
    if budget.cost_usd is not None and (spent.cost_usd or 0.0) >= budget.cost_usd:
        return "cost_limit"
    return None


class Meter:
    """Follows one run: told each event of the agent, or looking by itself, it reads what the server has logged since."""

    def __init__(self, budget: Budget, call_log: Path) -> None:
        self.spent = Spent()
        self._budget = budget
        self._call_log = call_log
        self._read_bytes = 0

    def note(self, event: dict[str, Any]) -> Limit | None:
        """Count an event of the transcript, and the new lines of the log; returns the limit that is reached."""
        self.look()
        self.spent = after(self.spent, event)
        return exceeded(self._budget, self.spent)

    def look(self) -> Limit | None:
        """Count the new lines of the log; returns the limit that is reached."""
        for line in self._logged():
            self.spent = after(self.spent, line)
        return exceeded(self._budget, self.spent)

    def _logged(self) -> Iterable[dict[str, Any]]:
        """The whole lines that the log has gained."""
        if not self._call_log.exists():
            return
        with self._call_log.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole, _, _ = stream.read().rpartition(b"\n")
        self._read_bytes += len(whole) + bool(whole)
        yield from calllog.objects(whole)
