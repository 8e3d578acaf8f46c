"""Runs agents and keeps what they did: the server's call log decides what happened, a fresh judgement what it
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
from typing import Any

import anyio
from mcp import StdioServerParameters

from hawkeye_bench import runs
from hawkeye_bench.agents import Agent, AgentFailed, AgentUnavailable, EventKind, Task
from hawkeye_bench.runs import Plan, Run, StopReason
from hawkeye_mcp import calllog, conditions, workloads
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.judging import Judge, JudgeFactory
from hawkeye_mcp.state import write_atomically

# What the server may inherit besides the few variables that the MCP client passes by itself.
_INHERITED = ("XDG_CACHE_HOME", "TMPDIR")
_SERVER = [sys.executable, "-m", "hawkeye_mcp.server"]

_FROM_TIMING = (
    "speedup speedup_interval indistinguishable candidate_us baseline_us source lower_bound baseline_method "
    "baseline_lower_bound"
).split()

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


def pending(plan: Plan, out: Path) -> tuple[list[Run], list[tuple[str, str, int]]]:
    """The runs that have ended, and those still to do: repeat by repeat, workload by workload, conditions in
    turn.
    """
    done: list[Run] = []
    to_do: list[tuple[str, str, int]] = []
    for repeat in range(1, plan.reps + 1):
        for workload in plan.workloads:
            for condition in plan.conditions:
                run = runs.finished(runs.folder(out, workload, condition, repeat))
                if run:
                    done.append(run)
                else:
                    to_do.append((workload, condition, repeat))
    return done, to_do


async def run_all(
    plan: Plan,
    agent: Agent,
    out: Path,
    progress: Progress,
    on_run: Callable[[Run], None],
    judge_factory: JudgeFactory = open_judge,
    server_command: list[str] = _SERVER,
) -> None:
    """Do every pending run of the plan, one after the other, and tell `on_run` each outcome."""
    _, to_do = pending(plan, out)
    if not to_do:
        return
    async with judge_factory() as judge:
        for workload, condition, repeat in to_do:
            on_run(await run_one(plan, agent, out, workload, condition, repeat, progress, judge, server_command))


async def run_one(
    plan: Plan,
    agent: Agent,
    out: Path,
    workload: str,
    condition: str,
    repeat: int,
    progress: Progress,
    judge: Judge,
    server_command: list[str] = _SERVER,
) -> Run:
    """One run from an empty folder to its record."""
    folder = runs.folder(out, workload, condition, repeat)
    name, declared = runs.name_of(workload), workloads.find(workload)
    runs.set_aside(folder)

    def say(text: str) -> None:
        progress(f"{name} {condition}: {text}")

    (folder / "state").mkdir(parents=True)
    workspace = runs.make_workspace(out, folder)
    run = Run(
        workload=name,
        condition=condition,
        repeat=repeat,
        tpu=plan.tpu,
        agent=agent.name,
        model=agent.model,
        status="broken",
        stop="broken",
        isolation=judge.isolation,
        no_power=declared.no_power,
        algebraic=declared.algebraic,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=0.0,
    )
    task = Task(
        workload=name,
        tpu=plan.tpu,
        workspace=workspace,
        server=_server(plan, folder, workspace, workload, condition, server_command),
        server_log=folder / "server.log",
        prompt=prompt(plan, name, condition),
        max_turns=plan.max_turns,
    )
    started = time.monotonic()
    stop, error, usage = await _let_work(agent, task, folder / "transcript.jsonl", plan.max_minutes, say)
    run = run.model_copy(update={"stop": stop, "error": error, **usage, **_counted(folder / "calls.jsonl")})
    if stop != "broken":
        run = await _judged_again(run, workload, folder, judge, say)
    run = run.model_copy(update={"seconds": round(time.monotonic() - started, 1)})
    # A broken run leaves no run.json: it says nothing of the agent, so the next start repeats it.
    record = "broken.json" if run.status == "broken" else "run.json"
    write_atomically(folder / record, run.model_dump_json(indent=1))
    return run


def prompt(plan: Plan, workload: str, condition: str) -> str:
    """What the agent is told; the loop comes from the server's own gate, so nothing withheld is mentioned."""
    template = Template((Path(__file__).parent / "agents" / "prompt.md").read_text(encoding="utf-8"))
    budget = f"{plan.max_evaluations} evaluations" if plan.max_evaluations else "as many evaluations as you need"
    loop = conditions.loop(conditions.parse(condition), plan.tpu)
    return template.substitute(workload=workload, tpu=plan.tpu, evaluations=budget, turns=plan.max_turns, loop=loop)


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


