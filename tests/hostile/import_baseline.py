"""Calls the workload's own program. Stopped by: neither this package nor its workloads can be imported in the sandbox."""

import importlib

found = []
for name in ("hawkeye_mcp.workloads", "hawkeye_mcp.judge.verify", "workloads", "workload", "baseline", "hawkeye_bench"):
    try:
        importlib.import_module(name)
    except ImportError as error:
        found.append(error)
    else:
        raise RuntimeError(f"ESCAPED: imported {name}")
raise found[0]
