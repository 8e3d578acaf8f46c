"""Inside a tracer or walker: one kernel with one grid, every bundle of its run counted and every cycle accounted for.

All of it comes from dumps that libtpu writes beside its static profile; they are read and removed before the answer.
"""

import resource
from collections import Counter
from pathlib import Path
from typing import Any

from hawkeye_mcp.artifact import Program
from hawkeye_mcp.candidate.tracer import KERNEL_FILE
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.compiler import compile_exported
from hawkeye_mcp.profiler import critical_path, hlo, llo, schedule
from hawkeye_mcp.profiler.addresses import Addresses
from hawkeye_mcp.profiler.cutout import cut_out
from hawkeye_mcp.profiler.mosaic import MosaicCall, mosaic_calls
from hawkeye_mcp.profiler.static_profile import matmul_flops, split_axis
from hawkeye_mcp.profiler.step_kinds import Kind, of_kind

# A dump beyond this, about 800,000 executed bundles, ends libtpu's process, and with it the look but not the prediction.
LARGEST_DUMP_BYTES = 384 << 20


class Uncounted(Exception):
    """The dumps do not show what was executed; the text says why."""


def count_point(
    program: Program,
    tpu: str,
    kernel: int,
    point: list[int],
    dump: Path,
    source: str = KERNEL_FILE,
    kind: Kind | None = None,
) -> dict[str, Any]:
    """Cycles that the static profile predicts for one kernel, alone, with one grid, and what it does in them.

    Args:
        dump: where this process's libtpu writes.
        source: the kernel file as the artifact names it.
        kind: the kind of its steps, None for the kernel as it is.

    Returns:
        "cycles" and "vmem_bytes", None where unknown; "look" (read by `totals.run`), or None and "note", which says why.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_DUMP_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    llo.clear(dump)
    try:
        with program.context:
            call = of_kind(mosaic_calls(program)[kernel], kind)
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
    addresses = Addresses()
    executed = llo.count_file(dump / f"{op.name}_bundles.txt", addresses)
    if executed is None:
        raise Uncounted("libtpu dumped no bundles")
    walk = critical_path.walk_file(dump / f"{op.name}_critical_path.txt", source, addresses.name_of)
    if walk is None:
        raise Uncounted("libtpu dumped no critical path")
    if op.profile_cycles is not None and walk.cycles != op.profile_cycles:
        raise Uncounted(f"the critical path has {walk.cycles} cycles, the static profile {op.profile_cycles}")
    return {
        "counts": {name: executed[name] for name in (*llo.NAMES, "unsized_transfers")},
        "cycles": walk.cycles,
        "issued": walk.issued,
        "stalls": dict(walk.stalls),
        "places": [[place, cycles, walk.place_stalls[place]] for place, cycles in walk.places.items()],
        "before": walk.before,
        "after": walk.after,
        "cores": CHIPS[tpu].cores if split_axis(call) is not None else 1,
        "static": _static(call, op, dump, source, executed, walk.issued),
    }


def _static(
    call: MosaicCall, op: hlo.Op, dump: Path, source: str, executed: Counter[str], issued: int
) -> dict[str, Any] | None:
    """What the dumps of the schedule tell, only in a worker that writes them."""
    bundles = schedule.dump_of(dump, op.name, "final_bundles")
    table = schedule.dump_of(dump, op.name, "final_hlo-static-per-bundle-utilization")
    slots = schedule.read_slots(table.read_text("utf-8", "replace")) if table else None
    if bundles is None or slots is None:
        return None
    with bundles.open("rb") as lines:
        static = schedule.read(lines, source)
    pressure = None
    if dumped := schedule.dump_of(dump, op.name, "register-pressure"):  # there is none where pressure is low
        with dumped.open("rb") as file:
            pressure = schedule.read_pressure(file.read(4096))
    used, hot = slots.used(), schedule.hot_loop(static, executed, issued, grid=bool(call.grid))
    matmuls = static.units["mxu_matmuls"]
    return {
        "capacity": slots.capacity,
        "busy": {
            counter: used[column] / static.units[counter]
            for counter, column in schedule.BUSY_COLUMNS.items()
            if static.units[counter] and column in used
        },
        "hot": hot
        and {
            "bundles": [hot[0].first, hot[0].last],
            "jumps": hot[1],
            "lines": hot[0].lines,
            "used": slots.used(hot[0].first, hot[0].last),
        },
        "pressure": pressure if pressure is not None else static.registers,
        "flops_per_matmul": matmul_flops(call) / matmuls if matmuls else 0.0,
    }
