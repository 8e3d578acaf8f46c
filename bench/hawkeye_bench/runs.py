"""One run's record and where it lies: OUT/<workload>/<condition>/<repeat>/run.json, written once, when it has
ended. Its agent works in OUT/workspaces/<random name>/.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_bench.budget import Budget
from hawkeye_mcp import content
from hawkeye_mcp.calllog import CellRead
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.state import discard_partial, write_atomically

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RunStatus = Literal["correct", "no_correct_kernel", "no_kernel", "not_confirmed", "broken"]
# misconfigured: broken in a way that a repeat would not mend.
StopReason = Literal[
    "finished",
    "productive_turn_limit",
    "turn_limit",
    "token_limit",
    "cost_limit",
    "time_limit",
    "unknown_family",
    "agent_failed",
    "broken",
    "misconfigured",
]


MOST_REPEATS = 10_000


class Client(BaseModel):
    """The program that was the agent, as it was started; secrets are only named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    version: str
    command: list[str] = []


class Run(BaseModel):
    """One agent on one workload under one condition, once.

    The figures are of the best kernel as the bench judged it again from scratch; what was not predicted or
    measured is null.
    """

    model_config = ConfigDict(extra="forbid")

    workload: str
    condition: str
    repeat: int
    tpu: str
    agent: str
    model: str
    status: RunStatus = Field(
        description="correct; no_correct_kernel: judged, none correct; no_kernel: none was judged; "
        "not_confirmed: the best was not correct when judged again; broken: says nothing, will be repeated"
    )
    stop: StopReason = Field(description="Why the agent stopped.")
    isolation: str = Field(description="What stood around the kernels' Python; rlimits seals no condition.")
    speedup: Positive | None = None
    speedup_interval: tuple[Positive, Positive] | None = None
    indistinguishable: bool = Field(False, description="The interval holds 1: not known to be faster or slower.")
    candidate_us: Positive | None = None
    baseline_us: Positive | None = None
    source: Literal["predicted", "measured"] | None = None
    lower_bound: bool = False
    baseline_method: str | None = None
    baseline_lower_bound: bool = Field(False, description="baseline_us is only a floor: speedup is at least this.")
    artifact_sha256: str | None = Field(None, description="What was judged again, traced.")
    kernel_sha256: str | None = Field(None, description="The best kernel, beside the call log in kernels/.")
    first_speedup: Positive | None = Field(None, description="What the agent's own session was told of that kernel.")
    judged_again: str | None = Field(None, description="Status of the second judgement.")
    judged_on: str | None = Field(None, description="The host that made it; null: the machine of the run.")
    evaluations: int = Field(
        0, description="Judgements made in the session, from the server's call log; a cached verdict is none."
    )
    tool_calls: dict[str, int] = Field({}, description="Calls by tool, from the server's call log.")
    cells_read: list[CellRead] = Field(
        [], description="Each reading of a row of the taxonomy, in order, from the server's call log; a list is none."
    )
    no_power: str = Field("", description="Why no inputs can tell a wrong kernel: the run is then in no aggregate.")
    algebraic: str = Field("", description="Work that a kernel may save by algebra: a speedup may be due to that.")
    productive_turns: int = Field(0, description="Edits of kernel files, judgements of new texts, readings of cells.")
    turns: int = Field(0, description="Model calls; 0 for the builtin optimiser, which makes none.")
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = Field(None, description="As the agent's client says; null where it does not.")
    client: Client | None = None
    started: str = Field(description="ISO 8601, UTC")
    seconds: float
    versions: Versions | None = None
    error: str | None = None


class PlannedHost(BaseModel):
    """A registered host that judges. Its versions and judge are the plan's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str
    tpus: list[str] = Field(description="The generation of each attached chip.")

    def __str__(self) -> str:
        return f"{self.address}; {', '.join(self.tpus) or 'no TPU'}"


class Plan(BaseModel):
    """What was asked for, and of what; kept in OUT/plan.json. Runs of one folder differ only in workload,
    condition and repeat.
    """

    model_config = ConfigDict(extra="forbid")

    agent: str
    model: str
    base_url: str
    tpu: str
    agent_options: dict[str, str] = Field({}, description="What else the agent was made from: see AgentSpec.")
    budget: Budget
    seed: int = Field(0, description="Of the order in which conditions are run.")
    workloads: list[str]
    conditions: list[str]
    reps: int = Field(ge=1, le=MOST_REPEATS)
    versions: Versions | None = None
    judge: str = Field("", description="Hash of the code that judges.")
    cells: str = Field("", description="Hash of the taxonomy's cells and of the control text: what conditions show.")
    hosts: dict[str, PlannedHost] | None = Field(None, description="Those that judge; null: the machine of each run.")


def cells_hash() -> str:
    """Of every file of the chips' cells and of the text of the control `placebo`, by path and content."""
    root = content.folder("taxonomy")
    shown = sorted({*root.glob("*/*/*.*"), *(root / "placebo").glob("*.*")} - {*(root / "source").rglob("*")})
    found = hashlib.sha256()
    for path in shown:
        found.update(f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:12]


