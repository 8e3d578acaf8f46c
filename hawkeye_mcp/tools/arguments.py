"""Tool arguments: refused when unknown, explained when wrong, resolved against what the server has pinned."""

import difflib
import errno
import logging
import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from hawkeye_mcp import calllog, content, kernels, owners, workloads
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.workloads import Workload

logger = logging.getLogger(__name__)

WorkloadName = Annotated[str, Field(description="Workload name; empty: the server's own.")]
TpuName = Annotated[str, Field(description="v5e, v5p, v6e or 7x; empty: the server's own, else v5e.")]
KernelText = Annotated[str, Field(description="The kernel file's text. Give source or path, not both.")]
KernelPath = Annotated[str, Field(description="The kernel file's path: a .py file inside the workspace.")]
WaitSeconds = Annotated[float, Field(description="Seconds to wait, default 45; the client limits how long.")]
Picture = Annotated[bool, Field(description="true: adds a profile's picture.")]
Against = Annotated[str, Field(description="An earlier profile's job_id: adds its figures over these.")]


def _no_room(error: BaseException | None) -> bool:
    """Whether a disk that is full or fails, or a quota or limit on files that is used up, is behind an error."""
    while error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return True
        # The low byte is the kind; what is above it says at which file of the database.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return True
        error = error.__cause__ or error.__context__
    return False


class FlatTool(Tool):
    """A tool that refuses unknown arguments and says what is wrong in words for its caller."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        if problem := self._problem(arguments):
            raise ToolError(problem)
        try:
            return await super().run(arguments, context, convert_result=convert_result)
        except UnexpectedToolError as error:
            logger.exception("%s failed", self.name)
            if _no_room(error):
                raise ToolError(
                    f"The server cannot write its files, so {self.name} was not done: its disk is full, or fails. Nothing "
                    "recorded before is lost. Tell the operator to make room, then call it again."
                ) from None
            raise ToolError(
                f"{self.name} failed inside the server, which is no fault of the call. "
                "Call it again; if it fails again, the server's log on stderr says why."
            ) from None
        except ToolError as error:
            raise ToolError(str(error).removeprefix(f"Error executing tool {self.name}: ")) from None

    def _problem(self, arguments: dict[str, Any]) -> str:
        """What is wrong with the arguments, and what to do; empty when nothing is."""
        names = list(self.parameters.get("properties", {}))
        problems = []
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                name = ".".join(str(part) for part in found["loc"])
                if found["type"] == "extra_forbidden":
                    near = difflib.get_close_matches(name, names, n=1)
                    hint = f" (did you mean {near[0]!r}?)" if near else ""
                    problems.append(f"there is no argument {name!r}{hint}")
                else:
                    problems.append(f"{name}: {found['msg']}, got {_shown(found['input'])}")
        if not problems:
            return ""
        return f"{self.name}: {'; '.join(problems)}. Its arguments: {', '.join(names)}. Correct the call."


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def flat_tool(
    fn: Callable[..., Any],
    *,
    title: str,
    description: str,
    annotations: ToolAnnotations,
    output: type[BaseModel] | None = None,
) -> FlatTool:
    """The tool named after `fn`, with the shortest schemas that say everything.

    output: model of the structured result, published as the output schema; None publishes none.
    """
    # The model depends on the condition, which an annotation in the source cannot.
    fn.__annotations__["return"] = CallToolResult if output is None else Annotated[CallToolResult, output]
    tool = FlatTool.from_function(fn, title=title, description=description, annotations=annotations)
    assert isinstance(tool, FlatTool)
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = _slim(model.model_json_schema(by_alias=True), "title")
    if tool.fn_metadata.output_schema is not None:
        # an answer has every field, so the defaults say nothing
        tool.fn_metadata.output_schema = _slim(tool.fn_metadata.output_schema, "title", "default")
    return tool


def _slim(schema: dict[str, Any], *dropped: str) -> dict[str, Any]:
    """The schema of an object without these keywords in it and in its properties, and with short nullable types.

    pydantic's titles repeat the names in other letters.
    """
    slim = {key: value for key, value in schema.items() if key not in dropped}
    if "properties" in slim:
        slim["properties"] = {
            name: {key: value for key, value in _nullable(field).items() if key not in dropped}
            for name, field in slim["properties"].items()
        }
    return slim


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` a type and null as one type with two names, which says the same in half the letters."""
    first, *others = field.get("anyOf") or [{}]
    if others != [{"type": "null"}] or "type" not in first:
        return field
    rest = {key: value for key, value in field.items() if key != "anyOf"}
    return {**first, "type": [first["type"], "null"], **rest}


