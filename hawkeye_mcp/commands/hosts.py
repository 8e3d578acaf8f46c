"""`hawkeye hosts`: the machines that --host can send a kernel to."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeGuard

import typer

from hawkeye_mcp.commands import options, remote, running

if TYPE_CHECKING:
    from hawkeye_mcp.hosts.errors import HostFailed
    from hawkeye_mcp.hosts.health import Health
    from hawkeye_mcp.hosts.registry import Host

app = typer.Typer(
    no_args_is_help=True,
    help="The machines that --host can send a kernel to: they run `hawkeye-mcp --transport http`.",
)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What --host will call it.")],
    url: Annotated[str, typer.Option(metavar="URL", help="Where the server answers: http://HOST:PORT.")] = "",
    ssh: Annotated[
        str,
        typer.Option(metavar="[USER@]HOST", help="Or reach it through an SSH tunnel; a name of ~/.ssh/config will do."),
    ] = "",
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="With --ssh: of the server on its 127.0.0.1. Default: 8931.")
    ] = None,
    token_env: Annotated[
        str, typer.Option(metavar="VARIABLE", help="The environment variable that holds the token.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Or the file that holds it.")
    ] = None,
    read_token: Annotated[
        bool,
        typer.Option("--read-token", help="Or read it from stdin and keep it in the registry, readable by you alone."),
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to wait for its first answer. Default: 10.")
    ] = None,
) -> None:
    """Register a host, or tell where the token of a registered one is.

    The host is asked at once what it has; if it does not answer it is registered all the same.
    """
    from hawkeye_mcp.hosts import connection, registry

    if port is not None and not ssh:
        raise typer.BadParameter("only with --ssh; a URL has its port in it.", param_hint="--port")
    token = _read_token() if read_token else None
    given = {
        "url": url and _address(url),
        "ssh": ssh,
        "port": port,
        "token": token,
        "token_env": token_env,
        "token_file": str(token_file.resolve()) if token_file else "",
        "timeout_s": timeout,
    }
    host = _host({key: value for key, value in given.items() if value not in (None, "")})
    try:
        new = registry.add(name, host)
    except registry.BadHost as error:
        raise typer.BadParameter(str(error)) from None
    except registry.RegistryError as error:
        _fail(error)
    if connection.sends_token_openly(host):
        remote.tell(f"The token goes to {host.url} unencrypted: use https, or --ssh.")
    typer.echo(f"{name}: {host.address}, {'added' if new else 'changed'}")
    found = _ask({name: host})[name]
    typer.echo(f"{name}: {_told(found)}", err=not _answered(found))


@app.command("list")
def list_hosts(as_json: options.JsonOption = False) -> None:
    """List the registered hosts and what was found of each when it was last asked. Nothing is contacted."""
    from hawkeye_mcp.hosts import registry

    try:
        hosts = registry.read()
    except registry.RegistryError as error:
        _fail(error)
    if as_json:
        running.print_json([_shown(name, host) for name, host in hosts.items()])
    elif not hosts:
        typer.echo(f"No host is registered in {registry.file()}: `hawkeye hosts add NAME --ssh USER@HOST` adds one.")
    else:
        _print(hosts)


@app.command()
def remove(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Forget a host."""
    from hawkeye_mcp.hosts import registry

    try:
        registry.remove(name)
    except registry.UnknownHost as error:
        raise typer.BadParameter(str(error)) from None
    except registry.RegistryError as error:
        _fail(error)
    typer.echo(f"{name}: removed")


@app.command()
def check(
    names: Annotated[str, typer.Argument(metavar="[NAME[,NAME]...]", help="Default: all.")] = "all",
    as_json: options.JsonOption = False,
) -> None:
    """Ask hosts what they have and how busy they are, and keep what they have.

    Exit code: 0 all answered, 1 one did not.
    """
    from hawkeye_mcp.hosts import choosing, registry

    try:
        hosts = registry.find(names)
    except registry.UnknownHost as error:
        raise typer.BadParameter(str(error)) from None
    except registry.RegistryError as error:
        _fail(error)
    found = _ask(hosts)
    if as_json:
        running.print_json([_shown(name, registry.read().get(name, hosts[name])) | _now(found[name]) for name in hosts])
    else:
        for name, answer in found.items():
            typer.echo(f"{name}: {_told(answer)}")
            if _answered(answer) and (difference := choosing.differences(name, answer.versions)):
                typer.echo(f"  {difference}")
    raise typer.Exit(0 if all(map(_answered, found.values())) else running.EXIT_OTHER_VERDICT)


