"""A plan frozen before its first run, in OUT/preregistered.json, and what was done otherwise.

The hash is of the plan and of the analysis, as JSON with sorted keys and no spaces. It proves nothing by itself: whoever
holds the folder can write another. Published before the runs (a commit, a mail), it shows that the plan is that one.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hawkeye_bench import pairs as pairing
from hawkeye_bench import runs as records
from hawkeye_bench.analysis import Choices
from hawkeye_bench.runs import Plan, Run
from hawkeye_mcp.state import write_atomically

_SHOWN = 5


class _Planned(BaseModel):
    """What a registered plan must name for runs to be held against it."""

    agent: str
    model: str
    tpu: str
    workloads: list[str]
    conditions: list[str]
    reps: int = Field(ge=1, le=records.MOST_REPEATS)
    versions: dict[str, Any] | None = None
    hosts: dict[str, Any] | None = None


class Registration(BaseModel):
    """plan is kept as it was written, so that later versions of the program still hash it the same."""

    model_config = ConfigDict(extra="forbid")

    plan: dict[str, Any]
    choices: dict[str, Any]
    registered: str = Field(description="ISO 8601, UTC; not in the hash")
    sha256: str

    @field_validator("plan")
    @classmethod
    def _is_a_plan(cls, plan: dict[str, Any]) -> dict[str, Any]:
        _Planned.model_validate(plan)
        return plan


class NotRegistered(ValueError):
    """The plan cannot be registered in this folder; the message says why and what to do."""


def digest(plan: dict[str, Any], choices: dict[str, Any]) -> str:
    text = json.dumps({"plan": plan, "choices": choices}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def preregister(out: Path, plan: Plan, choices: Choices) -> Registration:
    """Freeze plan and analysis in the folder. The same again changes nothing and returns what is there.

    Raises:
        NotRegistered: another plan is registered there, or the folder is in use without one.
        OSError: the folder cannot be written.
    """
    kept, chosen = plan.model_dump(mode="json"), choices.model_dump(mode="json")
    sha256 = digest(kept, chosen)
    if before := load(out):
        if before.sha256 == sha256:
            return before
        changed = ", ".join(_differences(before.plan, kept) + _differences(before.choices, chosen))
        raise NotRegistered(
            f"{out} holds another registered plan ({changed}). A registered plan is never changed: use another --out, "
            "or leave --preregister out and let the report name what deviates."
        )
    if (out / "plan.json").exists():
        raise NotRegistered(
            f"{out} was begun without a registered plan, and a plan is registered before its first run: use another "
            "--out."
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    registration = Registration(plan=kept, choices=chosen, registered=now, sha256=sha256)
    write_atomically(out / "preregistered.json", registration.model_dump_json(indent=1))
    return registration


def load(out: Path) -> Registration | None:
    """Raises runs.Unreadable: the file is no registration."""
    return records.read(out / "preregistered.json", Registration)


def deviations(registration: Registration, plan: Plan, choices: Choices, runs: Iterable[Run]) -> list[str]:
    """In what the folder's plan, its analysis and its finished runs are not what was registered; empty if in nothing."""
    found = []
    if digest(registration.plan, registration.choices) != registration.sha256:
        found.append("preregistered.json was changed after it was written: its hash is not that of its content.")
    found += _differences(registration.plan, plan.model_dump(mode="json"))
    found += _differences(registration.choices, choices.model_dump(mode="json"))
    return found + _of_runs(registration, list(runs))


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = []
    for name in dict.fromkeys([*then, *now]):
        before, after = then.get(name), now.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            found += _differences(before, after)
        elif before != after:
            found.append(f"{name}: {_words(before)} was registered, now {_words(after)}")
    return found


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "nothing" if value is None else str(value)


def _of_runs(registration: Registration, runs: list[Run]) -> list[str]:
    plan = registration.plan
    names = [records.name_of(workload) for workload in plan["workloads"]]
    planned = {
        (name, condition, repeat)
        for name in names
        for condition in plan["conditions"]
        for repeat in range(1, plan["reps"] + 1)
    }
    done = {(run.workload, run.condition, run.repeat): run for run in runs if run.status != "broken"}
    found = []
    if missing := sorted(planned - done.keys()):
        found.append(f"{len(missing)} of {len(planned)} registered runs have no result: {_few(missing)}.")
    if extra := sorted(done.keys() - planned):
        found.append(f"{len(extra)} runs were not registered: {_few(extra)}.")
    if early := sorted(key for key, run in done.items() if run.started < registration.registered):
        found.append(f"{len(early)} runs began before the registration: {_few(early)}.")
    if others := sorted(key for key, run in done.items() if not _as_planned(run, plan)):
        found.append(f"{len(others)} runs had another agent, model, chip, version or host: {_few(others)}.")
    return found


def _as_planned(run: Run, plan: dict[str, Any]) -> bool:
    model = plan["model"] == run.model or (plan["model"] == "builtin" and pairing.is_builtin(run))
    # A run without a kernel to judge again does not know its versions.
    versions = not run.versions or not plan.get("versions") or run.versions.model_dump(mode="json") == plan["versions"]
    # Nor who would have judged it.
    host = run.judged_again is None or run.judged_on in (plan.get("hosts") or [None])
    return model and versions and host and (run.agent, run.tpu) == (plan["agent"], plan["tpu"])


def _few(keys: list[tuple[str, str, int]]) -> str:
    shown = [f"{workload} {condition} #{repeat}" for workload, condition, repeat in keys[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else "")
