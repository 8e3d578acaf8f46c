"""Take a request, record a program, tell how it goes a line of JSON at a time: on what stdout was at the start.

Lines: {"stage": ...}, at last {"done": true} or {"failed": {kind, message, fix}}. Whatever the program prints goes to
stderr. stdin is the leash: when it closes, however the parent went, this ends.
"""

import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from hawkeye_mcp import state
from hawkeye_mcp.intake.capture import Capture, CaptureFailed, Timed
from hawkeye_mcp.intake.inside import source
from hawkeye_mcp.intake.inside.record import Record
from hawkeye_mcp.intake.inside.request import Request


def main() -> None:
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what is printed shows, however it ends
    _end_with_parent()
    request = Request.model_validate_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, request.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # if memory runs out, this goes first
        Path("/proc/self/oom_score_adj").write_text("800")

    def tell(**line: Any) -> None:
        os.write(channel, json.dumps(line).encode() + b"\n")

    name, work = ("timed.json", _timed) if request.timed else ("capture.json", record)
    try:
        found = work(request, lambda stage: tell(stage=stage))
    except CaptureFailed as failed:
        tell(failed={"kind": failed.kind, "message": failed.message, "fix": failed.fix})
    except Exception as error:  # else it would be taken for an end that the program itself made
        traceback.print_exc()
        said = f"Recording it failed at a place that nobody foresaw: {source.words(error, Path(request.path))}"
        tell(failed={"kind": "source_fails", "message": said, "fix": "Try a simpler program, and report the output."})
    else:
        state.write_atomically(Path(request.folder) / name, found.model_dump_json(indent=2) + "\n")
        tell(done=True)
    sys.stdout.flush()
    os._exit(0)  # threads that the program left running are not waited for


def _timed(request: Request, progress: source.Progress) -> Timed:
    from hawkeye_mcp.intake.inside import timing, torch_calls

    torch_calls.require()
    return timing.timed(request, progress)


def record(request: Request, progress: source.Progress) -> Capture:
    """Run the program, write goldens.npz.

    Raises:
        CaptureFailed: of any kind.
    """
    try:
        sha256 = hashlib.sha256(Path(request.path).read_bytes()).hexdigest()
    except OSError as error:
        raise CaptureFailed(
            "source_fails", f"{request.path} cannot be read: {error.strerror}.", "Name another file."
        ) from None
    arrays = Record(request.record_bytes)
    if request.language == "pytorch":
        from hawkeye_mcp.intake.inside import pytorch

        captured = pytorch.capture(request, sha256, arrays, progress)
    else:
        from hawkeye_mcp.intake.inside import jax_source

        captured = jax_source.capture(request, sha256, arrays, progress)
    arrays.save(Path(request.folder) / "goldens.npz")
    return captured.model_copy(update={"imported": source.imported(Path(request.path))})


def _end_with_parent() -> None:
    leash = os.dup(0)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)

    def watch() -> None:
        while os.read(leash, 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
