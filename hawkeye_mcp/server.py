"""The MCP server: builds it for one condition, and serves it so that no byte, child or log line is lost.

This process never imports jax: everything heavy is behind the judge, in processes of its own.
"""

import argparse
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt

from hawkeye_mcp import __version__, conditions, kernels, owners, state, workloads
from hawkeye_mcp.calllog import CallLog
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.jobs import Jobs
from hawkeye_mcp.judging import Judge, JudgeFactory, JudgeHolder
from hawkeye_mcp.pool import Pool
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import evaluate_kernel, job, kernel_pool, profile, read_workload, resources, sanitize
from hawkeye_mcp.tools.arguments import FlatTool

if TYPE_CHECKING:
    from hawkeye_mcp.hosts.registry import Host

logger = logging.getLogger(__name__)

# What an exit by signal may take before the process ends without its remaining clean-up.
_EXIT_S = 8.0
# What reading stdin may hold up an exit that has nothing left to do.
_LINGER_S = 0.5


@asynccontextmanager
async def open_judge(tpu: str = DEFAULT_TPU) -> AsyncIterator[Judge]:
    """The real judge, imported only when a server starts; it warms up for one chip by itself."""
    from hawkeye_mcp.judge import evaluate

    async with evaluate.open_judge(warm=tpu) as judge:
        yield judge


def _read_taxonomy_cell(settings: Settings) -> FlatTool:
    from hawkeye_mcp.tools import read_taxonomy_cell

    return read_taxonomy_cell.build(settings)


_TOOLS: dict[str, Callable[[Settings], FlatTool]] = {
    "evaluate_kernel": evaluate_kernel.build,
    "profile": profile.build,
    "sanitize": sanitize.build,
    "read_workload": read_workload.build,
    "read_taxonomy_cell": _read_taxonomy_cell,
    "kernel_pool": kernel_pool.build,
    "job": job.build,
}


@dataclass(frozen=True)
class _Extra:
    """A tool that is there only where one setting is given, under any condition. module: of tools/, imported then."""

    needs: str
    module: str


# In the order that clients see them, after those of the condition.
_EXTRA: dict[str, _Extra] = {
    "verify_port": _Extra("job", "verify_port"),
    "compare_structure": _Extra("job", "compare_structure"),
    "reference_facts": _Extra("job", "reference_facts"),
    "ideas": _Extra("run", "ideas"),
    "run_state": _Extra("run", "run_state"),
    "autotune": _Extra("run", "autotune"),
}


def _extra_tools(settings: Settings) -> list[FlatTool]:
    wanted = [extra.module for extra in _EXTRA.values() if getattr(settings, extra.needs) is not None]
    return [importlib.import_module(f"hawkeye_mcp.tools.{module}").build(settings) for module in wanted]


def build_server(
    settings: Settings,
    judge_factory: JudgeFactory | None = None,
    on_closed: Callable[[], None] = lambda: None,
    on_opened: Callable[[App], None] = lambda app: None,
    tokens: Mapping[str, str] | None = None,
) -> MCPServer[App]:
    """The server for one condition.

    judge_factory: opens the judge; None means the real one. on_closed: called when everything the server holds has
    been closed: jobs, judge, logs. on_opened: called with what the tools share. tokens: of each owner, asked for over
    HTTP; None asks for none.
    """
    opening = (settings, judge_factory or partial(open_judge, settings.tpu or DEFAULT_TPU), on_closed, on_opened)
    server: MCPServer[App] = MCPServer(
        "hawkeye",
        title="Hawkeye: judge TPU Pallas kernels",
        version=__version__,
        instructions=conditions.loop(settings.condition, settings.tpu),
        tools=[
            *(_TOOLS[name](settings) for name in conditions.tools(settings.condition)),
            *_extra_tools(settings),
        ],
        lifespan=_lifespan(*opening),
        token_verifier=owners.Verifier(tokens) if tokens is not None else None,
        auth=owners.SETTINGS if tokens is not None else None,
        middleware=[log_calls],
        log_level="WARNING",
    )
    resources.register(server, settings)

    def optimize_kernel() -> str:
        subject = f" {settings.workload}" if settings.workload else ""
        loop = conditions.loop(settings.condition, settings.tpu)
        return f"Optimize a kernel for the workload{subject} with the tools of this server.\n{loop}"

    server.add_prompt(Prompt.from_function(optimize_kernel, description="The optimisation loop, step by step."))
    return server


