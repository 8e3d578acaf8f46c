"""One run from an empty folder to its record: the server's call log decides what happened, a fresh judgement what it
is worth.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, TextIO

import anyio
from mcp import StdioServerParameters

from hawkeye_bench import hosts, runs
from hawkeye_bench.agents import Agent, AgentFailed, AgentMisconfigured, AgentUnavailable, EventKind, Task
from hawkeye_bench.budget import Budget, Limit, Meter, is_judgement
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Client, Plan, Run, StopReason
from hawkeye_mcp import calllog, conditions, workloads
from hawkeye_mcp.candidate.isolation import isolation
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.judging import Judge, JudgeFactory
from hawkeye_mcp.state import write_atomically

# What the server may inherit besides the few variables that the MCP client passes by itself; the last three say which
# chips of a host are this run's.
_INHERITED = ("XDG_CACHE_HOME", "TMPDIR", "TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS")
SERVER = [sys.executable, "-m", "hawkeye_mcp.server"]

_FROM_TIMING = (
    "speedup speedup_interval indistinguishable candidate_us baseline_us source lower_bound baseline_method "
    "baseline_lower_bound"
).split()
_FILES = "Work in the current folder; pass your kernel's file to the tools as `path`."
_NO_FILES = (
    "Use only the tools you are given; pass your kernel's whole file as `source`. There is no other file access."
)

_TOKENS = ("prompt_tokens", "completion_tokens")
# So often the bench looks at the call log by itself: an agent may say nothing while it works.
_LOOK_S = 0.5

Progress = Callable[[str], None]


@asynccontextmanager
async def open_judge() -> AsyncIterator[Judge]:
    """The real judge, without any cache of verdicts."""
    from hawkeye_mcp.judge import evaluate

    async with evaluate.open_judge() as judge:
        yield judge


@dataclass(frozen=True)
class Best:
    """The kernel that counts, and what the session was told of it."""

    kernel_sha256: str
    speedup: float | None


async def run_one(
    plan: Plan,
    agent: Agent,
    out: Path,
    key: RunKey,
    progress: Progress,
    judge_factory: JudgeFactory = open_judge,
    server_command: list[str] = SERVER,
) -> Run:
    """Let the agent work, judge its best kernel again, and keep the record.

    An agent's work that is complete (worked.json) is never repeated: a run that was cut off afterwards goes on with the
    last judgement. The judge is opened after the agent's server has gone, and for this run alone.
    """
    folder = key.folder(out)
    if worked := runs.worked(folder):
        progress("the agent's work is complete; only the last judgement is missing")
        run = worked
    else:
        runs.set_aside(folder)
        run = await _work(plan, agent, out, key, progress, server_command)
        if run.stop in ("broken", "misconfigured"):
            # It leaves no run.json: it says nothing of the agent, so it is repeated.
            write_atomically(folder / "broken.json", run.model_dump_json(indent=1))
            return run
        write_atomically(folder / "worked.json", run.model_dump_json(indent=1))
    started = time.monotonic()
    run = await _judged_again(run, key.workload, folder, judge_factory, progress)
    run = run.model_copy(update={"seconds": round(run.seconds + time.monotonic() - started, 1)})
    record = "broken.json" if run.status == "broken" else "run.json"
    write_atomically(folder / record, run.model_dump_json(indent=1))
    return run


async def _work(plan: Plan, agent: Agent, out: Path, key: RunKey, progress: Progress, server_command: list[str]) -> Run:
    """What the agent did, with everything but the last judgement; its status says "broken" until that is known."""
    folder, declared = key.folder(out), workloads.find(key.workload)
    (folder / "state").mkdir(parents=True)
    (folder / "home").mkdir()
    workspace = runs.make_workspace(out, folder)
    name = runs.name_of(key.workload)
    run = Run(
        workload=name,
        condition=key.condition,
        repeat=key.repeat,
        tpu=plan.tpu,
        agent=agent.name,
        model=agent.model,
        status="broken",
        stop="broken",
        isolation=isolation(),
        no_power=declared.no_power,
        algebraic=declared.algebraic,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
    )
    task = Task(
        workload=name,
        tpu=plan.tpu,
        workspace=workspace,
        home=folder / "home",
        server=_server(plan, folder, workspace, key, server_command),
        server_log=folder / "server.log",
        prompt=prompt(plan, name, key.condition, files=agent.files),
        budget=plan.budget,
        condition=key.condition,
        repeat=key.repeat,
    )
    started = time.monotonic()
    found = await _let_work(agent, task, folder, progress)
    log = _logged(folder)
    run = run.model_copy(update={**found, **_counted(log), "seconds": round(time.monotonic() - started, 1)})
    if run.stop not in ("broken", "misconfigured") and (problem := _says_nothing(run, log)):
        return run.model_copy(update={"stop": "broken", "error": problem})
    return run


def misconfigured(plan: Plan, agent: Agent, key: RunKey, problem: str) -> Run:
    """The record of a run that cannot be done before a person acts."""
    return Run(
        workload=runs.name_of(key.workload),
        condition=key.condition,
        repeat=key.repeat,
        tpu=plan.tpu,
        agent=agent.name,
        model=agent.model,
        status="broken",
        stop="misconfigured",
        isolation="none: no kernel was run",
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
        error=problem,
    )


def _says_nothing(run: Run, log: list[dict[str, Any]]) -> str:
    """Why a run is none of the agent's doing although the agent saw no fault; empty if it is."""
    statuses = [line.get("status") for line in log if calllog.is_verdict(line)]
    if statuses and set(statuses) == {"harness_error"}:
        last = next(line for line in reversed(log) if calllog.is_verdict(line))
        why = last["fault"] if last.get("judged_on") else "calls.jsonl says why"
        return f"the judge failed at every kernel ({len(statuses)}): {why}"
    if run.stop == "time_limit" and not (run.turns or run.productive_turns or run.tool_calls):
        return "nothing happened until the time was over: no model answered, and the server was asked nothing"
    return ""


