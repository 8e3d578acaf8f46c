"""What the tests against real clients share: where a client is, one run of it against a scripted model, and what is
asked of every such run.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_judge import FakeJudge
from hawkeye_bench import driver
from hawkeye_bench.agents import Agent
from hawkeye_bench.budget import Budget
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan, Run
from optimisation_session import CELL
from scripted_endpoint import COMPLETION_TOKENS, PROMPT_TOKENS

from hawkeye_mcp import calllog
from hawkeye_mcp.versions import versions

ROOT = Path(__file__).resolve().parent.parent.parent
FAKE_SERVER = [sys.executable, str(ROOT / "tests/fake_judge_server.py")]
KEY_VARIABLE, KEY = "SCRIPTED_MODEL_KEY", "dummy-key-of-the-script"
WORKLOAD = "8p_GEMM"


def installed(path: str) -> str:
    """A client's program below .clients/, or the test is skipped."""
    program = ROOT / ".clients" / path
    if not program.exists():
        pytest.skip(f"{program.relative_to(ROOT)} is not installed: run `make test-clients`")
    return str(program)


def folder(out: Path, condition: str = "none") -> Path:
    return key(condition).folder(out)


def key(condition: str) -> RunKey:
    return RunKey(WORKLOAD, condition, 1)


async def run(agent: Agent, out: Path, condition: str = "none", **budget: Any) -> Run:
    plan = Plan(
        agent=agent.name,
        model=agent.model,
        base_url="",
        tpu="v5e",
        budget=Budget(**{"minutes": 3.0} | budget),
        workloads=[WORKLOAD],
        conditions=[condition],
        reps=1,
        versions=versions(),
    )
    return await driver.run_one(
        plan, agent, out, key(condition), lambda text: None, FakeJudge().open, server_command=FAKE_SERVER
    )


def transcript(run_folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_folder / "transcript.jsonl").read_text().splitlines()]


def left_over(out: Path) -> list[str]:
    """The command lines of the processes that work in, or were told of, a folder below `out`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((entry / "cwd").readlink())
        except OSError:
            continue
        if int(entry.name) != os.getpid() and (str(out) in words or where.startswith(str(out))):
            found.append(words)
    return found


def check_optimisation(found: Run, out: Path, condition: str, *, edits: int) -> None:
    """Everything that holds of the scripted session, whatever client has played it. edits: files written."""
    cells = condition == "taxonomy"
    calls = edits + 3 + cells + 1  # each tool call, and the last word
    assert (found.status, found.stop, found.error) == ("correct", "finished", None)
    assert (found.speedup, found.first_speedup, found.evaluations) == (3.0, 3.0, 3)
    assert [read.row for read in found.cells_read] == [CELL] * cells
    assert found.tool_calls == {"evaluate_kernel": 3} | ({"read_taxonomy_cell": 1} if cells else {})
    assert found.productive_turns == edits + 3 + cells
    assert found.turns == calls
    assert (found.prompt_tokens, found.completion_tokens) == (PROMPT_TOKENS * calls, COMPLETION_TOKENS * calls)
    events = transcript(folder(out, condition))
    tools = [event["tool"] for event in events if event["kind"] == "tool_call"]
    assert tools.count("evaluate_kernel") == 3
    assert tools.count("read_taxonomy_cell") == cells
    results = [event for event in events if event["kind"] == "tool_result"]
    assert [event["tool"] for event in results] == tools
    assert not [event for event in results if event["is_error"]]
    assert len([event for event in events if event["kind"] == "model"]) == calls
    judged = [event["text"] for event in results if event["tool"] == "evaluate_kernel"]
    assert ['"incorrect"' in text for text in judged] == [True, False, False]
    check_kept(out)


def check_kept(out: Path) -> None:
    """Nothing lives on, and the key, which the endpoint repeats in every answer, is in nothing that is shown."""
    assert left_over(out) == []
    for path in out.rglob("*"):
        if path.is_file() and "home" not in path.relative_to(out).parts:
            assert KEY.encode() not in path.read_bytes(), path


async def check_cancelled(agent: Agent, out: Path) -> None:
    """Cut off in the middle of an evaluation that never ends, a run leaves no process and no record."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, agent, out)
        with anyio.fail_after(120):
            while not _judging(out):
                await anyio.sleep(0.05)
        assert left_over(out)
        tasks.cancel_scope.cancel()
    assert not (folder(out) / "run.json").exists()
    assert [x["outcome"] for x in calllog.read(folder(out) / "calls.jsonl") if x["event"] == "call_end"] == [
        "cancelled"
    ]
    check_kept(out)


def _judging(out: Path) -> bool:
    log = folder(out) / "calls.jsonl"
    return log.exists() and any(line["event"] == "call_start" for line in calllog.read(log))


BENCH = """
import anyio, sys
from pathlib import Path
sys.path[:0] = {paths!r}
import client_runs
from {module} import {name}
anyio.run(client_runs.run, {name}({arguments}), Path({out!r}))
"""


async def check_killed(module: str, name: str, arguments: str, out: Path, environment: dict[str, str]) -> None:
    """When the bench itself is killed in the middle of an evaluation, its client and its server end too."""
    tests = Path(__file__).resolve().parent
    code = BENCH.format(
        paths=[str(tests), str(tests.parent)], module=module, name=name, arguments=arguments, out=str(out)
    )
    bench = await anyio.open_process([sys.executable, "-c", code], env={**os.environ, **environment}, stdout=None)
    with anyio.fail_after(120):
        while not _judging(out):
            assert bench.returncode is None
            await anyio.sleep(0.05)
        assert left_over(out)
        bench.send_signal(signal.SIGKILL)
        await bench.wait()
        while left_over(out):
            await anyio.sleep(0.05)
    await bench.aclose()
