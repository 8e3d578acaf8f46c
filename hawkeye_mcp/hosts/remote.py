"""One judgement on a host, over MCP: the kernel goes there, its stages are shown here, the whole result comes back."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation, RequestParamsMeta, TextContent, TextResourceContents
from pydantic import BaseModel, ValidationError

from hawkeye_mcp import __version__
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.hosts.connection import Link, unreachable
from hawkeye_mcp.hosts.errors import HostFailed, Kind
from hawkeye_mcp.hosts.health import FRESH
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.workloads import Workload

# The server sends a sign of life every few seconds while it works.
SILENCE_S = 60.0
# What telling a host that its work is not wanted any more may take.
_CANCEL_S = 5.0
_WAIT_S = 45.0
_NOT_DONE: dict[str, Kind] = {"harness_error": "judge", "budget_spent": "refused"}
_SANITIZED = ("silent", "findings", "failed")  # the sanitizer's whole result is its report

Result = TypeVar("Result", bound=BaseModel)
Progress = Callable[[str], None]


class NoVerdict(Exception):
    """The host ended the work without a result, for a reason that is none of its own: it was cancelled, or took too long."""

    def __init__(self, status: str, message: str, next_step: str) -> None:
        super().__init__(message)
        self.status, self.message, self.next_step = status, message, next_step


@dataclass(frozen=True)
class Order:
    """What a host is asked: which tool, on which kernel. tell: takes a line about the host's answer. fresh: judge it anew,
    also where the host has an earlier verdict on the same text.
    """

    kernel: str
    workload: Workload
    tpu: str
    progress: Progress = lambda stage: None
    tell: Callable[[str], None] = lambda line: None
    silence_s: float = SILENCE_S
    fresh: bool = False


async def evaluate(link: Link, order: Order) -> Evaluation:
    """The verdict of a host, whole.

    Raises:
        HostFailed: the host did not do it.
        NoVerdict: it did, but there is none.
    """
    return _parsed(Evaluation, await _whole(link, "evaluate_kernel", order), link, order)


async def profile(link: Link, order: Order) -> Profile:
    """As `evaluate`, for a profile."""
    return _parsed(Profile, await _whole(link, "profile", order), link, order)


async def sanitize(link: Link, order: Order) -> Sanitized:
    """As `evaluate`, for the sanitizer's findings; the host tells no times of its stages."""
    async with _work(link, "sanitize", order) as (_, report):
        if report.get("truncated"):
            order.tell("the answer was cut to fit; run it on the host itself to see all of it")
        skips = [dict(zip(("check", "reason"), skip.split(": ", 1), strict=False)) for skip in report["not_checked"]]
        left_out = {"job_id", "truncated"}
        whole = {key: value for key, value in report.items() if key not in left_out}
        return _parsed(Sanitized, whole | {"not_checked": skips, "stages_s": {}}, link, order)


async def _whole(link: Link, tool: str, order: Order) -> Any:
    async with _work(link, tool, order) as (client, report):
        read = await client.read_resource(report["full"])
        texts = [part.text for part in read.contents if isinstance(part, TextResourceContents)]
        return json.loads(texts[0])


@asynccontextmanager
async def _work(link: Link, tool: str, order: Order) -> AsyncIterator[tuple[Client, dict[str, Any]]]:
    """The finished report and the client that it came by; work that is not waited for any more is cancelled there."""
    job_id = ""
    try:
        async with _client(link) as client:
            workload = await _named(link, order)
            arguments = {"workload": workload, "source": order.kernel, "tpu": order.tpu, "wait_s": _WAIT_S}
            report = await _call(client, tool, arguments, order)
            while report["status"] == "running":
                job_id = report["job_id"]
                report = await _call(client, "job", {"job_id": job_id, "action": "wait", "wait_s": _WAIT_S}, order)
            if kind := _NOT_DONE.get(report["status"]):
                raise HostFailed(kind, f"{report['message']} {report['next_step']}")
            if not (report.get("full") or report["status"] in _SANITIZED):
                raise NoVerdict(report["status"], report["message"], report["next_step"])
            if order.fresh and report.get("cached"):
                raise HostFailed(
                    "stranger", "it answers with an earlier verdict where a new one was asked for: update it"
                )
            yield client, report
    except anyio.get_cancelled_exc_class():
        if job_id:
            await _cancel(link, job_id)
        raise
    except Exception as error:
        raise _failure(link, error) from None


