"""What happened in one run, step by step, and every kernel text in the order in which it was first submitted."""

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from hawkeye_bench import budget
from hawkeye_bench.budget import Spent
from hawkeye_bench.page import answers
from hawkeye_bench.page.answers import Answers
from hawkeye_mcp import calllog
from hawkeye_mcp.evaluation import Evaluation

# Of a page of one run; what is beyond is counted and said.
MOST_STEPS, MOST_VERSIONS, MOST_DIFF_LINES = 300, 60, 400
LONGEST_TEXT = 6_000
# Beyond so many lines a diff takes seconds.
_LARGEST_COMPARED = 4_000
_SHA256 = re.compile(r"[0-9a-f]{64}")

DiffKind = Literal["added", "removed", "place", "same"]


@dataclass(frozen=True)
class Step:
    """One thing that a run spent on, and where it stood then. at_s: seconds after its first line; None if that is
    unknown. best: the best speedup told so far."""

    at_s: float | None
    turn: int
    tokens: int | None
    kind: Literal["cell", "verdict", "cached", "profile", "edit"]
    what: str
    status: str = ""
    version: int | None = None
    speedup: float | None = None
    best: float | None = None


@dataclass(frozen=True)
class Version:
    """A kernel text. diff: against the version before it, against nothing for the first; text: None if it was not
    kept. verdict, profiled: the last lines of the log that judge and profile it; told: what the server said of it, "" where that is unknown.
    """

    number: int
    sha256: str
    lines: int
    diff: list[tuple[DiffKind, str]]
    left_out_lines: int
    why_no_diff: str
    verdict: dict[str, Any] | None
    profiled: dict[str, Any] | None
    told: dict[str, str]
    profile: str


@dataclass(frozen=True)
class History:
    """judgements: how many by status, cached ones left out. ceilings: by unit, its rate a second and where that
    comes from, as profiles told. logged: whether the run has a call log at all."""

    steps: list[Step] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    judgements: Counter[str] = field(default_factory=Counter)
    ceilings: dict[str, tuple[float, str]] = field(default_factory=dict)
    again: Evaluation | None = None
    logged: bool = False


def read(folder: Path) -> History:
    """The history of the run whose record lies in the folder; empty where its logs are missing."""
    calls, transcript = (_lines(folder / name) for name in ("calls.jsonl", "transcript.jsonl"))
    told = answers.read(transcript)
    order = list(dict.fromkeys(str(line["kernel_sha256"]) for line in calls if _is_text(line)))
    ceilings: dict[str, tuple[float, str]] = {}
    for profile in told.profiles.values():
        ceilings |= answers.ceilings(profile)
    return History(
        steps=_steps([*calls, *transcript], {sha256: number for number, sha256 in enumerate(order, start=1)}),
        versions=_versions(folder / calllog.KERNELS, order, calls, told),
        judgements=Counter(
            str(line.get("status")) for line in calls if calllog.is_verdict(line) and not line.get("cached")
        ),
        ceilings=ceilings,
        again=_again(folder / "judged_again.json"),
        logged=bool(calls),
    )


def kernel_text(folder: Path, sha256: str) -> str | None:
    """The text of a kernel that the server kept beside the log in the folder; None if it is not there."""
    path = folder / calllog.KERNELS / f"{sha256}.py"
    if not _SHA256.fullmatch(sha256) or not path.is_file():
        return None
    return path.read_text(encoding="utf-8", errors="replace")


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:longest]}\n[{len(text) - longest:,} more characters left out here]"


def _lines(path: Path) -> list[dict[str, Any]]:
    return calllog.read(path) if path.exists() else []


def _is_text(line: dict[str, Any]) -> bool:
    return line.get("event") in ("submitted", "verdict") and bool(line.get("kernel_sha256"))


def _again(path: Path) -> Evaluation | None:
    """None also for one of another version of the program, whose form may differ."""
    try:
        return Evaluation.model_validate_json(path.read_bytes()) if path.exists() else None
    except ValidationError:
        return None


# --- step by step


def _steps(lines: Iterable[dict[str, Any]], numbers: dict[str, int]) -> list[Step]:
    spent, best, found, began = Spent(), None, list[Step](), None
    for line in sorted(lines, key=lambda line: str(line.get("time"))):
        spent = budget.after(spent, line)
        now = _time(line)
        began = began or now
        told = _told(line)
        if not told:
            continue
        kind, what = told
        speedup = budget.number(line, "speedup") if kind in ("verdict", "cached") else None
        if kind == "verdict" and line.get("status") == "correct" and speedup and not line.get("lower_bound"):
            best = max(speedup, best or 0.0)
        found.append(
            Step(
                at_s=(now - began).total_seconds() if now and began else None,
                turn=spent.productive_turns,
                tokens=spent.tokens,
                kind=kind,
                what=what,
                status=str(line.get("status") or ""),
                version=numbers.get(str(line.get("kernel_sha256"))),
                speedup=speedup,
                best=best,
            )
        )
    return found


def _told(line: dict[str, Any]) -> tuple[Literal["cell", "verdict", "cached", "profile", "edit"], str] | None:
    for read in calllog.cells_read([line]):
        return "cell", f"read {read.row}, {read.part}"
    if line.get("kind") == "edit":
        return "edit", f"edited {line.get('path', 'a file')}"
    if line.get("event") != "verdict":
        return None
    if line.get("kind") == "profile":
        return "profile", "profiled"
    return ("cached", "judged before") if line.get("cached") else ("verdict", "judged")


def _time(line: dict[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(line.get("time")))
    except ValueError:
        return None


# --- kernel texts


def _versions(kernels: Path, order: list[str], calls: list[dict[str, Any]], told: Answers) -> list[Version]:
    by_kind: dict[str, dict[str, dict[str, Any]]] = {"evaluate": {}, "profile": {}}
    for line in calls:
        if line.get("event") == "verdict" and line.get("kind") in by_kind:
            by_kind[line["kind"]][str(line.get("kernel_sha256"))] = {"status": "unknown", "speedup": None} | line
    found, before = [], ""
    for number, sha256 in enumerate(order, start=1):
        text = kernel_text(kernels.parent, sha256)
        diff, why = ([], "its text was not kept") if text is None else _diff(before, text)
        said = told.evaluations.get(sha256) or told.profiles.get(sha256) or {}
        words = {name: cut(str(said.get(name) or "")) for name in _WORDS}
        profile = told.profiles.get(sha256)
        found.append(
            Version(
                number=number,
                sha256=sha256,
                lines=len((text or "").splitlines()),
                diff=diff[:MOST_DIFF_LINES],
                left_out_lines=max(0, len(diff) - MOST_DIFF_LINES),
                why_no_diff=why,
                verdict=by_kind["evaluate"].get(sha256),
                profiled=by_kind["profile"].get(sha256),
                told=words,
                profile=cut(answers.profile_text(profile), 2 * LONGEST_TEXT) if profile else "",
            )
        )
        before = before if text is None else text
    return found


_WORDS = ("message", "next_step", "correctness", "audit", "compiler_message")


def _diff(before: str, after: str) -> tuple[list[tuple[DiffKind, str]], str]:
    """The lines of a unified diff, and why there are none if so."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > _LARGEST_COMPARED:
        return [], f"{len(new):,} lines are too many to compare"
    kinds: dict[str, DiffKind] = {"+": "added", "-": "removed", "@": "place"}
    told = list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]
    return [(kinds.get(one[:1], "same"), cut(one, 500)) for one in told], "" if told else "the same lines as before"
