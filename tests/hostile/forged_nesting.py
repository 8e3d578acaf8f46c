"""Answers with a million opening brackets. Stopped by: a reply that cannot be parsed is no reply."""

import contextlib
import os

for fd in range(3, 64):
    with contextlib.suppress(OSError):
        os.write(fd, b"[" * 60_000)
os._exit(0)
