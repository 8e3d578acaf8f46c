"""Everything that a folder of runs says, in one model: what `hawkeye-bench report DIR --json` prints."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_bench import preregistration, trajectories
from hawkeye_bench import runs as records
from hawkeye_bench.analysis import Analysis, Choices, Comparison, Effect, FastP, Success, analyse, choices_for
from hawkeye_bench.pairs import Source
from hawkeye_bench.runs import Plan, Run
from hawkeye_bench.trajectories import Curve, Point


class NoRuns(records.Unreadable):
    """The folder is not one of the bench's; the message says what to do."""


class RunRow(BaseModel):
    """One run in short. tokens, cost_usd: null where the agent's client did not say."""

    model_config = ConfigDict(extra="forbid")

    workload: str
    condition: str
    repeat: int
    agent: str
    model: str
    status: str
    stop: str
    speedup: float | None
    source: Source | None
    judged_on: str | None
    evaluations: int
    productive_turns: int
    turns: int
    tokens: int | None
    cost_usd: float | None


class Registered(BaseModel):
    """What was registered before the runs, and in what the folder deviates from it."""

    model_config = ConfigDict(extra="forbid")

    sha256: str
    registered: str
    deviations: list[str]


class Results(BaseModel):
    model_config = ConfigDict(extra="forbid")

    effect: Effect = Field(description="Of the primary comparison, by its rule for failures.")
    success: dict[str, Success]
    fast_p: dict[str, dict[Source, list[FastP]]]
    comparisons: list[Comparison]
    progress: list[Curve]
    runs: list[RunRow]
    plan: Plan
    choices: Choices
    penalised_score: float
    preregistered: Registered | None
    remarks: list[str]


def read(out: Path) -> Results:
    """From the records, logs and transcripts of the finished runs of a folder.

    Raises:
        NoRuns: it holds no plan, or no run of it has ended.
        runs.Unreadable: one of its files is none of the bench's.
    """
    plan = plan_of(out)
    found = finished(out, plan)
    if not found:
        raise NoRuns(f"no run in {out} has ended yet; start the bench again with --out {out} to go on.")
    registration = preregistration.load(out)
    choices = _registered(out, registration) if registration else choices_for(plan.conditions)
    analysis = analyse(found, choices)
    points = trajectories.of_runs(out, found)
    registered = None
    if registration:
        registered = Registered(
            sha256=registration.sha256,
            registered=registration.registered,
            deviations=preregistration.deviations(registration, plan, choices, found),
        )
    return _together(plan, analysis, found, [points[place] for place in range(len(found))], registered)


def _registered(out: Path, registration: preregistration.Registration) -> Choices:
    try:
        return Choices.model_validate(registration.choices)
    except ValidationError:
        raise records.Unreadable(
            f"{out / 'preregistered.json'} names no analysis that this version of the program has: put it back as it was, "
            "or move it away to see the runs as those of a plan that was not registered."
        ) from None


def plan_of(out: Path) -> Plan:
    """The plan of a folder.

    Raises:
        NoRuns: it has none.
        runs.Unreadable: it is none.
    """
    if plan := records.read(out / "plan.json", Plan):
        return plan
    raise NoRuns(f"{out} has no plan.json, so it is no folder of runs; name what --out named, or runs/DATE.")


def finished(out: Path, plan: Plan) -> list[Run]:
    """The records of the plan's runs that have ended, by workload, condition and repeat.

    Only where the plan has a run: an agent may have left a run.json in its workspace.
    """
    found = (
        records.finished(records.folder(out, workload, condition, repeat))
        for workload in sorted(plan.workloads, key=records.name_of)
        for condition in sorted(plan.conditions)
        for repeat in range(1, plan.reps + 1)
    )
    return [run for run in found if run]


def _together(
    plan: Plan, analysis: Analysis, runs: list[Run], points: Sequence[list[Point]], registered: Registered | None
) -> Results:
    return Results(
        effect=analysis.primary.effect,
        success=analysis.success,
        fast_p=analysis.fast_p,
        comparisons=analysis.comparisons,
        progress=trajectories.curves(runs, dict(enumerate(points)), analysis.choices),
        runs=[_row(run, mine[-1]) for run, mine in zip(runs, points, strict=True)],
        plan=plan,
        choices=analysis.choices,
        penalised_score=analysis.penalised_score,
        preregistered=registered,
        remarks=analysis.remarks,
    )


def _row(run: Run, last: Point) -> RunRow:
    return RunRow(
        workload=run.workload,
        condition=run.condition,
        repeat=run.repeat,
        agent=run.agent,
        model=run.model,
        status=run.status,
        stop=run.stop,
        speedup=run.speedup,
        source=run.source,
        judged_on=run.judged_on,
        evaluations=run.evaluations,
        productive_turns=last.productive_turns,
        turns=run.turns,
        tokens=last.tokens,
        cost_usd=last.cost_usd,
    )
