"""`/workloads/DIGEST` of a server: GET asks whether it holds a workload of the caller's, PUT sends one."""

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from hawkeye_mcp import owners
from hawkeye_mcp.hosts import bundle, uploads
from hawkeye_mcp.hosts.uploads import Refused
from hawkeye_mcp.submissions import App

logger = logging.getLogger(__name__)

_AT_A_TIME = 2  # messages in memory
_ARRIVES_IN_S = 120.0
_OFF = Refused(
    403,
    "This server takes no workloads: it was started without --accept-workloads. Ask its operator for that, or judge by it "
    "here, without a host.",
)


def answers() -> Callable[[App, Request], Awaitable[Response]]:
    """What answers these requests: {"held": whether it does}, or {"error": why not}."""
    at_a_time = anyio.CapacityLimiter(_AT_A_TIME)

    async def answer(app: App, request: Request) -> Response:
        if not app.settings.accept_workloads:
            return _error(_OFF)
        digest = bundle.digest_in(bundle.reference(request.path_params["digest"]))
        if digest is None:
            return _error(Refused(404, "There is no such workload: it is named by 64 hexadecimal digits."))
        owner = owners.current()
        if request.method != "PUT":
            found = await run_sync(uploads.find, app.settings.state, owner, digest)
            return JSONResponse({"held": found is not None})
        try:
            async with at_a_time:
                await _take(app, owner, digest, request)
        except Refused as refused:
            app.log.write("workload_refused", owner=owner, workload_sha256=digest, why=str(refused))
            return _error(refused)
        return JSONResponse({"held": True})

    return answer


async def _take(app: App, owner: str, digest: str, request: Request) -> None:
    """Raises Refused: it is not taken."""
    try:
        message = await _body(request)
        taken = await run_sync(uploads.take, app.settings.state, owner, digest, message)
    except ClientDisconnect:
        raise Refused(400, "The message ended in the middle. Send it again.") from None
    except OSError:
        logger.exception("a workload cannot be kept")
        raise Refused(
            507, "The server cannot write its files: its disk is full, or fails. Tell its operator, then try again."
        ) from None
    about = {"owner": owner, "workload_sha256": digest, "workload": taken.name}
    app.log.write("workload_taken", **about, bytes=len(message))


async def _body(request: Request) -> bytes:
    """The message, as far as it is not too long or too slow.

    Raises:
        Refused: it is.
    """
    too_long = Refused(413, f"The message has more than {bundle.LARGEST_BYTES} bytes, which is what this server takes.")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > bundle.LARGEST_BYTES:
        raise too_long
    found = bytearray()
    with anyio.move_on_after(_ARRIVES_IN_S):
        async for part in request.stream():
            found += part
            if len(found) > bundle.LARGEST_BYTES:
                raise too_long
        return bytes(found)
    raise Refused(408, f"The message did not arrive within {_ARRIVES_IN_S:g} s. Try again.")


def _error(refused: Refused) -> Response:
    return JSONResponse({"error": str(refused)}, status_code=refused.status)
