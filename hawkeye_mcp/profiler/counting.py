"""Inside a tracer worker: one kernel with one grid, every bundle of its run counted and every cycle accounted for.

All of it comes from dumps that libtpu writes beside its static profile; they are read and removed before the answer.
"""

import contextlib
import resource
from pathlib import Path
from typing import Any

from hawkeye_mcp.artifact import Program
from hawkeye_mcp.candidate.tracer import KERNEL_FILE
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.compiler import compile_exported
from hawkeye_mcp.profiler import critical_path, hlo, llo, schedule
from hawkeye_mcp.profiler.cutout import cut_out
from hawkeye_mcp.profiler.mosaic import MosaicCall, mosaic_calls
from hawkeye_mcp.profiler.static_profile import matmul_flops, split_axis

# A dump beyond this, about 800,000 executed bundles, ends libtpu's process, and with it the look but not the prediction.
LARGEST_DUMP_BYTES = 384 << 20


class Uncounted(Exception):
    """The dumps do not show what was executed; the text says why."""


def count_point(
    program: Program, tpu: str, kernel: int, point: list[int], dump: Path, source: str = KERNEL_FILE
) -> dict[str, Any]:
    """Cycles that the static profile predicts for one kernel, alone, with one grid, and what it does in them.

    Args:
        dump: where this process's libtpu writes.
        source: the kernel file as the artifact names it.

    Returns:
        "cycles" and "vmem_bytes", None where unknown; "look" (see `totals.Look`), or None and "note", which says why.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_DUMP_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    llo.clear(dump)
    try:
        with program.context:
            call = mosaic_calls(program)[kernel]
            compiled = compile_exported(cut_out(call, [point]), tpu)
            (op,) = (op for op in hlo.ops(compiled.as_text()) if op.mosaic and op.point is not None)
            reply: dict[str, Any] = {"cycles": op.profile_cycles, "vmem_bytes": op.vmem_bytes, "look": None, "note": ""}
            try:
                reply["look"] = _look(call, op, tpu, dump, source)
            except (Uncounted, critical_path.Incomplete, OSError) as error:
                reply["note"] = f"{error}"
        return reply
    finally:
        llo.clear(dump)


def _look(call: MosaicCall, op: hlo.Op, tpu: str, dump: Path, source: str) -> dict[str, Any]:
    executed = llo.count_file(dump / f"{op.name}_bundles.txt")
    if executed is None:
        raise Uncounted("libtpu dumped no bundles")
    bundles = schedule.dump_of(dump, op.name, "final_bundles")
    if bundles is None:
        raise Uncounted("libtpu dumped no schedule")
    with bundles.open("rb") as lines:
        static = schedule.read(lines, source)
    walk = critical_path.walk_file(dump / f"{op.name}_critical_path.txt", source, static.name_of)
    if walk is None:
        raise Uncounted("libtpu dumped no critical path")
    if op.profile_cycles is not None and walk.cycles != op.profile_cycles:
        raise Uncounted(f"the critical path has {walk.cycles} cycles, the static profile {op.profile_cycles}")
    slots = None
    if table := schedule.dump_of(dump, op.name, "final_hlo-static-per-bundle-utilization"):
        slots = schedule.read_slots(table.read_text("utf-8", "replace"))
    pressure = None
    with contextlib.suppress(OSError):
        if dumped := schedule.dump_of(dump, op.name, "register-pressure"):
            with dumped.open("rb") as file:
                pressure = schedule.read_pressure(file.read(4096))
    hot = schedule.hot_loop(static, executed, walk.issued, grid=bool(call.grid))
    busy: dict[str, float] = {}
    if slots:
        used = slots.used()
        for counter, column in schedule.BUSY_COLUMNS.items():
            if static.units[counter]:
                busy[counter] = used[column] / static.units[counter]
    matmuls = static.units["mxu_matmuls"]
    return {
        "counts": {name: executed[name] for name in (*llo.NAMES, "unsized_transfers")},
        "cycles": walk.cycles,
        "issued": walk.issued,
        "stalls": dict(walk.stalls),
        "places": [[place, cycles, walk.place_stalls[place]] for place, cycles in walk.places.items()],
        "before": walk.before,
        "after": walk.after,
        "capacity": slots.capacity if slots else {},
        "busy": busy,
        "hot": None
        if hot is None or slots is None
        else {
            "bundles": [hot[0].first, hot[0].last],
            "jumps": hot[1],
            "lines": hot[0].lines,
            "used": slots.used(hot[0].first, hot[0].last),
        },
        "pressure": pressure if pressure is not None else static.registers,
        "flops_per_matmul": matmul_flops(call) / matmuls if matmuls else 0.0,
        "cores": CHIPS[tpu].cores if split_axis(call) is not None else 1,
    }
