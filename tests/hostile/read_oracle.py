"""Looks for the workloads, their oracles and the judge. Stopped by: none of them is in the sandbox's file system."""

import importlib.util
import sys
from pathlib import Path

roots = {Path(entry) for entry in sys.path} | {Path(sys.prefix), *Path(sys.prefix).parents}
for root in sorted(roots):
    for pattern in ("**/workload.toml", "**/guide.md"):
        for path in root.glob(pattern):
            raise RuntimeError(f"ESCAPED: {path} begins with {path.read_text()[:40]!r}")
if (spec := importlib.util.find_spec("hawkeye_mcp")) and spec.origin:
    raise RuntimeError(f"ESCAPED: the judge's own code is at {spec.origin}")
raise FileNotFoundError("No such file: neither workloads nor cells nor the judge can be seen")
