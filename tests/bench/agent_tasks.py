"""What the tests of agents that are programs of others share: a task, what an agent emits, and a program to start."""

import json
import sys
from pathlib import Path
from typing import Any

from bench_fixtures import FAKE_SERVER
from hawkeye_bench.agents import Task
from hawkeye_bench.budget import Budget
from mcp import StdioServerParameters


def task(folder: Path, **budget: Any) -> Task:
    for name in ("workspace", "home"):
        (folder / name).mkdir()
    return Task(
        workload="8p_GEMM",
        tpu="v5e",
        workspace=folder / "workspace",
        home=folder / "home",
        server=StdioServerParameters(command=FAKE_SERVER[0], args=[*FAKE_SERVER[1:], "--condition", "none"], env={}),
        server_log=folder / "server.log",
        prompt="Optimise it.",
        budget=Budget(**budget),
    )


class Emitted(list[dict[str, Any]]):
    """The events of one run, each with its kind."""

    def __call__(self, kind: str, data: dict[str, Any]) -> None:
        self.append({"kind": kind, **data})

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self if event["kind"] in kinds]

    def tokens(self) -> tuple[int, int]:
        """Of the prompt and of the answers, over all events that tell of any."""
        told = self.of("model", "usage")
        return tuple(sum(event.get(name) or 0 for event in told) for name in ("prompt_tokens", "completion_tokens"))


def program(path: Path, code: str) -> str:
    """A program that is Python."""
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return str(path)


def line(**fields: Any) -> str:
    return json.dumps(fields)