def _server(
    plan: Plan, folder: Path, workspace: Path, workload: str, condition: str, command: list[str]
) -> StdioServerParameters:
    arguments = {
        "--condition": condition,
        "--tpu": plan.tpu,
        "--workload": workload,
        "--workspace": workspace,
        "--state": folder / "state",
        "--call-log": folder / "calls.jsonl",
        "--max-evaluations": plan.max_evaluations,
    }
    flat = [str(part) for pair in arguments.items() for part in pair]
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return StdioServerParameters(command=command[0], args=[*command[1:], *flat], env=env)


async def _let_work(
    agent: Agent, task: Task, transcript: Path, max_minutes: float, progress: Progress
) -> tuple[StopReason, str | None, dict[str, int]]:
    """Why the agent stopped, what went wrong if anything did, and what its model calls cost."""
    usage: Counter[str] = Counter()
    with transcript.open("w", encoding="utf-8") as stream:

        def emit(kind: EventKind, data: dict[str, Any]) -> None:
            time_s = datetime.now(UTC).isoformat(timespec="milliseconds")
            stream.write(json.dumps({"time": time_s, "kind": kind, **data}, default=str) + "\n")
            stream.flush()
            if kind == "model":
                usage["turns"] += 1
                for name in ("prompt_tokens", "completion_tokens"):
                    if name in data:
                        usage[name] += data[name]
            if text := _for_progress(kind, data):
                progress(text)

        stop: StopReason = "time_limit"
        error: str | None = None
        try:
            with anyio.move_on_after(max_minutes * 60):
                stop = await agent.run(task, emit)
        except AgentFailed as failed:
            stop, error = "agent_failed", str(failed)
        except AgentUnavailable as unavailable:
            stop, error = "broken", str(unavailable)
        except Exception as fault:  # one run must not end the others; the record says what happened
            stop, error = "broken", f"{type(fault).__name__}: {fault}"
        emit("note", {"stop": stop, "error": error})
    return stop, error, dict(usage)


def _for_progress(kind: EventKind, data: dict[str, Any]) -> str:
    if kind == "note" and "text" in data:
        return str(data["text"])
    if kind == "tool_call":
        return f"{data['tool']} ..."
    return ""


def _counted(log_path: Path) -> dict[str, Any]:
    """What the server's call log says the agent did."""
    lines = calllog.read(log_path) if log_path.exists() else []
    calls = Counter(line["tool"] for line in lines if line.get("event") == "call_start")
    judged = sum(1 for line in lines if calllog.is_verdict(line) and not line.get("cached"))
    return {"evaluations": judged, "tool_calls": dict(calls), "cells_read": calllog.cells_read(lines)}


async def _judged_again(run: Run, workload: str, folder: Path, judge: Judge, progress: Progress) -> Run:
    """The run with the verdict on its best kernel, judged afresh from the text the server kept."""
    lines = calllog.read(folder / "calls.jsonl") if (folder / "calls.jsonl").exists() else []
    chosen = best(lines)
    if chosen is None:
        judged = any(calllog.is_verdict(line) for line in lines)
        return run.model_copy(update={"status": "no_correct_kernel" if judged else "no_kernel"})
    progress("judging the best kernel again")
    source = (folder / "kernels" / f"{chosen.kernel_sha256}.py").read_text(encoding="utf-8")
    again: Evaluation = await judge.evaluate(source, workloads.find(workload), run.tpu)
    write_atomically(folder / "judged_again.json", again.model_dump_json(indent=1))
    found: dict[str, Any] = {
        "kernel_sha256": chosen.kernel_sha256,
        "first_speedup": chosen.speedup,
        "judged_again": again.status,
        "versions": again.versions,
        "isolation": again.isolation,
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
