"""The MCP server: builds it for one condition, and serves it so that no byte, child or log line is lost.

This process never imports jax: everything heavy is behind the judge, in processes of its own.
"""

import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt

from hawkeye_mcp import __version__, conditions, kernels, owners
from hawkeye_mcp.calllog import CallLog
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.jobs import Jobs
from hawkeye_mcp.judging import Judge, JudgeFactory, JudgeHolder
from hawkeye_mcp.pool import Pool
from hawkeye_mcp.server_options import Options, parse
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import evaluate_kernel, job, kernel_pool, profile, read_workload, resources, sanitize
from hawkeye_mcp.tools.arguments import FlatTool

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
