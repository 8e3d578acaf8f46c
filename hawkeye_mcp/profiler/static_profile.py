"""Inside a profiler worker: cycles of every Mosaic kernel of an artifact, from short grids.

libtpu notes the cycles that its static profile predicts, DMA waits included, with each operation of the compiled
program; nothing has to be read from files.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jax import export
from jax._src.export import _export
from jax._src.lib.mlir import ir
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.artifact import Program, operations
from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.judge.compiler import compile_exported
from hawkeye_mcp.profiler import effort, hlo, pipeline, sampling, step_kinds, transfers
from hawkeye_mcp.profiler.cutout import POINT, cut_out
from hawkeye_mcp.profiler.long_loop import LongLoop, long_loop
from hawkeye_mcp.profiler.mosaic import DataDependent, MosaicCall, item_bits, mosaic_calls
from hawkeye_mcp.profiler.operands import anatomy
from hawkeye_mcp.profiler.pipeline import Known
from hawkeye_mcp.profiler.regularity import DATA, axes_of_window, regularity
from hawkeye_mcp.profiler.shortening import with_grid
from hawkeye_mcp.profiler.steering import steering_operands
from hawkeye_mcp.profiler.step_kinds import Kind, of_kind

Steering = Sequence[Known]


@functools.cache
def peaks(tpu: str) -> dict[str, float]:
    """Ceilings of one device, all cores together: bytes/s of HBM, FLOP/s of the MXUs in bfloat16, clock in Hz."""
    chip = CHIPS[tpu]
    info = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion(tpu), chip.cores)
    return {
        "hbm_bytes_per_s": float(info.mem_bw_bytes_per_second * chip.cores),
        "bf16_flops_per_s": float(info.bf16_ops_per_second * chip.cores),
        "eight_bit_ops_per_s": float(max(info.int8_ops_per_second, info.fp8_ops_per_second) * chip.cores),
        "int8_ops_per_s": float(info.int8_ops_per_second * chip.cores),
        "int4_ops_per_s": float(info.int4_ops_per_second * chip.cores),
        "fp8_ops_per_s": float(info.fp8_ops_per_second * chip.cores),
        "vmem_bytes": float(info.vmem_capacity_bytes),
        "clock_hz": chip.clock_hz,
    }


def matmul_flops(call: MosaicCall) -> float:
    """FLOP of the matmuls in a kernel's body, each counted once."""
    flops = 0.0
    for op in operations(call.body.operation):
        if op.name.endswith("tpu.matmul"):
            lhs, rhs, out = (math.prod(ir.VectorType(v.type).shape) for v in (*list(op.operands)[:2], op.results[0]))
            flops += 2 * math.sqrt(lhs * rhs * out)  # (m k)(k n)(m n) = (m k n)^2
    return flops


