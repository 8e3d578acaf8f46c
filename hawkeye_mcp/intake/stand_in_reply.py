"""What the sandbox sends back of a file that stands for a program, read as hostile: arrays, a program, or a fault."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from hawkeye_mcp.candidate.sandbox import Ended
from hawkeye_mcp.intake import emit_values, emitted
from hawkeye_mcp.intake.inside.source import NO_MEMORY
from hawkeye_mcp.intake.trace_port import Constant, PortRefused, cleaned

Array = NDArray[Any]
LEAST_BYTES = 32 << 20  # a reply may always have as many
_NO_FILES = (
    "It is run in the sandbox of kernels, without files and network: let the file hold, or compute, what it needs."
)
_FORGED = "Do not touch what traces the file; write plain JAX."
_STAGES = {
    "import": ("It cannot be imported", "Run the file by itself and mend it."),
    "lengths": ("Its lengths cannot be told", "Give each a whole number at the file's top level."),
    "inputs": ("{inputs_fn} fails", "Run the file by itself and mend it."),
    "trace": ("It cannot be traced", "Let jax.jit run it, and mend what that finds."),
}
_FIXES = {
    "ModuleNotFoundError": "It finds the packages that are installed here and no other file: install what it imports, or write "
    "it into the file.",
    **dict.fromkeys(
        ("FileNotFoundError", "PermissionError", "OSError", "ConnectionError", "gaierror", "NotADirectoryError"),
        _NO_FILES,
    ),
}


def program(found: Any, arguments: int, name: str) -> tuple[str, list[Array]]:
    """The text of a program, checked, and the arrays of its own that it takes after so many arguments.

    name: of the file.

    Raises:
        PortRefused.
    """
    found = found if isinstance(found, dict) else {}
    if why := found.get("not_emittable"):
        raise PortRefused(
            f"The traced program cannot be written down as plain jax.lax calls: {cleaned(why, 1500).rstrip('.')}.",
            "Write the file without it.",
        )
    text, own = found.get("source"), found.get("constants")
    if not isinstance(text, str) or not isinstance(own, list):
        raise PortRefused(f"What the process of {name} sent back does not read.", _FORGED)
    arrays = [array(each, name) for each in own]
    try:
        names = emitted.check(text)
    except (emitted.NotEmitted, RecursionError) as error:
        raise PortRefused(f"What the process of {name} sent back is no program: {error}", _FORGED) from None
    if len(names) != arguments + len(arrays) or sum(each.nbytes for each in arrays) > LEAST_BYTES:
        raise PortRefused(f"What the process of {name} sent back takes other arguments.", _FORGED)
    return text, arrays


def none_came(ended: Ended, name: str) -> PortRefused:
    """For a process that sent nothing."""
    fix = "It must neither end its process nor crash it, and be plain JAX that traces in seconds."
    message = f"{name} did not end well in the sandbox: {cleaned(ended.why)}."
    return PortRefused(message, fix, cleaned(ended.stderr_tail[-600:]))


def fault(failed: Mapping[str, Any], name: str, own_lines: int, inputs_fn: str) -> PortRefused:
    """For what the file raised. own_lines: how many lines of the source are the file's, so that others are not named."""
    what, fix = _STAGES.get(str(failed.get("stage")), ("It fails", "Mend it, then import again."))
    said = cleaned(str(failed.get("text")).split("\nThe error occurred while tracing")[0], 1500)
    lines = failed.get("where")
    line = re.match(r"line (\d{1,9}), in [\w<>]{1,100}", str(lines[-1])) if isinstance(lines, list) and lines else None
    where = f"{name} {line[0]}: " if line and int(line[1]) <= own_lines else ""
    if any(sign in said for sign in (*NO_MEMORY, "MemoryError")):
        fix = "Give `sizes` smaller numbers, above all at `check`."
    fix = _FIXES.get(str(failed.get("type")), fix)
    return PortRefused(f"{what.format(inputs_fn=inputs_fn)}: {where}{said}", fix)


def array(value: Any, name: str) -> Array:
    """An array as the sandbox sends it. Raises PortRefused."""
    try:
        told = Constant.model_validate(value)
        if told.dtype not in (*emit_values.DTYPES, "int64", "uint64", "float64"):
            raise ValueError(f"its dtype is {told.dtype}, which a workload's arrays cannot have")
        data = base64.b64decode(told.data, validate=True)
        return np.frombuffer(data, dtype_of(told.dtype)).reshape(told.shape)
    except (ValidationError, binascii.Error, ValueError, TypeError) as error:
        raise PortRefused(
            f"An array that {name} gives does not read: {cleaned(error)}.", "Give plain arrays."
        ) from None


def dtype_of(name: str) -> np.dtype[Any]:
    """numpy's for a name of jax's."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))