def _lifespan(
    settings: Settings,
    judge_factory: JudgeFactory,
    on_closed: Callable[[], None],
    on_opened: Callable[[App], None],
) -> Callable[[MCPServer[App]], AbstractAsyncContextManager[App]]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[App]) -> AsyncIterator[App]:
        log = CallLog(settings.call_log)
        log.write(
            "server_start",
            pid=os.getpid(),
            version=__version__,
            condition=settings.condition,
            tpu=settings.tpu,
            workload=settings.workload,
            max_evaluations=settings.max_evaluations,
            **({"judge_hosts": settings.judge_hosts} if settings.judge_hosts else {}),
        )
        try:
            # Nested so that jobs end before the judge closes.
            async with anyio.create_task_group() as judge_tasks:
                judge = JudgeHolder(judge_tasks, judge_factory)
                try:
                    async with anyio.create_task_group() as job_tasks:
                        pool = Pool(settings.state / "pool.sqlite3")
                        app = App(settings, pool, log, judge, Jobs(job_tasks, settings.deadline_s, owners.current))
                        on_opened(app)
                        try:
                            # Whatever prints, now or at exit, must not reach the protocol's stdout.
                            with contextlib.redirect_stdout(sys.stderr):
                                yield app
                        finally:
                            job_tasks.cancel_scope.cancel()
                finally:
                    judge.close()
        finally:
            try:
                log.write("server_end", pid=os.getpid())
            finally:  # also when the disk is full
                log.close()
                on_closed()

    return lifespan


async def log_calls(ctx: ServerRequestContext[App, Any], call_next: CallNext) -> HandlerResult:
    """Middleware: two lines in the call log for every tool call, whatever becomes of it, and one for a resource read."""
    if ctx.method == "resources/read":
        return await _log_resource(ctx, call_next)
    if ctx.method != "tools/call" or ctx.request_id is None:
        return await call_next(ctx)
    log, params = ctx.lifespan_context.log, dict(ctx.params or {})
    arguments = params.get("arguments")
    if isinstance(arguments, dict) and isinstance(arguments.get("source"), str):
        arguments = {**arguments, "source": _kept(log, arguments["source"])}
    call = f"{os.getpid()}-{ctx.request_id}-{time.monotonic_ns()}"
    client, owner = ctx.session.client_params, owners.current()
    log.write(
        "call_start",
        call=call,
        tool=params.get("name"),
        arguments=arguments,
        client=client.client_info.model_dump(mode="json", exclude_none=True) if client else None,
        protocol=ctx.protocol_version,
        meta=_correlation(ctx.meta),
        **({"owner": owner} if owner else {}),
    )
    started, outcome = time.monotonic(), "cancelled"
    with log.collecting() as notes:
        try:
            result = await call_next(ctx)
            outcome = "ok"
            if isinstance(result, dict) and result.get("isError"):
                outcome = "tool_error"
                notes["error"] = "\n".join(c.get("text", "") for c in result.get("content", []))[:500]
            return result
        except Exception as error:
            outcome, notes["error"] = "protocol_error", str(error)[:500]
            raise
        finally:
            elapsed_s = round(time.monotonic() - started, 3)
            log.write("call_end", call=call, tool=params.get("name"), outcome=outcome, elapsed_s=elapsed_s, **notes)


async def _log_resource(ctx: ServerRequestContext[App, Any], call_next: CallNext) -> HandlerResult:
    log, uri = ctx.lifespan_context.log, dict(ctx.params or {}).get("uri")
    outcome = "cancelled"
    with log.collecting() as notes:
        try:
            result = await call_next(ctx)
            outcome = "ok"
            return result
        except Exception as error:
            outcome, notes["error"] = "protocol_error", str(error)[:500]
            raise
        finally:
            log.write("resource_read", uri=uri, outcome=outcome, **notes)


