"""Kernels and their grids: what each buffer is to a kernel, the order of its steps, the blocks that they visit."""

from typing import Any

import jax
import numpy as np
from jax._src import callback as jax_callback
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret import utils

from .record import active
from .shadow import CARRIED, NO_LINE, Kernel, Role, is_parallel, shown

_interpret_pallas_call, _io_callback = interpreter.interpret_pallas_call, jax_callback.io_callback


def interpret_pallas_call(*args: Any, jaxpr: Any, grid_mapping: Any, compiler_params: Any, **params: Any) -> Any:
    kernel = _kernel(jaxpr, grid_mapping, compiler_params, params["input_output_aliases"])
    _io_callback(lambda: active().begin(kernel), None, ordered=True)
    return _interpret_pallas_call(
        *args, jaxpr=jaxpr, grid_mapping=grid_mapping, compiler_params=compiler_params, **params
    )


def _kernel(jaxpr: Any, mapping: Any, compiler_params: Any, aliases: Any) -> Kernel:
    blocks = mapping.block_mappings
    names = list(jaxpr.debug_info.arg_names or [""] * len(jaxpr.invars))[mapping.num_index_operands :]
    aliased_inputs = {k - mapping.num_index_operands for k, _ in aliases}
    aliased_outputs = {v for _, v in aliases}
    roles = [
        Role("input", names[i], tuple(blocks[i].array_aval.shape), i in aliased_inputs)
        for i in range(mapping.num_inputs)
    ]
    for i, block in enumerate(mapping.block_mappings_output):
        if i not in aliased_outputs:
            unused = (jaxpr.debug_info.func_name, i) in active().unused
            roles.append(Role("output", names[mapping.num_inputs + i], tuple(block.array_aval.shape), unused=unused))
    roles += [Role("scalars", "") for _ in range(mapping.num_index_operands)]
    for i, var in enumerate(jaxpr.invars[mapping.num_index_operands :]):
        windowed = i < mapping.num_inputs + mapping.num_outputs
        space = blocks[i].transformed_block_aval.memory_space if windowed else var.aval.memory_space
        space = interpreter._forward_any_to_hbm(space)
        if space is interpreter._SEMAPHORE or space is interpreter._HBM:
            continue
        kind = "scratch" if not windowed else "input window" if i < mapping.num_inputs else "output window"
        roles.append(Role(kind, names[i]))
    semantics = getattr(compiler_params, "dimension_semantics", None) or ()
    parallel = tuple(i for i, how in enumerate(semantics) if is_parallel(how))
    source = jaxpr.debug_info.func_filename, jaxpr.debug_info.func_lineno
    line = source[1] if source[0] == active().file and source[1] else 0
    outputs = names[mapping.num_inputs : mapping.num_inputs + mapping.num_outputs]
    return Kernel(jaxpr.debug_info.func_name, line, roles, parallel, outputs)


def check_for_revisiting(token: Any, device_id: Any, core: Any, loop_index: Any, blocks: Any) -> Any:
    watch = active()
    for number, block in enumerate(blocks):
        if block is None:
            continue
        try:
            where = utils.to_range(jax.tree.map(int, block))
        except Exception:
            continue
        place = tuple(i if isinstance(i, int) else (i.start, i.stop) for i in where)
        key = (int(core), number)
        seen = watch.visited.setdefault(key, set())
        if place in seen and watch.latest.get(key) != place:
            name = watch.kernel.outputs[number] if watch.kernel else str(number)
            watch.find(
                "revisited_out_of_order",
                NO_LINE,
                f"block {shown(where)} of output {name} is visited again at grid point"
                f" {tuple(int(i) for i in loop_index)} after other blocks",
            )
        seen.add(place)
        watch.latest[key] = place
    return token


def next_step(token: Any, point: Any, core: Any) -> Any:
    """The interpreter calls this before each grid step."""
    watch = active()
    watch.steps += 1
    if not watch.kernel or not watch.kernel.parallel:
        return token
    coordinates = tuple(int(point[i]) for i in watch.kernel.parallel)
    before = watch.point.get(int(core))
    watch.point[int(core)] = coordinates
    if before is not None and before != coordinates:
        for shadow in watch.shadows.values():
            if shadow.role.kind in ("scratch", "output window"):
                shadow.state[shadow.state == 0] = CARRIED
    return token


def randomized_grid_coordinates(grid: Any, mosaic_params: Any, random_seed: Any) -> Any:
    """Parallel axes in an order that the watch gives at each run, so that one compiled program serves every seed."""
    del random_seed
    found = []
    for axis, (size, parallel) in enumerate(
        zip(grid, interpreter._get_parallel_dim_semantics(mosaic_params, len(grid)), strict=True)
    ):
        if parallel:
            size = int(jax.core.concrete_or_error(None, size))
            shape = jax.ShapeDtypeStruct((size,), np.int32)
            found.append(_io_callback(lambda axis=axis, size=size: _order(axis, size), shape, ordered=True))
        else:
            found.append(jax.numpy.array((), np.int32))
    return tuple(found)


def _order(axis: int, size: int) -> Any:
    seed = active().seed
    if seed is None:
        return np.arange(size, dtype=np.int32)
    return np.random.default_rng([seed, axis]).permutation(size).astype(np.int32)


def parallel_dim_semantics(mosaic_params: Any, dimensions: int) -> tuple[bool, ...]:
    """As jax's, for one core: parallel axes need not come first."""
    semantics = mosaic_params.dimension_semantics or ()
    return tuple(is_parallel(how) for how in semantics) or (False,) * dimensions