@app.command()
def token(owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose jobs the token stands for.")]) -> None:
    """Print a new line `OWNER TOKEN` for the file that `hawkeye-mcp --token-file` reads.

    The same line, in a file of its own, is what `hawkeye hosts add --token-file` takes on the owner's machine.
    """
    from hawkeye_mcp import owners

    try:
        typer.echo(owners.new_line(owner))
    except owners.BadTokens as error:
        raise typer.BadParameter(str(error)) from None


def _read_token() -> str:
    typed: str = typer.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    words = typed.split()
    if len(words) not in (1, 2) or not words[-1].isascii():
        raise typer.BadParameter("stdin held no token: one word, or `OWNER TOKEN`.", param_hint="--read-token")
    return words[-1]


def _address(url: str) -> str:
    from hawkeye_mcp.hosts import registry

    try:
        return registry.address_of(url)
    except registry.BadHost as error:
        raise typer.BadParameter(str(error), param_hint="--url") from None


def _host(given: dict[str, Any]) -> "Host":
    from pydantic import ValidationError

    from hawkeye_mcp.hosts.registry import Host

    try:
        return Host.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, found["loc"]))
        raise typer.BadParameter(
            f"{where + ': ' if where else ''}{found['msg'].removeprefix('Value error, ')}"
        ) from None


def _ask(hosts: "dict[str, Host]") -> "dict[str, Health | HostFailed]":
    """What each host says now; what it has is kept in the registry."""
    from hawkeye_mcp.hosts import choosing, registry
    from hawkeye_mcp.hosts.health import Health, Machine

    async def ask(progress: Any) -> "dict[str, Health | HostFailed]":
        progress("asking the hosts")
        return await choosing.asked(hosts)

    found = running.judged(ask, stopped="nothing more was noted")
    when = datetime.now(UTC).isoformat(timespec="seconds")
    for name, answer in found.items():
        if isinstance(answer, Health):
            facts = registry.Facts(when=when, machine=Machine.model_validate(answer.model_dump()))
            try:
                registry.note(name, hosts[name], facts)
            except registry.RegistryError as error:  # what was found can be told all the same
                remote.tell(str(error))
    return found


def _answered(found: "Health | HostFailed") -> "TypeGuard[Health]":
    return not isinstance(found, Exception)


def _told(found: "Health | HostFailed") -> str:
    if isinstance(found, Exception):
        return str(found)
    busy = f"{found.running} jobs running, {found.queued} waiting"
    return f"{remote.attached(found.tpus)}, {found.cpus} CPUs, hawkeye {found.versions.hawkeye}, {busy}"


def _now(found: "Health | HostFailed") -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"answers": False, "why": str(found), "running": None, "queued": None}
    return {"answers": True, "why": None, "running": found.running, "queued": found.queued}


def _shown(name: str, host: "Host") -> dict[str, Any]:
    """Everything but the token."""
    facts = host.facts.model_dump(mode="json") if host.facts else None
    return {
        "name": name,
        "address": host.address,
        "token": host.token_kept,
        "timeout_s": host.timeout_s,
        "facts": facts,
    }


def _print(hosts: "dict[str, Host]") -> None:
    from hawkeye_mcp import display

    rows = display.table("name", "address", "token", "TPU", ">CPUs", "hawkeye", "libtpu", "asked (UTC)")
    for name, host in hosts.items():
        cells = [name, host.address, host.token_kept]
        if facts := host.facts:
            machine = facts.machine
            cells += [
                remote.attached(machine.tpus),
                str(machine.cpus),
                machine.versions.hawkeye,
                machine.versions.libtpu,
            ]
            cells.append(facts.when[:16].replace("T", " "))
        else:
            cells += ["unknown: it has not answered yet"]
        rows.add_row(*(display.plain(cell) for cell in cells))
    running.console().print(rows)


def _fail(error: Exception) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(running.EXIT_HARNESS) from None