async def _named(link: Link, order: Order) -> str:
    """What a call says for the workload; the host has it then."""
    if order.workload.shipped:
        return order.workload.name
    from hawkeye_mcp.hosts import sending  # it imports numpy, which a server that sends nothing does without

    return await sending.named(link, order.workload, order.progress)


@asynccontextmanager
async def _client(link: Link) -> AsyncIterator[Client]:
    transport = streamable_http_client(f"{link.base}/mcp", http_client=link.http, max_sse_event_size=None)
    about = Implementation(name="hawkeye", version=__version__)
    with anyio.fail_after(link.host.timeout_s) as opening:
        async with Client(transport, client_info=about, cache=None) as client:
            opening.deadline = float("inf")
            yield client


async def _call(client: Client, tool: str, arguments: dict[str, Any], order: Order) -> dict[str, Any]:
    """The JSON that a tool answers, unless nothing is heard of it for too long."""
    with anyio.CancelScope(deadline=anyio.current_time() + order.silence_s) as scope:

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            scope.deadline = anyio.current_time() + order.silence_s
            if message:
                order.progress(message)

        meta = cast("RequestParamsMeta", {FRESH: True}) if order.fresh else None
        result = await client.call_tool(tool, arguments, progress_callback=heard, meta=meta)
    if scope.cancelled_caught:
        raise HostFailed("silent", f"nothing was heard of it for {order.silence_s:g} s")
    text = next((part.text for part in result.content if isinstance(part, TextContent)), "")
    if result.is_error:
        raise HostFailed("refused", f"it refused: {text}")
    found: dict[str, Any] = json.loads(text)
    return found


async def _cancel(link: Link, job_id: str) -> None:
    """Tell the host that nobody waits for the job any more, by a client of its own: the other one is being cancelled."""
    with anyio.move_on_after(_CANCEL_S, shield=True):
        try:
            async with _client(link) as client:
                await client.call_tool("job", {"job_id": job_id, "action": "cancel"})
        except Exception:  # it is gone, and the work with it
            return


def _failure(link: Link, error: Exception) -> Exception:
    """What a fault of the connection means, in words; other faults as they are."""
    for leaf in _leaves(error):
        if isinstance(leaf, HostFailed | NoVerdict):
            return leaf
    for leaf in _leaves(error):
        if isinstance(leaf, httpx2.ConnectError | httpx2.ConnectTimeout):
            return unreachable(link, leaf)
        if isinstance(leaf, TimeoutError):
            return HostFailed("silent", "it did not open a session in time")
        if isinstance(leaf, httpx2.HTTPError | MCPError):
            return HostFailed("lost", f"the connection ended in the middle: {str(leaf) or type(leaf).__name__}")
        if isinstance(leaf, json.JSONDecodeError | KeyError | IndexError):
            return HostFailed("stranger", "its answer has another form than this version reads; are both up to date?")
    return error


def _leaves(error: BaseException) -> list[BaseException]:
    return (
        [leaf for one in error.exceptions for leaf in _leaves(one)]
        if isinstance(error, BaseExceptionGroup)
        else [error]
    )


def _parsed(model: type[Result], whole: Any, link: Link, order: Order) -> Result:
    """The answer as our model; what a newer server says beyond it is left out, and that is told.

    Raises:
        HostFailed: it is not of this form.
    """
    try:
        return model.model_validate(whole)
    except ValidationError as error:
        unknown = [found["loc"] for found in error.errors() if found["type"] == "extra_forbidden"]
    for place in unknown:
        _drop(whole, place)
    try:
        parsed = model.model_validate(whole)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HostFailed(
            "stranger",
            f"its answer has another form than this version reads ({where}: {first['msg']}); update the older one",
        ) from None
    names = ", ".join(sorted({".".join(part for part in place if isinstance(part, str)) for place in unknown}))
    order.tell(f"{link.name} also told what this version does not know, and what is left out here: {names}")
    return parsed


def _drop(whole: Any, place: tuple[int | str, ...]) -> None:
    for part in place[:-1]:
        whole = whole[part]
    del whole[place[-1]]
