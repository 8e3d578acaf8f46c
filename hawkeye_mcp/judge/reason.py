"""Short texts for notes: what a failed request to a worker comes down to, the same on every machine; lists cut short."""

import re

from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout

MOST = 300
# level and date, time, thread, file and line, as libtpu's log has them
_LOG_LINE = re.compile(r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ +\S+?:\d+\] *")
_MACHINE = re.compile(r"bad_alloc|cannot allocate memory|allocation failed|no space left", re.IGNORECASE)


def reason(error: Exception) -> str:
    """The last thing that the compiler logged, else the error's text; without times and process ids."""
    text = " ".join(str(error).split())
    if _LOG_LINE.search(text):
        text = _LOG_LINE.split(text)[-1]
    text = text.strip(" |")
    if len(text) <= MOST:
        return text
    return text[:MOST].rsplit(" ", 1)[0] + " …"


def lasting(error: Exception) -> bool:
    """Whether the same would happen on any machine: the compiler refused, rather than time or memory running out."""
    if isinstance(error, WorkerTimeout) or _MACHINE.search(str(error)):
        return False
    if isinstance(error, WorkerError):
        return error.kind != "MemoryError"
    return isinstance(error, WorkerDied) and bool(_LOG_LINE.search(str(error)))


def some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
