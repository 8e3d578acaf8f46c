"""Watches kernels of this folder in one process of their own, for tests: the watch replaces parts of jax for good.

`python watched.py NAME...` with NAME a family, or FAMILY:NUMBER for a defect by its place in defects.DEFECTS; a JSON
line for each.
"""

import json
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "hawkeye_mcp" / "sanitizer"), str(ROOT / "hawkeye_mcp" / "candidate")]

import defects  # noqa: E402
import tracer  # noqa: E402
from inside import checks  # noqa: E402

from hawkeye_mcp.sanitizer import corpus  # noqa: E402


def watched(name: str, settings: list[str]) -> dict:
    family, _, number = name.partition(":")
    source = defects.DEFECTS[int(number)].source() if number else (defects.FAMILIES / f"{family}.py").read_text("utf-8")
    case = corpus.case(family, source)
    module = types.ModuleType("kernel")
    exec(compile(source, tracer.KERNEL_FILE, "exec"), module.__dict__)
    request = {"settings": settings, "full": case.full, "inputs": case.inputs, "quick": False, "limit_s": 120}
    return checks.answer(module.workload, request, {"device_kind": "TPU v5 lite", "cores": 1}, tracer)


if __name__ == "__main__":
    settings, *names = sys.argv[1:]
    for name in names:
        print(json.dumps({"name": name, **watched(name, settings.split(","))}), flush=True)
