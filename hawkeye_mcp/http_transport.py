"""The server over HTTP: who may connect from where, and beside `/mcp` its `/health` and the `/workloads/` that it is sent.

Without tokens it listens on this machine alone, and only under this machine's names, so that no web page can call it.
With tokens it may listen anywhere, and answers those who have one.
"""

import contextlib
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hawkeye_mcp.hosts import bundle, health, receiving
from hawkeye_mcp.submissions import App

logger = logging.getLogger(__name__)

Answer = Callable[[App, Request], Awaitable[Response]]


class CannotListen(ValueError):
    """The address cannot be listened on, or must not be; the message says what to do."""


def listen(host: str, port: int, *, guarded: bool) -> socket.socket:
    """A listening socket; port 0 takes any free one. guarded: tokens are asked for.

    Raises:
        CannotListen: others could reach the address and nothing guards it; or it is in use, or none of this machine.
    """
    try:
        # Resolved once, so that what was looked at is what is listened on; of a name with both, the IPv4 address.
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    except (OSError, OverflowError, UnicodeError) as error:
        raise CannotListen(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from None
    if not guarded and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise CannotListen(
            f"{host or address[0]} can be reached from other machines, and nothing asks who calls. Give --token-file FILE "
            "(`hawkeye hosts token OWNER >> FILE` makes one), or listen on 127.0.0.1 and come through an SSH tunnel"
        )
    try:
        return socket.create_server((address[0], port), family=family)
    except (OSError, OverflowError) as error:
        raise CannotListen(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from None


async def serve(server: MCPServer[App], listening: socket.socket, opened: Sequence[App], *, guarded: bool) -> None:
    """Serve until cancelled. opened: holds what the tools share, once the server has opened it."""
    import uvicorn

    class Quiet(uvicorn.Server):
        """Leaves signals to us."""

        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            yield

    host, port = listening.getsockname()[:2]
    security = _names_of_this_machine(host) if ipaddress.ip_address(host).is_loopback else None
    built = server.streamable_http_app(host=host, transport_security=security)
    beside = {health.PATH: (_health, ["GET"]), f"{bundle.PATH}{{digest}}": (receiving.answers(), ["GET", "PUT"])}
    for path, (answer, methods) in beside.items():
        route = _Beside(answer, opened, TransportSecurityMiddleware(security))
        endpoint: ASGIApp = RequireAuthMiddleware(route, []) if guarded else route
        built.router.routes.append(Route(path, endpoint=endpoint, methods=methods))
    config = uvicorn.Config(built, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    # It listens before it says so: whoever reads this can connect at once.
    logger.info("serving on http://%s:%d/mcp", f"[{host}]" if ":" in host else host, port)
    await Quiet(config).serve(sockets=[listening])


class _Beside:
    """An ASGI application: a class, because Starlette takes a function for one that answers requests."""

    def __init__(self, answer: Answer, opened: Sequence[App], security: TransportSecurityMiddleware) -> None:
        self._answer, self._opened, self._security = answer, opened, security

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await self._security.validate_request(request)
        if answer is None:
            answer = await self._answer(self._opened[0], request)
        await answer(scope, receive, send)


async def _health(app: App, _: Request) -> Response:
    return JSONResponse(health.here(*app.jobs.load(), app.settings.judge_hosts).model_dump(mode="json"))


def _names_of_this_machine(host: str) -> TransportSecuritySettings:
    names = dict.fromkeys(["127.0.0.1", "localhost", "[::1]", f"[{host}]" if ":" in host else host])
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in names],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