def _kept(log: CallLog, source: str) -> str:
    """What stands for a kernel text in the log: its hash, the text being kept once; or its size if it is refused."""
    size = len(kernels.encoded(source))
    if size > kernels.LARGEST_BYTES:
        return f"{size} bytes, not kept"
    return f"sha256:{log.keep_kernel(source)}" if source else ""


def _correlation(meta: Any) -> dict[str, Any]:
    """What the client sent along to identify the call, without the protocol's own envelope."""
    return {
        key: value
        for key, value in dict(meta or {}).items()
        if not key.startswith("io.modelcontextprotocol/") and key != "progress_token"
    }


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


def main(argv: Sequence[str] | None = None, judge_factory: JudgeFactory | None = None) -> NoReturn:
    """Console script: serve until the client goes away (exit 0) or a signal comes (exit 128 + its number)."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    options = parse(argv)
    if options.settings.call_log.is_relative_to(options.settings.workspace):
        logger.warning("the call log %s is inside the workspace: an agent can change it", options.settings.call_log)
    own = options.settings.workload_folder
    if own and own.is_relative_to(options.settings.workspace):
        logger.warning("the workload %s is inside the workspace: an agent can change how it is judged", own)
    declared = options.settings.job
    if declared and declared.is_relative_to(options.settings.workspace):
        logger.warning("the job %s is inside the workspace: an agent can change what a port is held against", declared)
    run = options.settings.run
    if run and run.is_relative_to(options.settings.workspace):
        logger.warning("the run %s is inside the workspace: an agent can change what it says", run)
    if options.judge_hosts and judge_factory is None:
        from hawkeye_mcp.hosts import judge

        judge_factory = partial(judge.open_judge, options.judge_hosts)
    exiting = _Exit()
    opened: list[App] = []
    server = build_server(
        options.settings, judge_factory, on_closed=exiting.closed, on_opened=opened.append, tokens=options.tokens
    )
    code = 0
    try:
        anyio.run(_serve, server, options, opened, exiting)
    except BaseExceptionGroup as group:
        # A client that went away (EPIPE) is an ordinary end, not a failure.
        _, other = group.split((BrokenPipeError, ConnectionResetError, anyio.BrokenResourceError))
        if other is not None:
            logger.exception("the server failed", exc_info=other)
            code = 1
    except BrokenPipeError:
        pass
    except Exception:
        logger.exception("the server failed")
        code = 1
    exiting.now(code)


class _Exit:
    """Ends the process. Reading stdin blocks a thread that nothing can cancel, so the end is os._exit."""

    def __init__(self) -> None:
        self.signal_number = 0

    def by_signal(self, number: int) -> None:
        """A signal came: the clean-up has a bounded time."""
        self.signal_number = number
        self._after(_EXIT_S, 128 + number)

    def closed(self) -> None:
        """Everything is closed: end now after a signal, else give a normal end a moment to come first."""
        if self.signal_number:
            self.now(128 + self.signal_number)
        self._after(_LINGER_S, 0)

    def _after(self, delay_s: float, code: int) -> None:
        timer = threading.Timer(delay_s, self.now, [code])
        timer.daemon = True
        timer.start()

    def now(self, code: int) -> NoReturn:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


async def _serve(server: MCPServer[App], options: Options, opened: list[App], exiting: _Exit) -> None:
    async with anyio.create_task_group() as tasks:
        await tasks.start(_watch_signals, tasks.cancel_scope, exiting)
        if options.listening is None:
            await server.run_stdio_async()
        else:
            from hawkeye_mcp import http_transport

            os.dup2(2, 1)  # what prints past Python goes where the logs go, as with stdio
            await http_transport.serve(server, options.listening, opened, guarded=options.tokens is not None)
        tasks.cancel_scope.cancel()


async def _watch_signals(scope: anyio.CancelScope, exiting: _Exit, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            logger.info("received %s", signal.Signals(number).name)
            exiting.by_signal(number)
            scope.cancel()


if __name__ == "__main__":
    main()
