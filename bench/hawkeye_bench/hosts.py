"""Registered hosts that judge for a bench: agents work here, every kernel is judged there.

All of them judge as this machine would (the same versions, the same judge), and either all measure or all predict, so that
it does not matter which one a kernel meets. The plan names them, so no folder mixes runs of other ones.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio

from hawkeye_bench.runs import Plan, PlannedHost, Run
from hawkeye_mcp.hosts import registry
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.workloads import Workload

if TYPE_CHECKING:
    from hawkeye_mcp.hosts.errors import HostFailed
    from hawkeye_mcp.hosts.health import Health
    from hawkeye_mcp.judging import JudgeFactory

# What an agent's server needs besides to reach a host.
_INHERITED = ("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR")


class HostsUnusable(ValueError):
    """No bench can be judged on them as they are; the message says why and what to do."""


def look(names: str, tpu: str, workloads: Sequence[Workload] = ()) -> dict[str, PlannedHost]:
    """What a plan says of the hosts NAME,NAME,... or all, when each has said of itself that it can judge for `tpu`, and has
    what is not shipped of the workloads.

    Raises:
        HostsUnusable: one is not registered, does not answer, judges otherwise or does not take a workload; or some measure
            and others predict.
    """
    from hawkeye_mcp.hosts import judge
    from hawkeye_mcp.hosts.errors import HostFailed

    hosts = _registered(names)
    answers = anyio.run(_asked, hosts, [workload for workload in workloads if not workload.shipped])
    problems, found = [], {}
    for name, answer in answers.items():
        if isinstance(answer, HostFailed):
            problems.append(f"{name}: {answer}")
        elif difference := judge.unlike(answer):
            problems.append(f"{name}: {difference}")
        else:
            found[name] = PlannedHost(address=hosts[name].address, tpus=answer.tpus)
    if problems:
        raise HostsUnusable(". ".join(problems))
    measuring = [name for name, host in found.items() if tpu in host.tpus]
    if measuring and len(measuring) < len(found):
        others = ", ".join(name for name in found if name not in measuring)
        raise HostsUnusable(
            f"{', '.join(measuring)} would measure on {tpu} and {others} predict, and the two are never set against each "
            "other: name hosts of one kind."
        )
    return found


async def _asked(hosts: dict[str, Host], workloads: list[Workload]) -> "dict[str, Health | HostFailed]":
    """What each host says of itself, or why it cannot judge."""
    from hawkeye_mcp.hosts import choosing, sending
    from hawkeye_mcp.hosts.connection import connect
    from hawkeye_mcp.hosts.errors import HostFailed

    answers = await choosing.asked(hosts)
    for name in [name for name, answer in answers.items() if workloads and not isinstance(answer, HostFailed)]:
        try:
            async with connect(name, hosts[name], hosts[name].timeout_s) as link:
                for workload in workloads:
                    await sending.named(link, workload, lambda stage: None)
        except HostFailed as failed:
            answers[name] = failed
    return answers


def judge_of(plan: Plan) -> "JudgeFactory":
    """The plan's hosts as a judge.

    Raises:
        HostsUnusable: they are not registered any more as the plan has them.
    """
    from hawkeye_mcp.hosts import judge

    planned = plan.hosts or {}
    hosts = _registered(",".join(planned))
    for name, host in hosts.items():
        if host.address != planned[name].address:
            raise HostsUnusable(
                f"{name} is {host.address} now and was {planned[name].address} when the bench began: register it as it "
                "was, or begin another bench."
            )
    return partial(judge.open_judge, hosts)


def environment() -> dict[str, str]:
    """What the server of an agent, whose client may have another home, needs to know of this machine's registry."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"HAWKEYE_CONFIG": str(registry.file().parent.resolve())} | inherited


def words(hosts: dict[str, PlannedHost], tpu: str) -> str:
    """One sentence on who judges."""
    measured = any(tpu in host.tpus for host in hosts.values())
    named = ", ".join(f"{name} ({host.address})" for name, host in hosts.items())
    return f"Judged on {named}: times are {'measured' if measured else 'predicted'}."


def told(runs: Iterable[Run]) -> list[str]:
    """How many runs each host judged again, where any did."""
    found = Counter(run.judged_on for run in runs if run.judged_on and run.status != "broken")
    each = ", ".join(f"{name} ({count}x)" for name, count in sorted(found.items()))
    return [f"The best kernels were judged on {each}, registered hosts."] if found else []


def _registered(names: str) -> dict[str, Host]:
    try:
        hosts = registry.find(names)
    except registry.RegistryError as error:
        raise HostsUnusable(str(error)) from None
    for name, host in hosts.items():
        if host.token_env:
            raise HostsUnusable(
                f"the token of {name} is in the variable {host.token_env}, which the servers of agents are not given: "
                f"`hawkeye hosts add {name} ... --token-file FILE`"
            )
    return hosts
