"""Who may call the server over HTTP: one bearer token for each owner, from a file that the operator keeps.

A line of the file is `OWNER TOKEN`, as `hawkeye hosts token OWNER` prints it; empty lines and lines that begin with # are
left out. The file is read once, at the server's start.
"""

import hmac
import logging
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

logger = logging.getLogger(__name__)

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SHORTEST = 20  # characters; what `new_line` prints has 43
_TOKEN_BYTES = 32


class BadTokens(ValueError):
    """The file of tokens cannot be used; the message says why and what to do, and holds no token."""


def current() -> str:
    """The owner of the call that is being served; "" where the server asks for no token."""
    token = get_access_token()
    return token.client_id if token else ""


def new_line(owner: str) -> str:
    """A line for the server's file, with a token that nobody has yet.

    Raises:
        BadTokens: no owner can have this name.
    """
    _check_owner(owner)
    return f"{owner} {secrets.token_urlsafe(_TOKEN_BYTES)}"


def read(file: Path) -> dict[str, str]:
    """The token of each owner.

    Raises:
        BadTokens: unreadable, a line of another form, an owner or a token twice, a token that could be guessed, or none.
    """
    try:
        text = file.read_text(encoding="utf-8")
        if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            logger.warning("other users of this machine can read the tokens in %s: chmod 600 it", file)
    except (OSError, UnicodeDecodeError) as error:
        raise BadTokens(f"{file} cannot be read: {error}") from None
    tokens: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"{file}, line {number}"
        if len(words) != 2:
            raise BadTokens(f"{where} is not `OWNER TOKEN`; `hawkeye hosts token OWNER` prints such a line")
        owner, token = words
        _check_owner(owner)
        if owner in tokens:
            raise BadTokens(f"{where}: {owner} has a token already; remove one of the two lines")
        if not token.isascii() or len(token) < _SHORTEST:
            raise BadTokens(
                f"{where}: a token has {_SHORTEST} ASCII characters or more; `hawkeye hosts token {owner}` makes one"
            )
        if token in tokens.values():
            raise BadTokens(f"{where}: another owner has the same token; give each one of its own")
        tokens[owner] = token
    if not tokens:
        raise BadTokens(f"{file} holds no token; `hawkeye hosts token OWNER >> {file}` adds one")
    return tokens


def _check_owner(owner: str) -> None:
    if not _OWNER.fullmatch(owner):
        raise BadTokens(f"{owner!r} is no name for an owner: use letters, digits and . _ @ -, up to 64 of them")


class Verifier:
    """What the SDK asks about the token of each request."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = {owner: token.encode() for owner, token in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        # Headers are bytes that were read as Latin-1; every token is compared, in constant time.
        given, found = token.encode("latin-1", errors="replace"), None
        for owner, known in self._tokens.items():
            if hmac.compare_digest(given, known):
                found = owner
        return AccessToken(token=token, client_id=found, scopes=[]) if found else None


# The SDK wants the address of an OAuth server. There is none: without a resource URL nothing is published of it.
SETTINGS = AuthSettings.model_validate({"issuer_url": "http://127.0.0.1", "resource_server_url": None})
