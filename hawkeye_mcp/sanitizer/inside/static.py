"""What a kernel's grid and index maps say without running it: at full size, where no interpreter can go."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import core as jax_core
from jax._src.pallas import core as pallas_core
from jax._src.pallas.mosaic import core as mosaic_core

from .record import line_of
from .shadow import is_parallel

MOST_STEPS = 1 << 18
_MOST_BLOCKS = 1 << 22


@dataclass(frozen=True)
class Call:
    """One pallas_call of the program. arguments: for each operand, the workload's input that it is, or None.

    used: for each output, whether anything takes it; some kernels have outputs for scratch.
    """

    eqn: Any
    arguments: tuple[int | None, ...]
    used: tuple[bool, ...] = ()

    @property
    def mapping(self) -> Any:
        return self.eqn.params["grid_mapping"]

    @property
    def name(self) -> str:
        return str(self.eqn.params["jaxpr"].debug_info.func_name)

    @property
    def semantics(self) -> tuple[bool, ...]:
        params = self.eqn.params["compiler_params"]
        how = getattr(params, "dimension_semantics", None) or ()
        return tuple(is_parallel(one) for one in how) or (False,) * len(self.mapping.grid)


def calls(jaxpr: Any, known: dict[Any, int] | None = None) -> Iterator[Call]:
    """Every pallas_call, at any depth outside kernels."""
    if known is None:
        known = {var: number for number, var in enumerate(jaxpr.invars)}
    taken = {id(var) for eqn in jaxpr.eqns for var in eqn.invars} | {id(var) for var in jaxpr.outvars}
    for eqn in jaxpr.eqns:
        of = [None if isinstance(var, jax_core.Literal) else known.get(var) for var in eqn.invars]
        if eqn.primitive.name == "pallas_call":
            yield Call(eqn, tuple(of), tuple(id(var) in taken for var in eqn.outvars))
            continue
        for inner in jax_core.jaxprs_in_params(eqn.params):
            passed = eqn.primitive.name == "jit" and len(inner.invars) == len(of)
            inside = {var: n for var, n in zip(inner.invars, of, strict=True) if n is not None} if passed else {}
            yield from calls(inner, inside)


def primitives(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a kernel, at any depth."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax_core.jaxprs_in_params(eqn.params):
            yield from primitives(inner)


def check(closed: Any, file: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Findings, and for what was not looked at the reasons."""
    findings: list[dict[str, Any]] = []
    reasons: list[str] = []
    for call in calls(closed.jaxpr):
        findings += _waits(call, file) + _aliases(call, file)
        found, reason = _blocks(call, file)
        findings += found
        reasons += [reason] if reason else []
    return findings, reasons


def _finding(call: Call, kind: str, line: int, message: str, file: str) -> dict[str, Any]:
    return {"kind": kind, "line": line or _line(call, file), "message": message, "kernel": call.name}


def _line(call: Call, file: str) -> int:
    return line_of(call.eqn.source_info, file)


def _waits(call: Call, file: str) -> list[dict[str, Any]]:
    names = [(eqn.primitive.name, line_of(eqn.source_info, file)) for eqn in primitives(call.eqn.params["jaxpr"])]
    starts = [line for name, line in names if name == "dma_start"]
    if starts and all(name != "dma_wait" for name, _ in names):
        return [_finding(call, "dma_never_waited", starts[0], "starts a copy that nothing waits for", file)]
    return []


def _aliases(call: Call, file: str) -> list[dict[str, Any]]:
    found = []
    for operand, output in call.eqn.params["input_output_aliases"]:
        if call.arguments[operand] is not None:
            message = f"input_output_aliases lets output {output} overwrite the workload's own input {call.arguments[operand]}"
            found.append(_finding(call, "undeclared_alias", 0, message, file))
    return found


