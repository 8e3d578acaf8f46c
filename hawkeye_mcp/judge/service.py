"""The inside of a worker process: one JSON request a line in, one JSON reply a line out.

`python -m hawkeye_mcp.judge.service KIND` with KIND "verifier" (jax on the CPU), "compiler" (libtpu, nothing dumped),
"profiler" (libtpu with its static profile), "walker" (the profile and every executed bundle), "tracer" (the static
schedule too) or "device" (this machine's TPU itself). No candidate Python is ever in these processes: they see artifacts.
They end when their stdin closes, also in the middle of a request.
"""

import contextlib
import ctypes
import gc
import json
import os
import queue
import resource
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Handler = Callable[..., dict[str, Any]]


def handlers(kind: str) -> dict[str, Handler]:
    if kind == "verifier":
        from hawkeye_mcp.judge import verify

        return verify.HANDLERS
    if kind == "device":
        from hawkeye_mcp.judge import device

        return device.HANDLERS
    from hawkeye_mcp.judge import compiler

    return compiler.HANDLERS


def forget(kind: str) -> None:
    """Give back what one request took, so that hundreds do not grow the process."""
    if kind != "verifier":  # whose compiled draws and oracles are worth keeping
        import jax

        jax.clear_caches()
    with contextlib.suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL("libc.so.6").malloc_trim(0)


_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent() -> None:
    """End 10 s after the parent at the latest, even while native code holds the interpreter's lock, so that the thread
    that listens cannot run: a reader of MLIR that hangs on a candidate's bytes would else spin for ever.

    The kernel's signal at the parent's death calls alarm() with its number, which is 10 for SIGUSR1; the alarm's own
    default action ends the process.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGUSR1, ctypes.cast(libc.alarm, ctypes.c_void_p))
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGUSR1), 0, 0, 0)


def main() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        end_with_parent()
    kind, memory_bytes = sys.argv[1], int(sys.argv[2])
    if kind != "device":  # whose runtime may map the device's memory beside the machine's
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # if memory runs out, this goes before the server and after the sandboxes
        Path("/proc/self/oom_score_adj").write_text("500")
    channel = os.dup(1)
    os.dup2(2, 1)  # whatever prints, prints to stderr
    requests: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            requests.put(line)
        if (own := Path.cwd()).name.startswith("hawkeye-"):  # made for this process by workers.Worker.start
            shutil.rmtree(own, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)  # the parent is gone or wants us gone

    threading.Thread(target=listen, daemon=True).start()
    gc.disable()  # a sixth of the time that imports take, and what they leave is there to stay
    table = handlers(kind)
    gc.freeze()
    gc.enable()
    os.write(channel, b"ready\n")
    while True:
        request = json.loads(requests.get())
        try:
            reply = {"result": table[request["method"]](**request["params"])}
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            reply = {
                "error": {
                    "type": type(error).__name__,
                    "text": text,
                    "traceback": traceback.format_exc()[-4000:],
                }
            }
        payload = json.dumps(reply).encode() + b"\n"
        while payload:
            payload = payload[os.write(channel, payload) :]
        forget(kind)


if __name__ == "__main__":
    main()