def prompt(plan: Plan, workload: str, condition: str, *, files: bool = False) -> str:
    """What the agent is told; the loop comes from the server's own gate, so nothing withheld is mentioned.

    files: whether its client can write files in the workspace.
    """
    template = Template((Path(__file__).parent / "agents" / "prompt.md").read_text(encoding="utf-8"))
    return template.substitute(
        workload=workload,
        tpu=plan.tpu,
        files=_FILES if files else _NO_FILES,
        budget=_budget_words(plan.budget, condition, files=files),
        loop=conditions.loop(conditions.parse(condition), plan.tpu),
    )


def _budget_words(budget: Budget, condition: str, *, files: bool) -> str:
    spends = [
        *(["each edit of a file"] if files else []),
        "each evaluation of a new text",
        *(["each cell that you read"] if conditions.shows(conditions.parse(condition), "taxonomy") else []),
    ]
    also = [f"{budget.evaluations} evaluations"] if budget.evaluations else []
    also += [f"{budget.turns} model calls"]
    return f"{budget.productive_turns} turns ({' and '.join(spends)} is one), at most {' and '.join(also)}"


def best(log: list[dict[str, Any]]) -> Best | None:
    """The rule: of the kernels that the server judged correct, the one whose speedup is surest to be high: by the low
    end of its interval, or the speedup itself where it has none; ties to the earliest. A time that is only a lower
    bound ranks behind every time that is known.
    """
    correct = [line for line in log if calllog.is_verdict(line) and line.get("status") == "correct"]
    if not correct:
        return None
    # max() keeps the first of equals; a kernel without a speedup comes after all that have one.
    chosen = max(correct, key=lambda line: (not line.get("lower_bound"), _surely(line)))
    return Best(chosen["kernel_sha256"], chosen.get("speedup"))


def _surely(line: dict[str, Any]) -> float:
    interval = line.get("speedup_interval")
    return interval[0] if interval else line.get("speedup") or -1.0


def _server(plan: Plan, folder: Path, workspace: Path, key: RunKey, command: list[str]) -> StdioServerParameters:
    arguments = {
        "--condition": key.condition,
        "--tpu": plan.tpu,
        "--workload": key.workload,
        "--workspace": workspace,
        "--state": folder / "state",
        "--call-log": folder / "calls.jsonl",
        "--max-evaluations": plan.budget.evaluations,
    }
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    if plan.hosts:
        arguments["--judge-host"] = ",".join(plan.hosts)
        env |= hosts.environment()
    flat = [str(part) for pair in arguments.items() for part in pair]
    return StdioServerParameters(command=command[0], args=[*command[1:], *flat], env=env)


