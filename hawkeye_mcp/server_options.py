"""The command line of `hawkeye-mcp`: read, checked, and made into a server's settings."""

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hawkeye_mcp import __version__, conditions, owners, state, workloads
from hawkeye_mcp.calllog import CallLog
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.submissions import Settings

if TYPE_CHECKING:
    from hawkeye_mcp.hosts.registry import Host


@dataclass(frozen=True)
class Options:
    """The command line, checked. `listening` is the socket of the http transport; None means stdio. tokens: by owner.
    judge_hosts: those that judge, by name; none: this machine.
    """

    settings: Settings
    listening: socket.socket | None
    tokens: dict[str, str] | None = None
    judge_hosts: "dict[str, Host]" = field(default_factory=dict)


def parse(argv: Sequence[str] | None) -> Options:
    """Read the command line; wrong usage prints the legal values on stderr and exits 2."""
    parser = argparse.ArgumentParser(prog="hawkeye-mcp", description="MCP server that judges TPU Pallas kernels.")
    parser.add_argument(
        "--condition", default="full", choices=conditions.CONDITIONS, help=f"{conditions.HELP} Default: full"
    )
    parser.add_argument("--tpu", default="", choices=TPUS, help="pin the TPU generation; default: v5e, not pinned")
    parser.add_argument(
        "--workload",
        default="",
        help="pin the workload, by its name or its folder's path; default: the client names one",
    )
    parser.add_argument("--workspace", type=Path, default=Path.cwd(), help="where kernel files are read from")
    parser.add_argument("--state", type=Path, default=None, help="folder of the pool and the default call log")
    parser.add_argument("--call-log", type=Path, default=None, help="JSON Lines file; default: a new one in --state")
    parser.add_argument(
        "--job",
        type=Path,
        default=None,
        help="job file of `hawkeye job`: adds the tools that gate a port of it; its budget and chip hold",
    )
    parser.add_argument(
        "--run",
        type=Path,
        default=None,
        help="folder of `hawkeye runs new`: keeps every verdict, pins its workload and chip, adds the tools on it",
    )
    parser.add_argument(
        "--max-evaluations",
        type=int,
        default=None,
        help="evaluation budget; 0: no limit; default: what --job says, or none",
    )
    parser.add_argument(
        "--judge-host",
        default=None,
        metavar="NAME[,NAME]...|all",
        help="registered hosts that judge instead of this machine, the least busy one each time (hawkeye hosts); --host "
        "is where this server listens. The tools of --job run your own program, and stay here",
    )
    parser.add_argument("--transport", default="stdio", choices=("stdio", "http"))
    parser.add_argument("--host", default="127.0.0.1", help="for http; other than this machine only with --token-file")
    parser.add_argument("--port", type=int, default=8931, help="for http; 0: any free one")
    parser.add_argument(
        "--token-file",
        type=Path,
        default=None,
        help="for http: lines `OWNER TOKEN`, of those who may call (hawkeye hosts token OWNER); default: $HAWKEYE_TOKENS_FILE",
    )
    parser.add_argument(
        "--accept-workloads",
        action="store_true",
        help="for http: clients may send workloads that `hawkeye job import` wrote; each is looked at, and its owner's alone",
    )
    parser.add_argument("--version", action="version", version=f"hawkeye-mcp {__version__}")
    found = parser.parse_args(argv)
    if found.run is not None:
        _pin_to_run(parser, found)
    max_points = _as_job_says(parser, found) if found.job is not None else 0
    judging_hosts = _hosts(parser, found.judge_host) if found.judge_host is not None else {}
    if found.accept_workloads:
        _check_accepting(parser, found)
    pinned = _pinned(parser, found.workload, sent=bool(judging_hosts)) if found.workload else None
    if not found.workspace.is_dir():
        parser.error(f"argument --workspace: {found.workspace} is not a folder")
    if found.max_evaluations is not None and found.max_evaluations < 0:
        parser.error("argument --max-evaluations: must be 0 (no limit) or more")
    state_folder: Path = (found.state or state.folder()).resolve()
    name = f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.jsonl"
    settings = Settings(
        condition=conditions.parse(found.condition),
        tpu=found.tpu,
        workload=pinned.name if pinned else "",
        workload_folder=pinned.folder if pinned and not pinned.shipped else None,
        workspace=found.workspace.resolve(),
        state=state_folder,
        call_log=(found.call_log or state_folder / "calls" / name).resolve(),
        max_evaluations=found.max_evaluations or 0,
        max_points=max_points,
        job=found.job.resolve() if found.job else None,
        run=found.run.resolve() if found.run else None,
        judge_hosts=tuple(judging_hosts),
        accept_workloads=found.accept_workloads,
    )
    try:
        state_folder.mkdir(parents=True, exist_ok=True)
        CallLog(settings.call_log).close()
    except OSError as error:
        parser.error(f"cannot write {error.filename}: {error.strerror}; choose another --state or --call-log")
    if found.transport == "stdio":
        if found.token_file:
            parser.error("argument --token-file: only with --transport http; over stdio nobody else can call")
        return Options(settings, None, judge_hosts=judging_hosts)
    from hawkeye_mcp import http_transport

    given = found.token_file or os.environ.get("HAWKEYE_TOKENS_FILE")
    try:
        tokens = owners.read(Path(given)) if given else None
        listening = http_transport.listen(found.host, found.port, guarded=tokens is not None)
        return Options(settings, listening, tokens, judging_hosts)
    except owners.BadTokens as error:
        parser.error(f"argument --token-file: {error}")
    except http_transport.CannotListen as error:
        parser.error(f"argument --host: {error}")