def _blocks(call: Call, file: str) -> tuple[list[dict[str, Any]], str]:
    mapping, grid = call.mapping, call.mapping.grid
    where = f"kernel {call.name} at full size"
    if not all(isinstance(size, int) for size in grid):
        return [], f"{where}: its grid is not known before it runs"
    steps = math.prod(grid)
    if steps > MOST_STEPS:
        return [], f"{where}: {steps} grid steps are more than the {MOST_STEPS} whose blocks are looked at"
    points = np.indices(grid).reshape(len(grid), -1).astype(np.int32) if grid else np.zeros((0, 1), np.int32)
    findings, skipped = [], 0
    aliased = {output for _, output in call.eqn.params["input_output_aliases"]}
    for number, block in enumerate(mapping.block_mappings):
        indices = _indices(block, points)
        if indices is None:
            skipped += 1
            continue
        output = number - mapping.num_inputs
        role = f"output {output}" if output >= 0 else f"input {number}"
        counts = _counts(block)
        outside = ((indices < 0) | (indices >= np.array(counts, np.int64)[:, None])).any(axis=0)
        if outside.any():
            at = int(outside.argmax())
            message = (
                f"the index map of {role} gives block {tuple(int(i) for i in indices[:, at])} at grid point"
                f" {tuple(int(i) for i in points[:, at])}; there are {list(counts)} blocks (full size)"
            )
            findings.append(_finding(call, "block_out_of_bounds", _map_line(block, file), message, file))
            continue
        if output < 0 or not call.used[output] or _whole(block) or math.prod(counts) > _MOST_BLOCKS:
            continue
        flat = np.ravel_multi_index(tuple(indices), counts) if counts else np.zeros(steps, np.int64)
        findings += _visits(call, block, role, flat, points, output in aliased, counts, file)
    reason = f"{where}: {skipped} index maps depend on data or are of a kind that is only run" if skipped else ""
    return findings, reason


def _visits(
    call: Call, block: Any, role: str, flat: Any, points: Any, aliased: bool, counts: tuple[int, ...], file: str
) -> list[dict[str, Any]]:
    found, line = [], _map_line(block, file)
    parallel = [i for i, yes in enumerate(call.semantics) if yes and call.mapping.grid[i] > 1]
    if parallel:
        cores = np.ravel_multi_index(tuple(points[i] for i in parallel), [call.mapping.grid[i] for i in parallel])
        pairs = np.unique(np.stack([flat, cores]), axis=1)
        blocks, times = np.unique(pairs[0], return_counts=True)
        if (times > 1).any():
            at = tuple(int(i) for i in np.unravel_index(int(blocks[times > 1][0]), counts)) if counts else ()
            message = f"block {at} of {role} is written at several points of a parallel axis (full size)"
            return [_finding(call, "parallel_carry", line, message, file)]
    if aliased:
        return []
    changes = np.flatnonzero(np.diff(flat)) + 1
    runs = flat[np.concatenate([[0], changes])]
    visited = np.unique(runs)
    if len(visited) < len(runs):
        message = f"blocks of {role} are visited again after other blocks (full size)"
        found.append(_finding(call, "revisited_out_of_order", line, message, file))
    if len(visited) < math.prod(counts):
        missing = np.setdiff1d(np.arange(math.prod(counts)), visited)[0] if len(visited) else 0
        at = tuple(int(i) for i in np.unravel_index(int(missing), counts))
        message = f"no grid step visits block {at} of {role}: {math.prod(counts) - len(visited)} are never written (full size)"
        found.append(_finding(call, "unwritten_output", line, message, file))
    return found


def _map_line(block: Any, file: str) -> int:
    info = block.index_map_jaxpr.jaxpr.debug_info
    return int(info.func_lineno or 0) if info.func_filename == file else 0


def _whole(block: Any) -> bool:
    """Whether the kernel has the array itself, and no window on it."""
    space = block.transformed_block_aval.memory_space
    return space in (pallas_core.MemorySpace.ANY, mosaic_core.MemorySpace.HBM, mosaic_core.MemorySpace.SEMAPHORE)


def _counts(block: Any) -> tuple[int, ...]:
    return tuple(
        -(-size // (one.block_size if isinstance(one, pallas_core.Blocked) else 1))
        for size, one in zip(block.array_aval.shape, block.block_shape, strict=True)
    )


def _indices(block: Any, points: Any) -> Any:
    """Block indices of every grid step, (dimensions of the array, steps); None where only a run can tell."""
    kinds = (pallas_core.Blocked, pallas_core.Squeezed)
    jaxpr = block.index_map_jaxpr
    if not all(isinstance(one, kinds) for one in block.block_shape):
        return None
    given = len(points)
    used = {id(var) for eqn in jaxpr.jaxpr.eqns for var in eqn.invars}
    if any(id(var) in used for var in jaxpr.jaxpr.invars[given:]):  # reads the prefetched scalars
        return None
    steps = points.shape[1]
    missing = [np.zeros((), np.int32)] * (len(jaxpr.jaxpr.invars) - given)

    def one(*point: Any) -> Any:
        return jax_core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *point, *missing)

    found = jax.jit(jax.vmap(one))(*points) if given else [np.array([i]) for i in one()]
    rows = [np.broadcast_to(np.asarray(row, np.int64), (steps,)) for row in found]
    return np.stack(rows) if rows else np.zeros((0, steps), np.int64)
