"""Looks for secrets in the environment. Stopped by: a fresh environment, and a PID namespace that hides other processes."""

import os
from pathlib import Path

seen = "\0".join(f"{name}={value}" for name, value in os.environ.items())
for process in Path("/proc").glob("[0-9]*"):
    try:
        seen += (process / "environ").read_text()
    except OSError:
        continue
if "HAWKEYE_TEST_SECRET" in seen:
    raise RuntimeError("ESCAPED: the judge's environment can be read")
raise RuntimeError("names: " + " ".join(sorted(os.environ)))
