"""How a host gets to know the workload of a judgement: one that is shipped by its name, an imported one by its files."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
from anyio.to_thread import run_sync

from hawkeye_mcp import workloads
from hawkeye_mcp.hosts import bundle
from hawkeye_mcp.hosts.connection import Link, unreachable
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.intake.written import NotImported
from hawkeye_mcp.workloads import Workload

_ELSEWHERE = "Judge by it here, without a host; or install hawkeye on the host and run the command there."
_LONGEST_WORDS = 2000  # of what a host says


class NotSendable(ValueError):
    """No host may have this workload; the message says why and what to do."""


def message(workload: Workload) -> bytes:
    """What a host gets of a workload that is not shipped.

    Raises:
        NotSendable: it was not made by an import, or is not approved.
    """
    try:
        workloads.refuse_unapproved(workload)
        packed = bundle.packed(workload)
    except workloads.Unapproved as error:
        raise NotSendable(str(error)) from None
    except (NotImported, OSError) as error:
        raise NotSendable(
            f"A host takes only workloads that `hawkeye job import` wrote, since another is code that it would have to "
            f"trust. It would refuse {workload.folder}: {error} {_ELSEWHERE}"
        ) from None
    if len(packed) > bundle.LARGEST_BYTES:
        raise NotSendable(
            f"{workload.folder} makes a message of {len(packed)} bytes, and hosts take {bundle.LARGEST_BYTES}. {_ELSEWHERE}"
        )
    return packed


async def named(link: Link, workload: Workload, progress: Callable[[str], None]) -> str:
    """What a call of a tool there says for the workload, which the host has then.

    Raises:
        HostFailed: the host does not take it, or cannot have it.
    """
    if workload.shipped:
        return workload.name
    try:
        packed = await run_sync(message, workload)
    except NotSendable as error:
        raise HostFailed("refused", str(error)) from None
    digest = bundle.digest(packed)
    if not await _ask(link, "GET", digest):
        progress("sending the workload")
        await _ask(link, "PUT", digest, packed)
    return bundle.reference(digest)


async def _ask(link: Link, method: str, digest: str, content: bytes | None = None) -> bool:
    """Whether the host has the workload now."""
    try:
        answer = await link.http.request(method, f"{link.base}{bundle.PATH}{digest}", content=content)
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise unreachable(link, error) from None
    except httpx2.TimeoutException:
        raise HostFailed("silent", "nothing was heard of it while it was sent the workload") from None
    except httpx2.HTTPError as error:
        why = str(error) or type(error).__name__
        raise HostFailed("lost", f"the connection ended while it was sent the workload: {why}") from None
    if answer.status_code == 401:
        raise HostFailed("token", link.token_advice())
    told = _read(answer.content)
    if answer.status_code == 200 and isinstance(told.get("held"), bool):
        return bool(told["held"])
    if isinstance(told.get("error"), str):
        raise HostFailed("refused", told["error"][:_LONGEST_WORDS])
    raise HostFailed(
        "refused",
        f"it takes no workloads (HTTP {answer.status_code}): its hawkeye-mcp is an older one. Update it, and start it with "
        f"--accept-workloads. {_ELSEWHERE}",
    )


def _read(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}
