"""Watches kernels of this folder in one process of their own, for tests: the watch replaces parts of jax for good.

`python watched.py NAME@SETTING...` with NAME a family, or FAMILY:NUMBER for a defect by its place in defects.DEFECTS;
a JSON line for each. What runs on two cores must be in a process without anything else.
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
    for asked in sys.argv[1:]:
        name, _, setting = asked.partition("@")
        print(json.dumps({"name": name, **watched(name, [setting])}), flush=True)
