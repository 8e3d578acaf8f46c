"""A connection to one registered host: directly or through a tunnel, with its token."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2
from pydantic import ValidationError

from hawkeye_mcp.hosts import health
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.hosts.health import Health
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.hosts.tunnel import open_tunnel

_OWN_WAY = "127.0.0.1", "localhost", "::1"  # no proxy leads to these


@dataclass(frozen=True)
class Link:
    """One host, reachable while its context lasts. base: the URL that /mcp and /health are under."""

    name: str
    host: Host
    base: str
    http: httpx2.AsyncClient

    async def health(self) -> Health:
        """What the host says of itself.

        Raises:
            HostFailed: no answer in time, or none of a server that knows us.
        """
        try:
            with anyio.fail_after(self.host.timeout_s):
                answer = await self.http.get(self.base + health.PATH)
        except TimeoutError:
            raise HostFailed("silent", f"no answer within {self.host.timeout_s:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise unreachable(self, error) from None
        if answer.status_code == 401:
            raise HostFailed("token", self.token_advice())
        try:
            if answer.status_code == 200:
                return Health.model_validate_json(answer.content)
        except ValidationError:
            pass
        raise HostFailed(
            "stranger",
            f"what answers at {self.base} is no hawkeye-mcp that tells its health (HTTP {answer.status_code}): "
            "is the address right, and the server there as new as this one?",
        )

    def token_advice(self) -> str:
        """What to do about a token that the host does not take, or misses."""
        if self.host.token_kept == "none":
            return f"it asks for a token: `hawkeye hosts add {self.name} ... --token-env NAME` tells which is yours"
        return f"it does not take the token ({self.host.token_kept}): ask its operator, who has the file of tokens"


@asynccontextmanager
async def connect(name: str, host: Host, silence_s: float) -> AsyncIterator[Link]:
    """Open the way to a host. silence_s: how long a connection may carry nothing.

    Raises:
        HostFailed: our token cannot be had, or the tunnel not be made.
    """
    token = _token(host)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(silence_s, connect=host.timeout_s, pool=None)
    async with AsyncExitStack() as stack:
        base, transport = host.url, None
        if host.ssh:
            end = await stack.enter_async_context(open_tunnel(host.ssh, host.port, host.timeout_s))
            base = f"http://127.0.0.1:{host.port}"
            # The socket has its name a moment before ssh listens at it.
            transport = httpx2.AsyncHTTPTransport(uds=str(end), retries=2)
        proxies = httpx2.URL(base).host not in _OWN_WAY
        client = httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport, trust_env=proxies)
        yield Link(name, host, base, await stack.enter_async_context(client))


def unreachable(link: Link, error: Exception) -> HostFailed:
    if link.host.ssh:  # the tunnel stands, or this would not have been tried
        why = f"nothing answers at port {link.host.port} of its 127.0.0.1: is `hawkeye-mcp --transport http` running there?"
    else:
        why = (
            f"it cannot be reached: {str(error) or type(error).__name__}: is the address right, and `hawkeye-mcp --transport "
            "http` running there?"
        )
    return HostFailed("unreachable", why)


def sends_token_openly(host: Host) -> bool:
    """Whether a token goes over a network as it is."""
    return host.url.startswith("http:") and httpx2.URL(host.url).host not in _OWN_WAY and host.token_kept != "none"


def _token(host: Host) -> str:
    """Our token for the host, "" if it needs none.

    Raises:
        HostFailed: it cannot be had.
    """
    if host.token_env:
        found, where = os.environ.get(host.token_env, ""), f"the environment variable {host.token_env}"
    elif host.token_file:
        where = host.token_file
        try:
            found = Path(host.token_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise HostFailed("token", f"the file with its token cannot be read: {error}") from None
    elif host.token:
        found, where = host.token.get_secret_value(), "the registry"
    else:
        return ""
    words = found.split()  # `OWNER TOKEN`, as it was printed, or the token alone
    if len(words) not in (1, 2) or not words[-1].isascii():
        raise HostFailed("token", f"{where} holds no token: it should be one word, or `OWNER TOKEN`")
    return words[-1]
