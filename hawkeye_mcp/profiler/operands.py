"""Inside a worker: what a Mosaic kernel's operands, scratch and matmuls are, out of its module.

Sizes in VMEM follow Mosaic's tiles and are checked against libtpu's own totals in the tests: the last dimension is
padded to 128 lanes, the one before to the 8 sublanes of a tile (16-bit too; 8-bit 32, 4-bit 64) or, where it is
shorter than a tile, to the next power of two that fills whole 32-bit words.
"""

import math
from dataclasses import dataclass
from typing import Any

from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import operations
from hawkeye_mcp.profiler.anatomy import Anatomy, Matmul, Operand, Scratch, StepWork
from hawkeye_mcp.profiler.mosaic import MosaicCall, Window, item_bits
from hawkeye_mcp.profiler.regularity import DATA, axes_of_window

LANES = 128
_SUBLANES = {32: 8, 16: 8, 8: 32, 4: 64}
_ON_CHIP = ("vmem", "smem")
# float32 operands at the highest precision are split into bfloat16 parts and multiplied in this many passes; at the
# default precision they are rounded and cost what bfloat16 costs. Both seen in libtpu's schedules.
_HIGHEST_PASSES = 6


def anatomy(call: MosaicCall, moved: list[int] | None) -> Anatomy:
    """moved: bytes over HBM of each operand and result in one run, None if they depend on data."""
    parallel = []
    if "dimension_semantics" in call.main.attributes:
        semantics = [str(s) for s in ir.ArrayAttr(call.main.attributes["dimension_semantics"])]
        parallel = [
            axis
            for axis, (meaning, n) in enumerate(zip(semantics, call.grid, strict=False))
            if "parallel" in meaning and n > 1
        ]
    body = list(operations(call.main))
    return Anatomy(
        operands=_operands(call, moved),
        scratch=_scratch(call, body),
        matmuls=[_matmul(op) for op in body if _name(op) == "tpu.matmul"],
        step=_step_work(call),
        moves_by_hand=call.moves_by_hand,
        parallel_axes=parallel,
        vmem_limit_bytes=next(
            (int(c["size"]) for c in call.config.get("scoped_memory_configs", []) if c.get("memory_space") == 1), None
        ),
    )


# Arithmetic on vectors that costs nothing of its own.
_FREE = ("arith.constant", "arith.bitcast")
_TRANSCENDENTAL = ("math.exp", "math.exp2", "math.expm1", "math.log", "math.log1p", "math.log2", "math.tanh", "math.rsqrt",
                   "math.sqrt", "math.erf", "math.sin", "math.cos", "math.powf", "arith.divf", "tpu.reciprocal")  # fmt: skip


@dataclass
class _Tally:
    flops: float = 0.0
    vector_elements: float = 0.0
    transcendental_elements: float = 0.0


def _step_work(call: MosaicCall) -> StepWork | None:
    tally = _Tally()
    known = _add(call.main.regions[0].blocks[0], 1.0, tally)
    if not known:
        return None
    return StepWork(
        flops=tally.flops,
        vector_elements=tally.vector_elements,
        transcendental_elements=tally.transcendental_elements,
    )


def _add(block: Any, times: float, tally: _Tally) -> bool:
    """Add a block's work, done so many times; False if the length of a loop with work in it is unknown."""
    for each in block:
        op = each.operation
        name = _name(op)
        turns = 1.0
        if name == "scf.for":
            bounds = [_integer(value) for value in list(op.operands)[:3]]
            lower, upper, step = bounds
            if lower is None or upper is None or not step:
                turns = math.nan
            else:
                turns = max(0.0, math.ceil((upper - lower) / step))
        elif name == "scf.while":
            turns = math.nan
        if name == "tpu.matmul":
            tally.flops += times * _matmul(op).flops
        elif name.startswith(("arith.", "math.", "vector.multi_reduction", "tpu.reciprocal")) and name not in _FREE:
            elements = _vector_elements(op)
            kind = "transcendental_elements" if name in _TRANSCENDENTAL else "vector_elements"
            setattr(tally, kind, getattr(tally, kind) + times * elements)
        for region in op.regions:
            for inner in region:
                if not _add(inner, times * turns, tally):
                    return False
    return not math.isnan(tally.flops + tally.vector_elements + tally.transcendental_elements)


def _vector_elements(op: Any) -> int:
    sizes = [
        math.prod(ir.VectorType(value.type).shape)
        for value in (*op.operands, *op.results)
        if str(value.type).startswith("vector<")
    ]
    return max(sizes, default=0)


def _integer(value: Any) -> int | None:
    owner = value.owner
    op = getattr(owner, "operation", owner)
    if isinstance(op, ir.Operation) and _name(op) == "arith.constant":
        return int(ir.IntegerAttr(op.attributes["value"]).value)
    if isinstance(op, ir.Operation) and _name(op) == "arith.addi":  # as the end of a loop: start plus turns
        terms = [_integer(operand) for operand in op.operands]
        return None if None in terms else sum(term for term in terms if term is not None)
    return None


