"""Which of several hosts does the work: the least busy one that answers; if it fails, the next."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.hosts.connection import Link, connect
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.hosts.health import Health
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.hosts.remote import SILENCE_S
from hawkeye_mcp.versions import versions

Outcome = TypeVar("Outcome")
Tell = Callable[[str], None]


class NoHost(Exception):
    """Not one of the hosts did it; why was told of each."""


async def on_one_of(
    hosts: Mapping[str, Host],
    work: Callable[[Link, Health], Awaitable[Outcome]],
    tell: Tell,
    silence_s: float = SILENCE_S,
) -> Outcome:
    """Have the work done on one host; a line is told of each that fails at it.

    Raises:
        NoHost: all failed.
    """
    names = list(hosts) if len(hosts) == 1 else await by_load(hosts, tell)
    for name in names:
        try:
            async with connect(name, hosts[name], silence_s) as link:
                health = await link.health()
                if difference := differences(name, health.versions):
                    tell(difference)
                return await work(link, health)
        except HostFailed as failed:
            tell(f"{name} is left out: {failed}")
    raise NoHost(f"None of the hosts did it ({', '.join(hosts)}). `hawkeye hosts check` says what each lacks.")


async def by_load(hosts: Mapping[str, Host], tell: Tell) -> list[str]:
    """The names of those that answer, the least busy first; of equally busy ones in the order given."""
    found = await asked(hosts)
    for name, answer in found.items():
        if isinstance(answer, HostFailed):
            tell(f"{name} is left out: {answer}")
    answering = {name: answer for name, answer in found.items() if isinstance(answer, Health)}
    return sorted(answering, key=lambda name: answering[name].load)


async def asked(hosts: Mapping[str, Host]) -> dict[str, Health | HostFailed]:
    """What each host says of itself, or why it does not; all at the same time."""
    found: dict[str, Health | HostFailed] = {}

    async def ask(name: str, host: Host) -> None:
        try:
            async with connect(name, host, host.timeout_s) as link:
                found[name] = await link.health()
        except HostFailed as failed:
            found[name] = failed

    async with anyio.create_task_group() as tasks:
        for name, host in hosts.items():
            tasks.start_soon(ask, name, host)
    return {name: found[name] for name in hosts}


def differences(name: str, there: Versions) -> str:
    """A line on what the host has in other versions; "" if nothing."""
    ours, theirs = versions().model_dump(), there.model_dump()
    differing = [
        f"{package} {theirs[package]} (here {ours[package]})" for package in ours if theirs[package] != ours[package]
    ]
    return f"{name} has {', '.join(differing)}: its figures and ours need not agree" if differing else ""