async def _let_work(agent: Agent, task: Task, folder: Path, progress: Progress) -> dict[str, Any]:
    """Why the agent stopped, what went wrong if anything did, and what it spent: fields of its record."""
    meter = Meter(task.budget, folder / "calls.jsonl")
    found: dict[str, Any] = {"error": None}
    tokens: Counter[str] = Counter()
    with (folder / "transcript.jsonl").open("w", encoding="utf-8") as stream:
        _kept(stream, "note", {"prompt": task.prompt})
        with anyio.CancelScope() as scope:

            def obey(limit: Limit | None) -> None:
                if limit:
                    found.setdefault("limit", limit)
                    scope.cancel()

            async def look() -> None:
                while True:
                    await anyio.sleep(_LOOK_S)
                    obey(meter.look())

            def emit(kind: EventKind, data: dict[str, Any]) -> None:
                event = _kept(stream, kind, data)
                if kind == "client":
                    found["client"] = Client(**data)
                if kind in ("model", "usage"):
                    tokens.update({name: data[name] for name in _TOKENS if data.get(name) is not None})
                obey(meter.note(event))
                if text := _for_progress(kind, data):
                    progress(text)

            async with anyio.create_task_group() as looking:
                looking.start_soon(look)
                found |= await _stopped(agent, task, emit)
                looking.cancel_scope.cancel()
        if limit := found.pop("limit", None):
            found |= {"stop": limit, "error": None}
        _kept(stream, "note", {"stop": found["stop"], "error": found["error"]})
    meter.look()
    spent = meter.spent
    used = {"productive_turns": spent.productive_turns, "turns": spent.turns, "cost_usd": spent.cost_usd}
    return {**found, **tokens, **used}


def _kept(stream: TextIO, kind: EventKind, data: dict[str, Any]) -> dict[str, Any]:
    """The event as it now stands in the transcript."""
    event = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "kind": kind, **data}
    stream.write(json.dumps(event, default=str) + "\n")
    stream.flush()
    return event


async def _stopped(agent: Agent, task: Task, emit: Callable[[EventKind, dict[str, Any]], None]) -> dict[str, Any]:
    stop: StopReason = "time_limit"
    try:
        with anyio.move_on_after(task.budget.minutes * 60):
            stop = await agent.run(task, emit)
    except AgentFailed as failed:
        return {"stop": "agent_failed", "error": str(failed)}
    except AgentMisconfigured as wrong:
        return {"stop": "misconfigured", "error": str(wrong)}
    except AgentUnavailable as unavailable:
        return {"stop": "broken", "error": str(unavailable)}
    except Exception as fault:  # one run must not end the others; the record says what happened
        return {"stop": "broken", "error": f"{type(fault).__name__}: {fault}"}
    return {"stop": stop}


def _for_progress(kind: EventKind, data: dict[str, Any]) -> str:
    if kind == "note" and "text" in data:
        return str(data["text"])
    if kind == "tool_call":
        return f"{data['tool']} ..."
    return ""


def _logged(folder: Path) -> list[dict[str, Any]]:
    """The server's call log; empty where no server was started."""
    path = folder / "calls.jsonl"
    return calllog.read(path) if path.exists() else []


def _counted(log: list[dict[str, Any]]) -> dict[str, Any]:
    """What the server's call log says the agent did."""
    calls = Counter(line["tool"] for line in log if line.get("event") == "call_start")
    judged = sum(map(is_judgement, log))
    found = {"evaluations": judged, "tool_calls": dict(calls), "cells_read": calllog.cells_read(log)}
    # Of hosts, what stood around the kernels there; the weakest.
    if there := sorted(
        {line["isolation"] for line in log if line.get("isolation") and line["status"] != "harness_error"}
    ):
        found["isolation"] = next((kind for kind in there if kind != "bubblewrap"), "bubblewrap")
    return found


async def _judged_again(run: Run, workload: str, folder: Path, judge_factory: JudgeFactory, progress: Progress) -> Run:
    """The run with the verdict on its best kernel, judged afresh from the text the server kept."""
    lines = _logged(folder)
    chosen = best(lines)
    if chosen is None:
        judged = any(calllog.is_verdict(line) for line in lines)
        return run.model_copy(update={"status": "no_correct_kernel" if judged else "no_kernel"})
    progress("judging the best kernel again")
    source = (folder / "kernels" / f"{chosen.kernel_sha256}.py").read_text(encoding="utf-8")
    async with judge_factory() as judge:
        again: Evaluation = await judge.evaluate(source, workloads.find(workload), run.tpu)
        if again.status == "timeout":
            # It was in time in the session: a busy machine is no fault of the agent.
            progress("the judgement took too long; judging once more")
            again = await judge.evaluate(source, workloads.find(workload), run.tpu)
    write_atomically(folder / "judged_again.json", again.model_dump_json(indent=1))
    found: dict[str, Any] = {
        "kernel_sha256": chosen.kernel_sha256,
        "first_speedup": chosen.speedup,
        "judged_again": again.status,
        "versions": again.versions,
        "isolation": again.isolation,
        "judged_on": again.judged_on,
        "artifact_sha256": again.artifact.sha256 if again.artifact else None,
    }
    if again.status == "harness_error":
        found |= {"status": "broken", "error": again.message}
    elif again.status != "correct":
        found |= {"status": "not_confirmed", "error": again.message}
    else:
        found["status"] = "correct"
        if timing := again.timing:
            found |= {name: getattr(timing, name) for name in _FROM_TIMING}
    return run.model_copy(update=found)