def tiled_bytes(shape: tuple[int, ...], bits: int) -> int:
    """Bytes of an array in VMEM, padded to whole tiles."""
    if not shape:
        return 4
    packing = max(1, 32 // bits)
    *outer, rows, lanes = (1, *shape)
    tile = _SUBLANES.get(bits, 8)
    if rows < tile:
        rows = max(packing, 1 << (rows - 1).bit_length())
    else:
        rows = -(-rows // tile) * tile
    return math.prod(outer) * rows * (-(-lanes // LANES) * LANES) * bits // 8


def _name(op: Any) -> str:
    return str(op.name).removeprefix("stable_mosaic.")


def _operands(call: MosaicCall, moved: list[int] | None) -> list[Operand]:
    found = []
    inputs = len(call.op.operands)
    values = [*call.op.operands, *call.op.results]
    for at, value in enumerate(values[: call.prefetched]):
        kind = ir.RankedTensorType(value.type)
        bits = item_bits(str(kind.element_type))
        found.append(
            Operand(
                label=f"operand {at} {_type(kind)}",
                direction="read",
                item_bits=bits,
                array_bytes=math.prod(kind.shape) * bits // 8,
                space="smem",
                prefetched=True,
                block=list(kind.shape),
                block_bytes=4 * math.prod(kind.shape),
                tile_padding=1.0,
                overhang=1.0,
                copies=1,
                axes=[],
                moved_bytes=moved[at] if moved else None,
            )
        )
    params = list(ir.ArrayAttr(call.main.attributes["window_params"])) if call.grid else []
    for number, window in enumerate(call.windows):
        at = number + call.prefetched
        label = f"result {at - inputs}" if window.is_output else f"operand {at}"
        kind = ir.RankedTensorType(values[at].type)
        mode = ir.DictAttr(params[number]) if number < len(params) else {}
        synchronous = "pipeline_mode" in mode and "synchronous" in str(mode["pipeline_mode"])
        found.append(_operand(call, window, f"{label} {_type(kind)}", synchronous, moved[at] if moved else None))
    return found


def _operand(call: MosaicCall, window: Window, label: str, synchronous: bool, moved: int | None) -> Operand:
    labels = axes_of_window(call, window.transform) if window.transform else frozenset()
    changing = {axis for axis in labels if axis == DATA or call.grid[axis] > 1}
    on_chip = window.space in _ON_CHIP
    rank = len(window.array)
    block = window.block[-rank:] if len(window.block) >= rank else window.array
    plain = math.prod(block) * window.item_bits / 8
    # a block of one row of many takes a tile row, not a tile: leading ones are no dimension of it
    padded = tiled_bytes(block, window.item_bits) if window.space == "vmem" else 4 * math.prod(block)
    covered = math.prod(-(-n // b) * b for n, b in zip(window.array, block, strict=True) if b > 0)
    return Operand(
        label=label,
        direction="written" if window.is_output else "read",
        item_bits=window.item_bits,
        array_bytes=math.prod(window.array) * window.item_bits // 8,
        space=window.space,
        block=list(block),
        block_bytes=padded if on_chip else 0,
        tile_padding=padded / plain if plain and on_chip else 1.0,
        overhang=covered / max(math.prod(window.array), 1) if on_chip else 1.0,
        copies=2 if changing and not synchronous and on_chip else 1,
        single_buffered=bool(changing) and synchronous,
        axes=None if DATA in changing else sorted(changing),
        moved_bytes=moved,
    )


def _scratch(call: MosaicCall, body: list[Any]) -> list[Scratch]:
    arguments = list(call.main.regions[0].blocks[0].arguments)[len(call.grid) + call.prefetched + len(call.windows) :]
    own = [op.results[0] for op in body if _name(op) in ("memref.alloca", "memref.alloc", "tpu.alloca")]
    found = []
    for at, value in enumerate([*arguments, *own]):
        if not str(value.type).startswith("memref<"):
            continue
        kind = ir.MemRefType(value.type)
        space = next((space for space in _ON_CHIP if f"<{space}>" in str(kind.memory_space)), None)
        if space and kind.has_static_shape:
            shape, bits = tuple(kind.shape), item_bits(str(kind.element_type))
            size = tiled_bytes(shape, bits) if space == "vmem" else 4 * math.prod(shape)
            found.append(Scratch(label=f"scratch {at} {_type(kind)}", space=space, bytes=size))
    return found


def _type(kind: Any) -> str:
    return f"{kind.element_type}[{','.join(map(str, kind.shape))}]"


def _matmul(op: Any) -> Matmul:
    lhs, rhs, out = (ir.VectorType(value.type) for value in (*list(op.operands)[:2], op.results[0]))
    # (m k)(k n)(m n) = (m k n)^2
    flops = 2 * math.sqrt(math.prod(lhs.shape) * math.prod(rhs.shape) * math.prod(out.shape))
    kinds = [str(lhs.element_type), str(rhs.element_type)]
    highest = "precision" in op.attributes and "fp32" in str(op.attributes["precision"])
    return Matmul(lhs=kinds[0], rhs=kinds[1], flops=flops, passes=_HIGHEST_PASSES if highest and "f32" in kinds else 1)