def plan_for(call: MosaicCall, tpu: str) -> tuple[sampling.Plan, list[str]]:
    """The sampling plan of one kernel, and the reasons why its prediction is a lower bound (data-dependent work)."""
    found = regularity(call)
    cores = CHIPS[tpu].cores
    reasons = []
    if found.data_dependent:
        reasons.append("branches or loop bounds depend on data, so its time is a lower bound")
    windows = [axes_of_window(call, w.transform) for w in call.windows if w.transform]
    if any(DATA in axes for axes in windows):
        reasons.append("block indices depend on data, so its time is a lower bound")
    of_chip, clock_hz = peaks(tpu), CHIPS[tpu].clock_hz * cores
    flops_per_cycle, bytes_per_cycle = (of_chip[peak] / clock_hz for peak in ("bf16_flops_per_s", "hbm_bytes_per_s"))
    if math.prod(call.grid) == 1 and not reasons and (loop := long_loop(call)) and loop.turns > sampling.WHOLE_STEPS:
        return _plan_loop(call, loop, effort.most_steps(loop.op, flops_per_cycle)), reasons
    grid = list(call.grid)
    split = split_axis(call) if cores > 1 else None
    if split is not None:  # plan what one core does
        grid[split] = -(-grid[split] // cores)
    cut = [axis for axis, n in enumerate(grid) if axis not in found.irregular and n > 3]
    resting = any(not axes & set(cut[-2:]) for axes in windows)
    pace, most_steps = effort.pace(call, flops_per_cycle, bytes_per_cycle)
    plan = sampling.plan(
        grid,
        whole=found.irregular,
        depth=3 if resting and len(cut) > 2 else 2,
        pace=pace,
        most_steps=most_steps,
        fits=_moves_as(call, grid),
    )
    if split is not None:
        points = []
        for point in plan.points:
            widened = list(point)
            widened[split] = call.grid[split] if point[split] == grid[split] else point[split] * cores
            points.append(tuple(widened))
        plan = dataclasses.replace(plan, points=tuple(points))
    return plan, reasons


def _plan_loop(call: MosaicCall, loop: LongLoop, most_steps: int) -> sampling.Plan:
    """The plan of a kernel that is one long loop; its points are one number longer than its grid."""
    try:
        found = sampling.plan_turns(loop.turns, transfers.turns_of(call, loop.op), most_steps)
    except DataDependent:
        return sampling.whole_grid(call.grid)
    if not found.sampled:
        return sampling.whole_grid(call.grid)
    return dataclasses.replace(found, points=tuple((*call.grid, *point) for point in found.points))


def _moves_as(call: MosaicCall, grid: Sequence[int]) -> Callable[[sampling.Plan], bool]:
    """Whether a plan's points add up to as many moves of every window as a grid makes; yes if that is not known."""

    def fits(plan: sampling.Plan) -> bool:
        try:
            whole = call.window_moves(grid)
            points = [call.window_moves(point) for point in plan.points]
        except DataDependent:
            return True
        return all(
            abs(plan.total(moves) - wanted) < 0.001 * wanted + 0.5
            for wanted, moves in zip(whole, zip(*points, strict=True), strict=True)
        )

    return fits


def split_axis(call: MosaicCall) -> int | None:
    """The axis that a chip with two cores per device divides between them: the first parallel one with work."""
    if "dimension_semantics" not in call.main.attributes:
        return None
    semantics = [str(s) for s in ir.ArrayAttr(call.main.attributes["dimension_semantics"])]
    for axis, (meaning, n) in enumerate(zip(semantics, call.grid, strict=False)):
        if "parallel" in meaning and n > 1:
            return axis
    return None


def plan_kernels(program: Program, tpu: str, steering: Steering | None = None) -> list[dict[str, Any]]:
    """One entry for each Mosaic kernel: what to profile of it, how to add that up, and what crosses HBM.

    steering: of each kernel the integer arrays that it holds in SMEM, as far as they are known.

    window_bytes: of each operand and result, None if unknown. own_hbm_bytes: moved to and from scratch in HBM.
    pipeline: what moves during each step, None if unknown. kinds: of each point the kind of its steps, None for the
    kernel as it is. moved_bytes: read and written by the pipeline, where that follows from steering alone.
    lower_bound: the notes say why its time cannot be told exactly. steered: whether arrays in SMEM would tell.
    """
    with program.context:
        return [
            _planned(call, tpu, steering[number] if steering else None)
            for number, call in enumerate(mosaic_calls(program))
        ]


def _planned(call: MosaicCall, tpu: str, known: Known) -> dict[str, Any]:
    plan, kinds, reasons = sampling.Plan((), ()), list[Kind | None](), list[str]()
    if call.dynamic_grid:
        reasons.append("its grid is computed at run time and cannot be predicted")
    else:
        plan, reasons = plan_for(call, tpu)
        kinds = [None] * len(plan.points)
    steered = bool(reasons) and not call.dynamic_grid and bool(steering_operands(call))
    by_values = False
    if steered and known is not None:
        try:
            plan, kinds = step_kinds.plan(call, known, lambda copy: plan_for(copy, tpu)[0])
            reasons, by_values = [], True
        except DataDependent as reason:
            reasons.append(f"the values in SMEM do not tell: {reason}")
    moved: list[int] | None = None
    own_hbm_bytes = 0
    try:
        windows = pipeline.window_bytes(call, known) if by_values else call.window_bytes()
        moved = [0] * call.prefetched + windows
        if call.moves_by_hand:
            *by_hand, own_hbm_bytes = transfers.transferred_bytes(call)
            moved = [a + b for a, b in zip(moved, by_hand, strict=True)]
    except DataDependent as reason:
        moved = None
        reasons.append(f"HBM traffic unknown, {reason}")
    crossed, described = None, anatomy(call, moved)
    if by_values and known is not None:
        idle_steps, idle_bytes = step_kinds.idle(call, known)
        described = described.model_copy(update={"idle_steps": idle_steps, "idle_bytes": idle_bytes})
    if by_values and not call.moves_by_hand:
        found = pipeline.steps(call, known)
        crossed = [int(found.read_bytes.sum()), int(found.written_bytes.sum())]
    summary = pipeline.summary(call, CHIPS[tpu].cores, known if by_values else None) if moved is not None else None
    return {
        "name": call.name,
        "grid": list(call.grid),
        "calls": call.calls,
        "points": [list(point) for point in plan.points],
        "weights": list(plan.weights),
        "kinds": kinds,
        "window_bytes": moved,
        "own_hbm_bytes": own_hbm_bytes,
        "moved_bytes": crossed,
        "pipeline": summary,
        "anatomy": described.model_dump(),
        "moves_by_hand": call.moves_by_hand,
        "eight_bit_matmul": _eight_bit_matmul(call),
        "steered": steered,
        "lower_bound": bool(reasons),
        "notes": [f"kernel {call.name}: {reason}" for reason in reasons],
    }


def _eight_bit_matmul(call: MosaicCall) -> bool:
    """Whether a matmul of the kernel has operands of at most 8 bits, which some chips multiply faster."""
    return any(
        item_bits(str(ir.VectorType(operand.type).element_type)) <= 8
        for op in operations(call.body.operation)
        if op.name.endswith("tpu.matmul")
        for operand in list(op.operands)[:2]
    )


def profile_point(
    program: Program, tpu: str, kernel: int, point: list[int], kind: Kind | None = None
) -> dict[str, Any]:
    """Cycles that the static profile predicts for one kernel, alone, with one grid; None if it predicts none.

    kind: the kind of its steps, None for the kernel as it is.
    """
    with program.context:
        call = of_kind(mosaic_calls(program)[kernel], kind)
        compiled = compile_exported(cut_out(call, [point]), tpu)
        (op,) = (op for op in hlo.ops(compiled.as_text()) if op.mosaic and op.point is not None)
    return {"cycles": op.profile_cycles, "vmem_bytes": op.vmem_bytes}


def numbered(program: Program) -> export.Exported:
    """The program with each Mosaic kernel's number on it, to find it again in the compiled program."""
    with program.context, ir.Location.unknown(program.context):
        for number, call in enumerate(mosaic_calls(program)):
            call.op.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({POINT: ir.StringAttr.get(str(number))})
        return dataclasses.replace(program.exported, mlir_module_serialized=_export._module_to_bytecode(program.module))


def profile_around(program: Program, tpu: str) -> list[dict[str, Any]]:
    """Cycles of the XLA operations, in place, with every kernel's grid cut to single steps so that only they cost.

    libtpu may abort the process on operations it has no latency for.
    """
    with program.context, ir.Location.unknown(program.context):
        for call in mosaic_calls(program):
            if call.grid and not call.dynamic_grid:
                call.op.attributes["backend_config"] = ir.StringAttr.get(with_grid(call, [1] * len(call.grid)))
        exported = dataclasses.replace(
            program.exported, mlir_module_serialized=_export._module_to_bytecode(program.module)
        )
        compiled = compile_exported(exported, tpu)
    return [dataclasses.asdict(op) for op in hlo.ops(compiled.as_text()) if not op.mosaic]
