"""Families of processes, as /proc shows them."""

import time
from collections.abc import Callable
from pathlib import Path

from hawkeye_bench.processes import tree

PATIENCE_S = 120.0  # ends a test that is broken; no slow machine comes near


def start_ticks(pid: int) -> int | None:
    """When a process started, which tells it from a later one of the same number; None when it has ended.

    One that has ended may wait a while for init to take note.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def until(condition: Callable[[], bool]) -> None:
    """Wait for what other processes or the kernel do on their own, such as the end of a killed process."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def family(root: int, *words: str) -> dict[int, int | None]:
    """A process and its descendants with their starts, once each word is in the command line of one of them."""
    until(lambda: all(any(word in command_line(pid) for pid in tree(root)) for word in words))
    return {pid: start_ticks(pid) for pid in tree(root)}


def ended(members: dict[int, int | None]) -> bool:
    return not any(started is not None and start_ticks(pid) == started for pid, started in members.items())
