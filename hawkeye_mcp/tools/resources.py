"""Workloads, evaluations, cells and pooled kernels as MCP resources, as far as the condition shows them."""

import json

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.mcpserver.resources import FunctionResource

from hawkeye_mcp import conditions, picture, workloads
from hawkeye_mcp.chips import DEFAULT_TPU
from hawkeye_mcp.jobs import UnknownJob
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.submissions import App, Settings
from hawkeye_mcp.tools import arguments, reports
from hawkeye_mcp.tools.answering import app_of


def register(server: MCPServer[App], settings: Settings) -> None:
    kinds = {
        "workload": _workloads,
        "evaluation": _evaluations,
        "profile": _profiles,
        "taxonomy": _cells,
        "kernel": _kernels,
    }
    for name in conditions.resources(settings.condition):
        kinds[name](server, settings)
    if settings.job is not None:
        _gates(server)


def _workloads(server: MCPServer[App], settings: Settings) -> None:
    def statement(name: str) -> str:
        try:
            return workloads.statement(arguments.workload(settings, name))
        except ToolError as error:
            raise ResourceNotFoundError(str(error)) from None

    for name in [settings.workload] if settings.workload else workloads.names():
        summary = arguments.workload(settings, name).summary

        def one(name: str = name) -> str:
            return statement(name)

        server.add_resource(
            FunctionResource.from_function(
                one, f"workload://{name}", name=name, description=summary, mime_type="text/markdown"
            )
        )
    server.resource(
        "workload://{name}",
        name="workload",
        description="A workload's problem statement.",
        mime_type="text/markdown",
    )(statement)


def _evaluations(server: MCPServer[App], settings: Settings) -> None:
    def evaluation(id: str, ctx: Context[App]) -> str:
        record = app_of(ctx).pool.read(id)
        if record is None:
            raise ResourceNotFoundError(f"There is no evaluation {id!r}. Ids come from evaluate_kernel.")
        return reports.whole_json(record.evaluation, settings.condition)

    server.resource(
        "evaluation://{id}",
        name="evaluation",
        description="Everything the judge said of one kernel.",
        mime_type="application/json",
    )(evaluation)


def _profiles(server: MCPServer[App], settings: Settings) -> None:
    def read(id: str, ctx: Context[App]) -> Profile:
        try:
            found = app_of(ctx).jobs.read(id).result
        except UnknownJob:
            found = None
        if not isinstance(found, Profile):
            raise ResourceNotFoundError(f"There is no profile {id!r}; profiles do not outlive the server.")
        return found

    def profile(id: str, ctx: Context[App]) -> str:
        return reports.whole_json(read(id, ctx), settings.condition)

    def drawn(id: str, ctx: Context[App]) -> bytes:
        return picture.png([("", read(id, ctx))])

    server.resource(
        "profile://{id}",
        name="profile",
        description="Everything that was found of one kernel's schedule, by job_id.",
        mime_type="application/json",
    )(profile)
    server.resource(
        "profile://{id}/picture.png",
        name="picture of a profile",
        description="Roofline, where the cycles go and the hot loop's slots, by job_id.",
        mime_type="image/png",
    )(drawn)


def _gates(server: MCPServer[App]) -> None:
    from hawkeye_mcp.tools import gate_report

    def gate(id: str, ctx: Context[App]) -> str:
        try:
            found = gate_report.whole(app_of(ctx).jobs.read(id))
        except UnknownJob:
            found = None
        if found is None:
            raise ResourceNotFoundError(f"There is no result of a gate {id!r}; they do not outlive the server.")
        return json.dumps(found, indent=1, ensure_ascii=False)

    server.resource(
        "gate://{id}",
        name="result of a gate",
        description="Everything that was found of a port or a reference, by job_id.",
        mime_type="application/json",
    )(gate)


def _cells(server: MCPServer[App], settings: Settings) -> None:
    from hawkeye_mcp import taxonomy
    from hawkeye_mcp.tools import read_taxonomy_cell

    shown = conditions.cells(settings.condition)

    def cell(tpu: str, row: str) -> str:
        try:
            return read_taxonomy_cell.text(arguments.tpu(settings, tpu), row, "all", shown)
        except (taxonomy.UnknownCell, ToolError) as error:
            raise ResourceNotFoundError(str(error)) from None

    for found in read_taxonomy_cell.rows(settings.tpu or DEFAULT_TPU, shown):

        def one(tpu: str = found.tpu, row: str = found.row) -> str:
            return cell(tpu, row)

        uri = f"taxonomy://{found.tpu}/{found.row}"
        server.add_resource(
            FunctionResource.from_function(
                one, uri, name=found.row, description=found.one_line, mime_type="text/markdown"
            )
        )
    server.resource(
        "taxonomy://{tpu}/{row}",
        name="taxonomy cell",
        description="One technique on one TPU generation.",
        mime_type="text/markdown",
    )(cell)


def _kernels(server: MCPServer[App], settings: Settings) -> None:
    from hawkeye_mcp.tools.kernel_pool import pooled

    def kernel(id: str, ctx: Context[App]) -> str:
        record = pooled(app_of(ctx), settings, id)
        if record is None:
            raise ResourceNotFoundError(f"The pool holds no kernel {id!r}.")
        return record.kernel

    server.resource(
        "kernel://{id}",
        name="pooled kernel",
        description="The text of a correct kernel.",
        mime_type="text/x-python",
    )(kernel)
