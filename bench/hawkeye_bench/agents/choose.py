"""Agents by name, from what the command line says of them."""

import os
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_bench.agents import Agent
from hawkeye_bench.agents.builtin import BUILTIN_MODEL, BuiltinOptimiser
from hawkeye_bench.agents.minimal import MinimalAgent

AgentName = Literal["minimal", "claude-code", "codex", "openhands", "command", "replay"]
AGENTS: tuple[str, ...] = get_args(AgentName)

# What each agent takes besides --model; anything else that is given is an error.
_TAKES: dict[AgentName, frozenset[str]] = {
    "minimal": frozenset({"base_url", "api_key_env"}),
    "claude-code": frozenset({"base_url", "api_key_env", "program"}),
    "codex": frozenset({"base_url", "api_key_env", "program"}),
    "openhands": frozenset({"base_url", "api_key_env", "program"}),
    "command": frozenset({"command", "pass_env"}),
    "replay": frozenset({"kernels"}),
}
# An OpenAI-compatible endpoint tells tokens only, and Codex knows no prices.
NEVER_TELL_DOLLARS: frozenset[AgentName] = frozenset({"minimal", "codex", "replay"})
_OPTIONS = {
    "base_url": "--base-url",
    "api_key_env": "--api-key-env",
    "program": "--program",
    "command": "--command",
    "pass_env": "--pass-env",
    "kernels": "--kernels",
}


class AgentSpec(BaseModel):
    """What an agent is made from, in any process; secrets are only named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: AgentName = "minimal"
    model: str = ""
    base_url: str = ""
    api_key_env: str = Field("", description="Name of the environment variable that holds the key.")
    program: str = ""
    command: str = ""
    pass_env: tuple[str, ...] = ()
    kernels: str = ""

    def options(self) -> dict[str, str]:
        """What makes it another agent although its name and model are the same."""
        given = {"program": self.program, "command": self.command, "kernels": self.kernels}
        return {name: value for name, value in given.items() if value}


class Misfit(ValueError):
    """An option is missing, unknown to the agent, or names nothing. option: as on the command line."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


def make(spec: AgentSpec) -> Agent:
    """The agent.

    Raises:
        Misfit: see there.
    """
    given = spec.model_dump()
    for name, option in _OPTIONS.items():
        if given[name] and name not in _TAKES[spec.agent]:
            raise Misfit(option, f"--agent {spec.agent} does not take {option}; leave it out.")
    for variable in (spec.api_key_env, *spec.pass_env):
        if variable and not os.environ.get(variable):
            option = "--api-key-env" if variable == spec.api_key_env else "--pass-env"
            raise Misfit(option, f"the environment variable {variable} is not set; set it, or leave the option out.")
    if spec.agent == "replay":
        return _replay(spec)
    if spec.agent == "command":
        return _command(spec)
    if spec.agent == "minimal":
        return _minimal(spec)
    return _client(spec)


def _minimal(spec: AgentSpec) -> Agent:
    if spec.model in ("", "builtin"):
        if spec.base_url or spec.api_key_env:
            raise Misfit("--model", f"{BUILTIN_MODEL} takes no --base-url or --api-key-env; name a --model.")
        return BuiltinOptimiser()
    if not spec.base_url:
        raise Misfit(
            "--base-url",
            f"--model {spec.model} needs --base-url http(s)://...; without an endpoint use --model builtin.",
        )
    return MinimalAgent(spec.model, _checked_url(spec), spec.api_key_env)


def _client(spec: AgentSpec) -> Agent:
    """An agent that is a program of others: at the endpoint that it knows by itself, if none is named."""
    if not spec.model:
        raise Misfit("--model", f"--agent {spec.agent} needs --model NAME, as its client names models.")
    url = _checked_url(spec)
    if spec.agent == "claude-code":
        from hawkeye_bench.agents.claude_code import ClaudeCode

        return ClaudeCode(spec.model, url, spec.api_key_env, spec.program or "claude")
    if spec.agent == "codex":
        from hawkeye_bench.agents.codex import Codex

        return Codex(spec.model, url, spec.api_key_env, spec.program or "codex")
    if not spec.program:
        raise Misfit(
            "--program", "--agent openhands needs --program PYTHON: an interpreter (3.12 or newer) with openhands-sdk."
        )
    from hawkeye_bench.agents.openhands import OpenHands

    return OpenHands(spec.model, url, spec.api_key_env, spec.program)


def _checked_url(spec: AgentSpec) -> str:
    if spec.base_url and not spec.base_url.startswith(("http://", "https://")):
        raise Misfit("--base-url", f"{spec.base_url!r} does not begin with http:// or https://.")
    return spec.base_url


def _command(spec: AgentSpec) -> Agent:
    if not spec.command:
        raise Misfit("--command", "--agent command needs --command TEMPLATE: the program and its arguments.")
    from hawkeye_bench.agents.command import CommandAgent

    try:
        return CommandAgent(spec.command, spec.model, spec.pass_env)
    except ValueError as error:
        raise Misfit("--command", str(error)) from None


def _replay(spec: AgentSpec) -> Agent:
    if not Path(spec.kernels).is_dir() or not spec.kernels:
        raise Misfit("--kernels", "--agent replay needs --kernels FOLDER: the recorded kernels, by workload.")
    from hawkeye_bench.agents.replay import Replay

    return Replay(Path(spec.kernels))