def _check_accepting(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """Whether workloads can be sent to such a server."""
    if found.transport != "http":
        parser.error("argument --accept-workloads: only with --transport http; over stdio name a folder by --workload")
    if found.workload:
        parser.error("argument --accept-workloads: a server of one workload judges no other. Leave one of the two out")


def _hosts(parser: argparse.ArgumentParser, names: str) -> "dict[str, Host]":
    from hawkeye_mcp.hosts import registry

    try:
        return registry.find(names)
    except registry.RegistryError as error:
        parser.error(f"argument --judge-host: {error}")


def _pinned(parser: argparse.ArgumentParser, name: str, *, sent: bool) -> workloads.Workload:
    """sent: whether hosts have to get it."""
    try:
        found = workloads.find_to_score(name)
        if sent and not found.shipped:
            from hawkeye_mcp.hosts import sending

            sending.message(found)
    except ValueError as error:  # unknown, or nothing that hosts take
        parser.error(f"argument --workload: {error}")
    return found


def _as_job_says(parser: argparse.ArgumentParser, found: argparse.Namespace) -> int:
    """Fill in chip and budget from the job file where nothing else says them; gives its budget of points, 0 for none.

    Files that it names may be missing: a port may be written later.
    """
    from hawkeye_mcp.intake import report, rules

    if not found.job.is_file():
        parser.error(f"argument --job: there is no file {found.job}")
    told, job = rules.read(found.job)
    if job is None:
        parser.error(f"argument --job: {report.InvalidJob(told)} Mend it, or leave --job out.")
    found.tpu = found.tpu or job.target.tpu
    if found.max_evaluations is None:
        found.max_evaluations = job.budget.evaluations
    return job.budget.autotune_points or 0


def _pin_to_run(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """A run is of one workload on one chip, and so is a server that keeps its verdicts in it."""
    from hawkeye_mcp.runs import store

    try:
        subject = store.read(store.find(found.run))
    except (store.RunError, OSError) as error:
        parser.error(f"argument --run: {error}")
    workload = subject.workload_folder or subject.workload
    for name, given, of_run in (("--tpu", found.tpu, subject.tpu), ("--workload", found.workload, workload)):
        # Folders are compared as folders, however the path is spelt.
        if given and given != of_run and ("/" not in given or str(Path(given).resolve()) != of_run):
            parser.error(f"argument {name}: the run {subject.folder} is of {of_run}, not {given}. Leave {name} out.")
    found.tpu, found.workload = subject.tpu, workload