class Unreadable(ValueError):
    """A file of a folder of runs is damaged or was written by another version; the message names it."""


AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def read(path: Path, kind: type[AnyRecord]) -> AnyRecord | None:
    """A record that this program wrote; None if there is none.

    Raises:
        Unreadable: it is not of this kind.
    """
    try:
        return kind.model_validate_json(path.read_bytes()) if path.exists() else None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unreadable(
            f"{path} is damaged or of another version of this program ({where or 'JSON'}: {first['msg']}): put it back as "
            "it was, or move its folder away."
        ) from None


class PlanDiffers(ValueError):
    """The folder holds runs made with other parameters or versions; the message names them."""


def keep_plan(out: Path, plan: Plan) -> Plan:
    """Write the plan, or check that it continues the one that is there. More workloads, conditions or repeats
    may be added. Returns the plan of the whole folder.

    Raises:
        PlanDiffers: runs of two different set-ups would be mixed.
        Unreadable: the plan that is there is none.
    """
    path = out / "plan.json"
    if before := read(path, Plan):
        then, now = _fixed(before), _fixed(plan)
        if changed := [
            f"{name} {then.get(name)!r} is now {now[name]!r}" for name in now if now[name] != then.get(name)
        ]:
            raise PlanDiffers(
                f"{out} was made with other parameters or versions ({'; '.join(changed)}), whose results must not be "
                "mixed. Use another --out."
            )
        plan = plan.model_copy(
            update={
                "workloads": list(dict.fromkeys(before.workloads + plan.workloads)),
                "conditions": list(dict.fromkeys(before.conditions + plan.conditions)),
                "reps": max(before.reps, plan.reps),
            }
        )
    write_atomically(path, plan.model_dump_json(indent=1))
    return plan


def _fixed(plan: Plan) -> dict[str, object]:
    """What all runs of one folder have in common."""
    fields: dict[str, Any] = plan.model_dump(exclude={"workloads", "conditions", "reps"})
    budget: dict[str, object] = fields.pop("budget")
    if plan.hosts:
        fields["hosts"] = ", ".join(f"{name} ({host})" for name, host in sorted(plan.hosts.items()))
    return fields | budget | (fields.pop("versions") or {})


def name_of(workload: str) -> str:
    """The name of a workload that a plan names by it or by the path of its folder."""
    return Path(workload).name


def folder(out: Path, workload: str, condition: str, repeat: int) -> Path:
    return out / name_of(workload) / condition / str(repeat)


def make_workspace(out: Path, run_folder: Path) -> Path:
    """A new, empty folder for an agent, linked from the run's folder; its path says nothing of the run."""
    workspace = out / "workspaces" / secrets.token_hex(6)
    workspace.mkdir(parents=True)
    (run_folder / "workspace").symlink_to(os.path.relpath(workspace, run_folder))
    return workspace


def finished(run_folder: Path) -> Run | None:
    """The record of a run that has ended; None when it has not, or says nothing.

    Raises:
        Unreadable: it is no record.
    """
    return read(run_folder / "run.json", Run)


def worked(run_folder: Path) -> Run | None:
    """The record of a run whose agent has done its work, and that was then cut off; None where it has not.

    Raises:
        Unreadable: it is no record.
    """
    return read(run_folder / "worked.json", Run)


def set_aside(run_folder: Path) -> None:
    """Rename a folder without a record, so that the run starts afresh and nothing of the old try is lost."""
    if not run_folder.exists():
        return
    discard_partial(run_folder)
    number = 1
    while (target := run_folder.with_name(f"{run_folder.name}.unfinished-{number}")).exists():
        number += 1
    run_folder.rename(target)
