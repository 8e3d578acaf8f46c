"""Short texts for notes: what a failed request to a worker comes down to, the same on every machine; lists cut short."""

import re

from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout

MOST = 300
# level and date, time, thread, file and line, as libtpu's log has them
_LOG_LINE = re.compile(r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ +\S+?:\d+\] *")
_MACHINE = re.compile(r"bad_alloc|cannot allocate memory|allocation failed|no space left", re.IGNORECASE)


def reason(error: Exception) -> str:
    """The last thing that the compiler logged, else the error's text; without times and process ids."""
    text, *logged = _told(error)
    text = logged[-1] if logged else text
    if len(text) <= MOST:
        return text
    return text[:MOST].rsplit(" ", 1)[0] + " …"


def lasting(error: Exception) -> bool:
    """Whether the same would happen on any machine: the compiler refused, rather than time or memory running out."""
    if isinstance(error, WorkerTimeout) or _MACHINE.search(str(error)):
        return False
    if isinstance(error, WorkerError):
        return error.kind != "MemoryError"
    return isinstance(error, WorkerDied) and len(_told(error)) > 1


def _told(error: Exception) -> list[str]:
    """The text before the first log line, then each of these, but not those in which a crash is only wound up."""
    text, *logged = (part.strip(" |") for part in _LOG_LINE.split(" ".join(str(error).split())))
    return [text, *(line for line in logged if not line.startswith("RAW: "))]


def some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
