"""The short optimisation that a scripted model plays through a real client: it writes a wrong kernel, reads the error,
mends it, reads a cell where there are cells, improves the kernel, and stops. It is no agent's work.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scripted_endpoint import Reply, Script, Seen

KERNEL = "kernel.py"
WRONG, MENDED, IMPROVED = "# fake: incorrect\n", "# fake: speedup 1.5\n", "# fake: speedup 3\n"
CELL = "05_fused_epilogue"
HOLDING = "# fake: hold\n"
"""The fake judge never ends with this one."""


@dataclass(frozen=True)
class Files:
    """How a client's model writes files. write: (path, text) to a call. edit: (path, old text, new text) to a call."""

    write: Callable[[str, str], Reply]
    edit: Callable[[str, str, str], Reply]


def optimisation(files: Files | None) -> Script:
    """The whole session. files: None for a client without a tool that writes files."""

    def script(seen: Seen) -> Reply:
        steps = _steps(files, cells=seen.tool("read_taxonomy_cell") is not None)
        number = len(seen.results)
        if number >= len(steps):
            return Reply("The kernel is three times as fast as the baseline.")
        reply, expected = steps[number]
        # It is to act on what it is told: where that does not reach it, it gives up.
        if expected and expected not in seen.results[-1]:
            return Reply(f"This is not what I was to read: {seen.results[-1]}")
        return reply

    return script


def _steps(files: Files | None, *, cells: bool) -> list[tuple[Reply, str]]:
    """Each call, and what the result before it must hold."""
    reading = [(Reply("What helps?", "read_taxonomy_cell", {"row": CELL}), "")] if cells else []
    if files is None:
        return [
            (_submit(WRONG), ""),
            (_submit(MENDED), "incorrect"),
            *reading,
            (_submit(IMPROVED), "epilogue" if cells else "1.5"),
        ]
    look = Reply("Is it right?", "evaluate_kernel", {"path": KERNEL})
    return [
        (files.write(KERNEL, WRONG), ""),
        (look, ""),
        (files.edit(KERNEL, WRONG, MENDED), "incorrect"),
        (look, ""),
        *reading,
        (files.edit(KERNEL, MENDED, IMPROVED), "epilogue" if cells else "1.5"),
        (look, ""),
    ]


def _submit(source: str) -> Reply:
    return Reply("Is it right?", "evaluate_kernel", {"source": source})


def endless(seen: Seen) -> Reply:
    """A session whose one evaluation never ends."""
    return _submit(HOLDING)
