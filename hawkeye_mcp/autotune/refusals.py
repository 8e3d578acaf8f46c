"""Why points have no time: each way once, how often, and with the words of who refused."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hawkeye_mcp.autotune.model import Looked
from hawkeye_mcp.autotune.ranking import shown

_MOST_WORDS = 400
_TELLING = re.compile(r"[^.\n]*(?:\d\.\d[^.\n]*)*exceed(?:\.\d|[^.\n])*")  # the sentence with the sizes


@dataclass(frozen=True)
class Refusal:
    """number: of points. first: of them. words: as they were said of the first, cut if long."""

    number: int
    first: Looked
    words: str

    def __str__(self) -> str:
        points = f"{self.number} point{'s' * (self.number > 1)}"
        return f"{points} {self.first.status}, for example {shown(self.first.parameters)}: {self.words}"


def refusals(looked: Sequence[Looked]) -> list[Refusal]:
    """The most frequent first; what differs in sizes alone is one way."""
    ways: dict[tuple[str, str], list[Looked]] = {}
    for each in looked:
        if each.rung is None:
            ways.setdefault((each.status, re.sub(r"\d+", "#", _first_line(each))), []).append(each)
    found = [Refusal(len(those), those[0], _words(those[0])) for those in ways.values()]
    return sorted(found, key=lambda refusal: -refusal.number)


def _first_line(each: Looked) -> str:
    said = each.compiler_message or each.message
    return next((line.strip() for line in said.splitlines() if line.strip()), "")


def _words(each: Looked) -> str:
    first = _first_line(each)
    telling = _TELLING.search(each.compiler_message or "")
    words = f"{first} {telling[0].strip()}" if telling and telling[0].strip() not in first else first
    return words[:_MOST_WORDS]
