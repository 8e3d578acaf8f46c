"""From a run's events to its state: a pure function, so that the state can always be made again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hawkeye_mcp.calllog import KERNELS
from hawkeye_mcp.runs.idea import LEGAL, Idea, Step, Trusted
from hawkeye_mcp.runs.model import Best, Created, Judged, Profiled, Result, State
from hawkeye_mcp.runs.ranking import Ranking

EVALUATIONS = "evaluations"
_OWN = {"time", "event"}


class NotBegun(ValueError):
    """No event says what the run is about."""


def fold(folder: Path, log: bytes) -> State:
    """The state of the run in `folder`, an absolute path, from the bytes of its events.

    Raises:
        NotBegun: its first event is not there.
    """
    rankings = (Ranking("predicted"), Ranking("measured"))
    state: State | None = None
    damaged = 0
    for line in _lines(log):
        try:
            if line is None:
                raise ValueError("no JSON object")
            if state is None:
                state = _begun(folder, line)
            else:
                _take(state, rankings, line)
        except (ValueError, KeyError, TypeError):
            damaged += 1
    if state is None:
        raise NotBegun(f"{folder} holds no run: its events.jsonl does not say what it is about.")
    state.damaged_lines = damaged
    state.best_predicted, state.best_measured = (_best(folder, ranking.incumbent) for ranking in rankings)
    return state


def _lines(log: bytes) -> Iterator[dict[str, Any] | None]:
    """Each line's object; None for a line that is none."""
    for line in log.split(b"\n"):
        if line.strip():
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            yield found if isinstance(found, dict) else None


def _begun(folder: Path, line: dict[str, Any]) -> State:
    if line["event"] != "created":
        raise ValueError("the run has not begun")
    created = Created.model_validate(_facts(line))
    return State(folder=str(folder), created=str(line["time"]), **created.model_dump())


def _take(state: State, rankings: tuple[Ranking, ...], line: dict[str, Any]) -> None:
    """Add one event to the state.

    Raises:
        ValueError, KeyError, TypeError: it is no event that this program writes.
    """
    event, time = line["event"], str(line["time"])
    if event == "evaluation":
        judged = Judged.model_validate(_facts(line))
        improved = [ranking.take(judged) for ranking in rankings]
        state.evaluations.append(Result(**judged.model_dump(), time=time, improved=any(improved)))
    elif event == "profile":
        state.profiles.append(Profiled.model_validate(_facts(line)))
    elif event == "idea":
        _take_idea(state, time, _facts(line))
    elif event == "trust":
        state.reference_trust.append(Trusted(time=time, **_facts(line)))
    elif isinstance(event, str):
        state.other_events[event] = state.other_events.get(event, 0) + 1
    else:
        raise ValueError("an event has a name")


def _take_idea(state: State, time: str, facts: dict[str, Any]) -> None:
    step = Step(
        time=time,
        action=facts.pop("action"),
        reason=facts.pop("reason", ""),
        evaluation_id=facts.pop("evaluation_id", None),
    )
    if step.action == "propose":
        state.ideas.append(Idea(**facts, history=[step]))
        return
    idea = state.ledger.find(facts["id"])
    # Who wrote the event checked what needs the rest of the run; a status that cannot follow is damage all the same.
    idea.status = LEGAL[idea.status][step.action]
    idea.history.append(step)


def _facts(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in _OWN}


def _best(folder: Path, judged: Judged | None) -> Best | None:
    if judged is None:
        return None
    return Best(
        evaluation_id=judged.id,
        kernel_sha256=judged.kernel_sha256,
        kernel_path=str(folder / KERNELS / f"{judged.kernel_sha256}.py"),
        evaluation_path=str(folder / EVALUATIONS / f"{judged.id}.json"),
        candidate_us=judged.candidate_us,
        candidate_interval_us=judged.candidate_interval_us,
        lower_bound=judged.lower_bound,
        speedup=judged.speedup,
        speedup_interval=judged.speedup_interval,
    )
