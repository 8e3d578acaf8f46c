"""Runs an agent's program and ends all of it when the bench goes, however it goes.

`python leash.py FD GRACE_S COMMAND...`, with FD the reading end of a pipe whose other end the bench holds. A byte in the
pipe interrupts the program, as Ctrl-C does; its end ends it. This process ends with the program's exit code (128 + the signal's number after a signal), and not before every process that came from the
program has ended, which is killed GRACE_S after the program has ended or was told to: whatever loses its parent becomes
a child of this one, even from a session of its own.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_LOOK_S = 0.02
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    leash, grace_s, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        # Kept: an object that is dropped would itself take the exit code of a program that has ended by then.
        started = subprocess.Popen(command, process_group=0)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(126)
    program = started.pid
    # The reader sees the end of the output when the program, and not this process, has closed it.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    codes: dict[int, int] = {}
    while program not in codes:
        if select.select([leash], [], [], _LOOK_S)[0]:
            if not os.read(leash, 1):
                break
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGINT)
        _reap(codes)
    with suppress(ProcessLookupError):
        os.killpg(program, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _reap(codes):
        if time.monotonic() > deadline:
            for pid in _children():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_S)
    code = codes[program]
    os._exit(code if code >= 0 else 128 - code)


def _reap(codes: dict[int, int]) -> bool:
    """Note the exit codes of the children that have ended; returns whether any is left."""
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            codes[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            # The name in parentheses may hold anything; the parent is the second field after it.
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    main()
