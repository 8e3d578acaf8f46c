"""A port, which is JAX that somebody else wrote, traced where it can do no harm; what comes back is read as hostile.

The exported program, the structure and the emitted source all come out of the port's own process, so each may be forged.
Each is checked by itself where it is used: the exported program is audited and run on the recorded inputs
(`verify_port`), and so is the emitted source, after its whitelist (`emitted`), in a trusted process that takes down its
structure anew. Only the emitted source is ever imported.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from anyio.to_thread import run_sync
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import Ended, SandboxPool
from hawkeye_mcp.chips import CHIPS, DEFAULT_TPU
from hawkeye_mcp.intake.graph import BadStructure, read
from hawkeye_mcp.workloads import Size

Shaped = tuple[Sequence[int], str]
MOST_PORT_BYTES = 1 << 20
_SOURCE_BYTES = 4 << 20
_CONSTANTS_BYTES = 16 << 20
_STAGES = {
    "import": (
        "The port cannot be loaded",
        "Mend the file: it must define workload(...), and import only what jax needs.",
    ),
    "trace": (
        "The port cannot be traced",
        "Mend it so that workload(...) takes exactly the arguments listed, in that order, as abstract arrays.",
    ),
    "export": (
        "The port cannot be exported for the CPU",
        "Write it in plain jax.numpy and jax.lax: a port is a reference, so no Pallas, callbacks or host code.",
    ),
    "write": ("The port's program cannot be taken down", "Write it with plain jax.numpy and jax.lax operations."),
}


class PortRefused(Exception):
    """The port is at fault.

    message: what happened and why. fix: what to do next. details: the port's own lines, if they are known.
    """

    def __init__(self, message: str, fix: str, details: str = "") -> None:
        super().__init__(f"{message} {fix}")
        self.message, self.fix, self.details = message, fix, details


class SandboxFailed(RuntimeError):
    """The sandbox ended before it took the port: this installation or machine is at fault."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Constant(_Part):
    """An array of the port's own that the emitted source takes after the arguments."""

    name: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=1 << 40)]], Field(max_length=32)]
    dtype: Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_]*$")]  # it becomes a part of Python text
    data: str = Field(description="Its bytes, base64.")


class _Reply(_Part):
    cpu: str
    structure: str
    source: str = ""
    constants: Annotated[list[Constant], Field(max_length=1_000)] = []
    not_emittable: Annotated[str, Field(max_length=20_000)] = ""


class TracedSize(BaseModel):
    """What a port is at one size, by its own account.

    cpu: exported program, base64. structure: see `structure`. source: emitted, "" where `not_emittable` says why not.
    constants: arrays that the source takes after the arguments. arguments: what it was traced with, by us.
    """

    arguments: list[tuple[list[int], str]]
    cpu: str
    structure: dict[str, Any]
    source: str
    constants: list[Constant]
    not_emittable: str


class Traced(BaseModel):
    """A port at every size."""

    sizes: dict[Size, TracedSize]
    names: list[str]
    isolation: str


async def trace(
    source: str, sizes: Mapping[Size, Sequence[Shaped]], names: Sequence[str], sandboxes: SandboxPool
) -> Traced:
    """Trace a port's text at each size, its arguments given by shape and dtype in their order, named by `names`.

    Raises:
        PortRefused: the port is at fault. SandboxFailed.
    """
    if len(source.encode("utf-8", "replace")) > MOST_PORT_BYTES:
        raise PortRefused(f"The port has more than {MOST_PORT_BYTES >> 20} MiB of text.", "Shorten it.")
    request = {
        "source": source,
        "port": {
            "folder": isolation.port_folder(),
            "sizes": {size: [[list(shape), dtype] for shape, dtype in of] for size, of in sizes.items()},
            "names": list(names),
        },
    }
    chip = CHIPS[DEFAULT_TPU]  # a port is traced for the CPU, whatever the chip
    async with sandboxes.take(chip) as box:
        ended = await box.ask(request, chip)
    if ended.killed:  # it says nothing of the port, which gets one more
        async with sandboxes.take(chip) as box:
            ended = await box.ask(request, chip)
    return Traced(sizes=await run_sync(_replies, ended, sizes), names=list(names), isolation=isolation.isolation())


def _replies(ended: Ended, sizes: Mapping[Size, Sequence[Shaped]]) -> dict[Size, TracedSize]:
    if not ended.started:
        raise SandboxFailed(f"the sandbox did not get ready: {ended.why}. {ended.stderr_tail[-1000:]}")
    if ended.reply is None:
        fix = "Make the port plain straight-line JAX that traces in seconds."
        raise PortRefused(
            f"Tracing the port did not end well: {cleaned(ended.why)}.", fix, cleaned(ended.stderr_tail[-600:])
        )
    _refuse(ended.reply.get("failed"), "")
    failures = ended.reply.get("failures")
    found: dict[Size, TracedSize] = {}
    answered = ended.reply.get("sizes")
    for size in sizes:
        _refuse(failures.get(size) if isinstance(failures, dict) else None, f" at {size} size")
        found[size] = _size(answered.get(size) if isinstance(answered, dict) else None, size, sizes[size])
    return found


def _refuse(failure: Any, where: str) -> None:
    """Raises PortRefused if the sandbox says that something failed."""
    if not isinstance(failure, dict):
        return
    what, fix = _STAGES.get(str(failure.get("stage")), ("The port failed", "Mend it, then try again."))
    lines = failure.get("where")
    details = "; ".join(cleaned(line, 300) for line in lines[-2:]) if isinstance(lines, list) else ""
    raise PortRefused(f"{what}{where}: {cleaned(failure.get('text'), 1500)}", fix, details)


def _size(value: Any, size: Size, arguments: Sequence[Shaped]) -> TracedSize:
    fix = "Do not touch what traces the port; write plain JAX."
    try:
        reply = _Reply.model_validate(value)
        source = base64.b64decode(reply.source, validate=True)
        structure = json.loads(base64.b64decode(reply.structure, validate=True))
        read(structure)
        base64.b64decode(reply.cpu, validate=True)
        if len(source) > _SOURCE_BYTES or sum(len(one.data) for one in reply.constants) > 4 * _CONSTANTS_BYTES // 3:
            raise PortRefused(f"The port's program at {size} size is too large to be written down.", "Shorten it.")
        if bool(source) == bool(reply.not_emittable):
            raise BadStructure("neither a source nor a reason against one")
        return TracedSize(
            arguments=[(list(shape), dtype) for shape, dtype in arguments],
            cpu=reply.cpu,
            structure=structure,
            source=source.decode("ascii"),
            constants=reply.constants,
            not_emittable=cleaned(reply.not_emittable, 1500),
        )
    except (ValidationError, binascii.Error, BadStructure, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PortRefused(
            f"What the port's process sent back at {size} size does not read: {cleaned(error)}.", fix
        ) from None


def cleaned(value: Any, most: int = 600) -> str:
    """What a sandbox says, as one line of characters that show."""
    text = str(value)[: most * 4]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:most]
