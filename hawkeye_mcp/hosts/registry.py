"""The hosts that a person has registered: one file, changed only under a lock and replaced whole.

It may hold tokens, so only its owner can read it. What was found of a host's hardware is kept with its date.
"""

import difflib
import fcntl
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self, TypeVar
from urllib.parse import urlsplit

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_serializer, model_validator

from hawkeye_mcp.hosts.health import Machine
from hawkeye_mcp.state import write_atomically

ALL = "all"
DEFAULT_PORT = 8931
DEFAULT_TIMEOUT_S = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# Nothing that a shell, ssh's own options or a ProxyCommand could take for more than a name.
_SSH_TARGET = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9_.:-]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}

Changed = TypeVar("Changed")


class RegistryError(ValueError):
    """Something about the registered hosts; the message says what to do."""


class DamagedRegistry(RegistryError):
    """The file is not one of ours; it is left as it is."""


class UnknownHost(RegistryError):
    """No host of that name is registered."""


class BadHost(RegistryError):
    """A name or an address that no host can have, or one that is another's."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Facts(_Table):
    """What a host said of its machine, and when (ISO 8601, UTC)."""

    when: str
    machine: Machine


class Host(_Table):
    """How to reach one server: by URL, or by an SSH target on which it listens on 127.0.0.1."""

    url: str = Field("", description="Without /mcp at its end.")
    ssh: str = Field("", description="[USER@]HOST, or a name of ~/.ssh/config.")
    port: int = Field(DEFAULT_PORT, ge=1, le=65535, description="Of the server on an SSH target.")
    token: SecretStr | None = None
    token_env: str = Field(
        "", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", description="The environment variable that holds the token."
    )
    token_file: str = Field("", description="The file that holds the token.")
    timeout_s: float = Field(DEFAULT_TIMEOUT_S, gt=0, le=3600, description="Seconds until a first answer.")
    facts: Facts | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if bool(self.url) == bool(self.ssh):
            raise ValueError("a host has either a URL or an ssh target: give --url or --ssh, one of the two")
        if self.url and self.url != address_of(self.url):
            raise ValueError(f"the url must be written {address_of(self.url)}")
        if self.ssh and not _SSH_TARGET.fullmatch(self.ssh):
            raise ValueError(f"{self.ssh!r} is no SSH target: [USER@]HOST, or a name of ~/.ssh/config")
        if sum(map(bool, (self.token, self.token_env, self.token_file))) > 1:
            raise ValueError("a host has one token: kept here, in a variable or in a file")
        return self

    @field_serializer("token", when_used="json")
    def _reveal(self, token: SecretStr | None) -> str | None:
        return token.get_secret_value() if token else None

    @property
    def address(self) -> str:
        """What it is reached by; two hosts of one address are the same."""
        return self.url or f"ssh {self.ssh}, port {self.port}"

    @property
    def token_kept(self) -> str:
        """Where the token is, without the token."""
        if self.token_env:
            return f"${self.token_env}"
        return self.token_file or ("in this registry" if self.token else "none")


class _File(_Table):
    format: Literal["hawkeye.hosts/1"] = Field(alias="schema")
    hosts: dict[str, Host]


def file() -> Path:
    """Where the registry lies; the environment variable HAWKEYE_CONFIG names another folder."""
    return Path(os.environ.get("HAWKEYE_CONFIG") or user_config_path("hawkeye-mcp")) / "hosts.json"


def read() -> dict[str, Host]:
    """Every registered host by its name, in the order in which they came.

    Raises:
        DamagedRegistry: the file cannot be read or is none of ours.
    """
    path = file()
    try:
        text = path.read_text(encoding="utf-8")
        return dict(_File.model_validate_json(text).hosts)
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]  # the input may be a token
        why = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    except (OSError, UnicodeDecodeError) as error:
        why = str(error)
    raise DamagedRegistry(
        f"{path} is no registry of hosts: {why}. It was left as it is: mend it, or move it away "
        f"(`mv {shlex.quote(str(path))} {shlex.quote(f'{path}.bad')}`) and add the hosts again"
    ) from None


def add(name: str, host: Host) -> bool:
    """Register a host, or give the one of this name and address another token; returns whether it is a new one.

    Raises:
        BadHost: no name, or a name or an address that another host has.
        DamagedRegistry: see `read`.
    """
    if not _NAME.fullmatch(name) or name == ALL:
        raise BadHost(f"{name!r} is no name for a host: use letters, digits and . _ -, and not {ALL!r}")

    def edit(hosts: dict[str, Host]) -> bool:
        if same := [other for other, known in hosts.items() if known.address == host.address and other != name]:
            raise BadHost(f"{host.address} is registered already, as {same[0]}; `hawkeye hosts remove {same[0]}` first")
        earlier = hosts.get(name)
        if earlier and earlier.address != host.address:
            raise BadHost(f"{name} is {earlier.address}; `hawkeye hosts remove {name}` first, or choose another name")
        hosts[name] = host.model_copy(update={"facts": host.facts or (earlier.facts if earlier else None)})
        return earlier is None

    return _change(edit)


def remove(name: str) -> None:
    """Forget a host.

    Raises:
        UnknownHost, DamagedRegistry
    """

    def edit(hosts: dict[str, Host]) -> None:
        if name not in hosts:
            raise _unknown(name, hosts)
        del hosts[name]

    _change(edit)


def note(name: str, host: Host, facts: Facts) -> None:
    """Keep what the host said of its machine, unless it was removed or became another one meanwhile."""

    def edit(hosts: dict[str, Host]) -> None:
        if (known := hosts.get(name)) and known.address == host.address:
            hosts[name] = known.model_copy(update={"facts": facts})

    _change(edit)


def find(names: str) -> dict[str, Host]:
    """The hosts that a person means: NAME, NAME,NAME,... or all.

    Raises:
        UnknownHost: none of that name, or none at all.
        DamagedRegistry: see `read`.
    """
    hosts = read()
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if wanted == [ALL]:
        wanted = list(hosts)
    for name in wanted:
        if name not in hosts:
            raise _unknown(name, hosts)
    if not wanted and hosts:
        raise UnknownHost(f"{names!r} names no host. Registered: {', '.join(hosts)}")
    if not wanted:
        raise UnknownHost("No host is registered: `hawkeye hosts add NAME --ssh USER@HOST` adds one")
    return {name: hosts[name] for name in wanted}


def address_of(url: str) -> str:
    """A server's URL in the one form that is kept: without /mcp, the scheme's own port and capitals in the host.

    Raises:
        BadHost: no http or https URL of a server, or one with a user, a query or a fragment in it.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadHost(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in _DEFAULT_PORTS or not host or port == 0 or not re.fullmatch(r"[a-z0-9._:-]+", host):
        raise BadHost(f"{url!r} is no URL of a server: http://HOST:PORT or https://HOST")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise BadHost("a host's URL has no user, query or fragment; a token is given apart from it")
    shown = f"[{host}]" if ":" in host else host
    shown += f":{port}" if port and port != _DEFAULT_PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{shown}{parts.path.rstrip('/').removesuffix('/mcp').rstrip('/')}"


def _unknown(name: str, hosts: dict[str, Host]) -> UnknownHost:
    near = difflib.get_close_matches(name, hosts, n=1)
    known = f"Did you mean {near[0]}? " if near else ""
    known += (
        f"Registered: {', '.join(hosts)}" if hosts else "None is registered: `hawkeye hosts add NAME --ssh USER@HOST`"
    )
    return UnknownHost(f"There is no host {name!r}. {known}")


def _change(edit: Callable[[dict[str, Host]], Changed]) -> Changed:
    """Read, edit and replace the file while nobody else does."""
    try:
        with _locked():
            hosts = read()
            result = edit(hosts)
            text = _File(schema="hawkeye.hosts/1", hosts=hosts).model_dump_json(
                indent=2, by_alias=True, exclude_defaults=True
            )
            # A link, as people keep of their settings, stays one.
            write_atomically(file().resolve(), text + "\n", mode=0o600)
            return result
    except OSError as error:
        raise RegistryError(
            f"{file()} cannot be written: {error.strerror}; HAWKEYE_CONFIG names another folder"
        ) from None


@contextmanager
def _locked() -> Iterator[None]:
    """The system drops the lock with the process, so one killed at any moment leaves nothing to clean up."""
    path = file().with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
