"""Answers with text that is not even base64. Stopped by: an artifact that cannot be read is rejected."""

import contextlib
import json
import os

pair = {"tpu": "A", "cpu": "A"}
for fd in range(3, 64):
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps({"artifacts": {"full": pair, "check": pair}}).encode() + b"\n")
os._exit(0)