def workload(settings: Settings, name: str) -> Workload:
    """The workload that a call means.

    Raises:
        ToolError: unknown, not given where none is pinned, or not the pinned one.
    """
    if settings.workload:
        if name and name != settings.workload:
            raise ToolError(
                f"This server judges only the workload {settings.workload!r}, not {name!r}. "
                "Leave the workload argument empty."
            )
        try:
            return workloads.find_to_score(str(settings.workload_folder or settings.workload))
        except workloads.Unapproved as error:  # it was changed since the server started
            raise ToolError(
                f"Nothing is scored by {settings.workload!r} as it stands: {error.why}. "
                "Tell the person you work for, who has to approve it again: hawkeye job approve FOLDER"
            ) from None
    if settings.accept_workloads and name.startswith("sha256:"):
        return _sent(settings, name)
    if not name:
        raise ToolError(f"Name a workload. Workloads: {', '.join(workloads.names())}.")
    try:
        return workloads.load(name)
    except workloads.UnknownWorkload as error:
        raise ToolError(str(error)) from None


def _sent(settings: Settings, name: str) -> Workload:
    """One that this client's owner sent beforehand, over HTTP."""
    from hawkeye_mcp.hosts import bundle, uploads

    digest = bundle.digest_in(name)
    found = uploads.find(settings.state, owners.current(), digest) if digest else None
    if found is None:
        raise ToolError(f"This server holds no workload {name[:80]} of yours. Send it first: commands with --host do.")
    return found


def tpu(settings: Settings, name: str) -> str:
    """The TPU generation that a call means.

    Raises:
        ToolError: unknown, or not the pinned one.
    """
    if name and name not in TPUS:
        raise ToolError(f"There is no TPU generation {name!r} here. Generations: {', '.join(TPUS)}.")
    if settings.tpu and name and name != settings.tpu:
        raise ToolError(f"This server judges only for {settings.tpu}, not {name}. Leave the tpu argument empty.")
    return name or settings.tpu or DEFAULT_TPU


def kernel(settings: Settings, source: str, path: str) -> str:
    """The kernel text that a call means.

    Raises:
        ToolError: none or two given; or the file is missing, outside the workspace, no .py file, too large or not
            UTF-8.
    """
    if bool(source.strip()) == bool(path):
        raise ToolError(
            "Give exactly one of source (the kernel file's text) and path (a file inside the workspace); "
            f"{'both were' if path else 'neither was'} given."
        )
    if path:
        return _read(settings, path)
    try:
        size = len(source.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolError("The source holds lone surrogates, which no UTF-8 file can. Send valid text.") from None
    if size > kernels.LARGEST_BYTES:
        raise ToolError(f"The source has {size} bytes; a kernel file may have {kernels.LARGEST_BYTES}. Shorten it.")
    return source


def _read(settings: Settings, path: str) -> str:
    workspace = settings.workspace.resolve()
    try:
        file = (workspace / path).resolve()
    except (OSError, ValueError, RuntimeError):
        raise ToolError(f"{path!r} is no usable path. Give the path of a file inside the workspace.") from None
    if not file.is_relative_to(workspace) or _is_private(settings, file):
        raise ToolError(
            f"{path!r} is outside the workspace. Put the kernel file inside it, or pass its text as source."
        )
    if file.suffix != ".py":
        raise ToolError(f"{path!r} is no .py file. Give the kernel's Python file, or pass its text as source.")
    if not file.is_file():
        raise ToolError(f"There is no file {path!r} in the workspace. Write the kernel there first.")
    try:
        return kernels.read(file)
    except kernels.UnreadableKernel as error:
        raise ToolError(f"{path!r} {error}") from None


def _is_private(settings: Settings, file: Path) -> bool:
    """Whether the file is the server's, not the client's, although it may lie in the workspace.

    A kernel's error message quotes its lines, so whatever can be judged can be read.
    """
    folders = [settings.state, settings.call_log.parent / calllog.KERNELS, *content.private_paths()]
    folders += [settings.workload_folder] if settings.workload_folder else []
    installed = any(
        folder in ("site-packages", "dist-packages") and name.startswith("hawkeye")
        for folder, name in pairwise(file.parts)
    )
    return installed or any(file.is_relative_to(folder.resolve()) for folder in folders)
