"""Watches kernels run under jax's TPU interpreter: every element knows whether, and how, it came to hold a value.

The interpreter fills memory that nothing has written with NaN; this goes further. Each buffer has a shadow that says for
every element why it should not be relied on (`FRESH`, `PADDING`, `CARRIED`, `IN_FLIGHT`), and that travels with copies.
What a kernel reads of such elements is filled in at the read, one place in the code at a time, so that a read that is
masked away afterwards is silent, and one that reaches the result is known by its line.

Accesses out of bounds, waits that never end, revisited blocks and races are noted instead of raised, so that one run
tells of all of them. Replaces functions of `jax._src.pallas.mosaic.interpret`; one `Watch` is active in a process.
"""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import callback as jax_callback
from jax._src import source_info_util
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret import race_detection_state, utils
from jax._src.pallas.mosaic.interpret import shared_memory as memory
from jax._src.pallas.mosaic.interpret import vector_clock as clocks

FRESH, PADDING, CARRIED, IN_FLIGHT = 1, 2, 3, 4
KEEP, ZERO, NAN, LARGE = "keep", "zero", "nan", "large"
_MOST_FINDINGS = 64
_NO_LINE = 0

Key = tuple[str, int, int, int]
Range = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """A place that reads what it should not rely on. line: 0 for what the pipeline itself copies out."""

    kernel: str
    line: int
    role: str
    name: str
    code: int


@dataclasses.dataclass(frozen=True)
class Role:
    """What a buffer is to the kernel: "input", "output" (whole, in HBM), "input window", "output window", "scratch", ..."""

    kind: str
    name: str
    shape: tuple[int, ...] | None = None
    aliased: bool = False
    unused: bool = False  # an output that nothing takes


@dataclasses.dataclass
class Kernel:
    """One pallas_call: the roles of the buffers in the order in which the interpreter allocates them."""

    name: str
    line: int
    roles: list[Role]
    parallel: tuple[int, ...]
    outputs: list[str]


@dataclasses.dataclass
class Shadow:
    role: Role
    state: Any  # uint8, the buffer's shape

    def within(self, where: Range) -> bool:
        for index, size in zip(where, self.state.shape, strict=True):
            first, last = (index, index) if isinstance(index, int) else _ends(index)
            if first < 0 or last >= size:
                return False
        return True


@dataclasses.dataclass
class Watch:
    """One run's record. fills: what reads at a site get instead of `otherwise`. seed: orders the parallel axes."""

    file: str
    fills: dict[Site, str] = dataclasses.field(default_factory=dict)
    otherwise: str = ZERO
    seed: int | None = None
    unused: frozenset[tuple[str, int]] = frozenset()  # outputs that nothing takes: kernel and number
    telling: bool = True
    findings: dict[tuple[str, int, str], dict[str, Any]] = dataclasses.field(default_factory=dict)
    sites: dict[Site, bool] = dataclasses.field(default_factory=dict)
    steps: int = 0
    shadows: dict[Key, Shadow] = dataclasses.field(default_factory=dict)
    kernel: Kernel | None = None
    beside: bool = True  # whether anything runs beside anything else by now
    allocated: int = 0
    copied: dict[int, Any] = dataclasses.field(default_factory=dict)
    point: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    visited: dict[tuple[int, int], set[Any]] = dataclasses.field(default_factory=dict)
    latest: dict[tuple[int, int], Any] = dataclasses.field(default_factory=dict)
    lines: dict[str, int] = dataclasses.field(default_factory=dict)  # of the kernels that ran
    lock: Any = dataclasses.field(default_factory=threading.RLock)

    def find(self, kind: str, line: int, message: str) -> None:
        key = (kind, line, message if line == _NO_LINE else "")
        if self.telling and key not in self.findings and len(self.findings) < _MOST_FINDINGS:
            kernel = self.kernel.name if self.kernel else ""
            self.findings[key] = {
                "kind": kind,
                "line": line or self._kernel_line(),
                "message": message,
                "kernel": kernel,
            }

    def _kernel_line(self) -> int:
        return self.kernel.line if self.kernel else 0

    def line(self, source_info: Any) -> int:
        """The innermost line of the candidate's file, 0 if there is none."""
        return line_of(source_info, self.file)

    def begin(self, kernel: Kernel) -> None:
        self.kernel, self.allocated = kernel, 0
        self.lines[kernel.name] = kernel.line
        for kept in (self.shadows, self.copied, self.point, self.visited, self.latest):
            kept.clear()

    def filled(self, values: Any, state: Any, site_of: Callable[[int], Site]) -> Any:
        values = np.array(values)
        for code in np.unique(state[state > 0]):
            site = site_of(int(code))
            self.sites[site] = True
            how = self.fills.get(site, self.otherwise)
            if how == KEEP or (how == ZERO and code in (CARRIED, IN_FLIGHT)):
                continue
            values[state == code] = _value(values.dtype, how)
        return values


def _value(dtype: Any, how: str) -> Any:
    if how == ZERO:
        return np.zeros((), dtype)
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return np.array(np.nan if how == NAN else 3e4, np.float32).astype(dtype)
    if dtype == np.bool_:
        return True
    # an index or a trip count: one that is small enough not to hang, and then the largest
    return np.array(min(113, jax.numpy.iinfo(dtype).max) if how == NAN else jax.numpy.iinfo(dtype).max, dtype)


WATCH = Watch("")


def start(watch: Watch) -> Watch:
    """Make this the active watch."""
    global WATCH
    WATCH = watch
    return watch


def line_of(source_info: Any, file: str) -> int:
    traceback = getattr(source_info, "traceback", source_info)
    if traceback is None:
        return _NO_LINE
    for frame in traceback.frames:  # innermost first
        if frame.file_name == file:
            return int(frame.line_num)
    return _NO_LINE


def _ends(index: slice) -> tuple[int, int]:
    """First and last element of a slice; an empty one lies inside everything."""
    step = index.step or 1
    count = max(0, -(-(index.stop - index.start) // step))
    return (index.start, index.start + (count - 1) * step) if count else (0, 0)


def _range(transforms: Any, shape: tuple[int, ...]) -> Range:
    """Raises ValueError for indices that are no integers and slices."""
    try:
        given = utils.to_range(jax.tree.map(int, transforms))
    except Exception as error:
        raise ValueError("indices other than integers and slices") from error
    return (*given, *(slice(0, size, 1) for size in shape[len(given) :]))


def _extent(where: Range) -> tuple[int, ...]:
    return tuple(max(0, -(-(i.stop - i.start) // (i.step or 1))) for i in where if not isinstance(i, int))


def _shown(where: Range) -> str:
    return "[" + ", ".join(str(i) if isinstance(i, int) else f"{i.start}:{i.stop}" for i in where) + "]"


def _key(device_id: Any, core: Any, space: Any, buffer: Any) -> Key:
    name = interpreter.TPU_MEMORY_SPACE_NAMES[int(space)]
    return name, int(buffer), int(device_id), 0 if name in ("any", "hbm") else int(core)


# --- the interpreter's functions, each with what is watched around it

_get, _store, _swap = interpreter.get, interpreter.store, interpreter.swap
_allocate_buffer, _deallocate_buffer = interpreter._allocate_buffer, interpreter._deallocate_buffer
_interpret_pallas_call, _DMA = interpreter.interpret_pallas_call, interpreter.DMA
_io_callback = jax_callback.io_callback


def interpret_pallas_call(*args: Any, jaxpr: Any, grid_mapping: Any, compiler_params: Any, **params: Any) -> Any:
    kernel = _kernel(jaxpr, grid_mapping, compiler_params, params["input_output_aliases"])
    _io_callback(lambda: WATCH.begin(kernel), None, ordered=True)
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
            unused = (jaxpr.debug_info.func_name, i) in WATCH.unused
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
    parallel = tuple(i for i, how in enumerate(semantics) if _is_parallel(how))
    source = jaxpr.debug_info.func_filename, jaxpr.debug_info.func_lineno
    line = source[1] if source[0] == WATCH.file and source[1] else 0
    outputs = names[mapping.num_inputs : mapping.num_inputs + mapping.num_outputs]
    return Kernel(jaxpr.debug_info.func_name, line, roles, parallel, outputs)


def _is_parallel(how: Any) -> bool:
    return str(getattr(how, "value", how)).lower() == "parallel"


def allocate_buffer(token: Any, device_id: Any, core: Any, space: Any, value: Any, source_info: Any = None) -> Any:
    watch = WATCH
    token, buffer = _allocate_buffer(token, device_id, core, space, value, source_info)
    with watch.lock:
        role = Role("scratch", "")
        if core is None and watch.kernel and watch.allocated < len(watch.kernel.roles):
            role = watch.kernel.roles[watch.allocated]
            watch.allocated += 1
        shape = np.shape(value)
        cores = range(interpreter._get_shared_memory().num_cores_per_device) if core is None else [core]
        for each in cores:
            state = np.zeros(shape, np.uint8)
            if role.kind in ("scratch", "output window", "output"):
                state[...] = FRESH
            elif role.kind == "input" and role.shape is not None and role.shape != shape:
                state[...] = PADDING
                state[tuple(slice(0, size) for size in role.shape)] = 0
            watch.shadows[_key(device_id, each, space, buffer)] = Shadow(role, state)
    return token, buffer


def deallocate_buffer(token: Any, device_id: Any, core: Any, space: Any, buffer: Any, source_info: Any = None) -> Any:
    WATCH.shadows.pop(_key(device_id, core, space, buffer), None)
    return _deallocate_buffer(token, device_id, core, space, buffer, source_info)


def get(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any,
    block_indices: Any = None, point: Any = None, *, unwrapped: bool = False, **how: Any,
) -> Any:  # fmt: skip
    watch = WATCH
    key, original = _key(device_id, core, space, buffer), _get.__wrapped__ if unwrapped else _get
    source_info, of_input, of_dma = how.get("source_info"), how.get("input_name"), how.get("src_device_id")
    shadow = watch.shadows[key]
    where = _range(transforms, shadow.state.shape)
    line = watch.line(source_info)
    if not shadow.within(where):
        if of_input is not None:
            blocks = tuple(int(i) for i in block_indices)
            watch.find(
                "block_out_of_bounds",
                _NO_LINE,
                f"the index map of input {of_input} gives block {blocks} at grid point {tuple(int(i) for i in point)},"
                f" which begins outside the array of shape {list(shadow.role.shape or shadow.state.shape)}",
            )
        else:
            watch.find("out_of_bounds", line, f"reads {_shown(where)} of {_named(shadow)}, outside its shape")
        values = np.zeros(_extent(where), interpreter._get_shared_memory().mem[key].dtype)
        _keep(core, of_dma, np.zeros(values.shape, np.uint8))
        return token, values
    token, values = original(token, device_id, core, space, buffer, transforms, block_indices, point, **how)
    state = shadow.state[where]
    if of_dma is not None:
        _keep(core, of_dma, state.copy())
    elif of_input is not None or (source_info is None and shadow.role.kind.endswith("window")):
        _keep(core, None, state.copy())
        if shadow.role.kind == "output window":  # written back: what the window holds next is not this block
            shadow.state[...] = FRESH
    elif state.any():
        kernel = watch.kernel.name if watch.kernel else ""
        values = watch.filled(
            values, state, lambda code: Site(kernel, line, shadow.role.kind, shadow.role.name, code)
        )  # fmt: skip
    return token, values


def _keep(core: Any, dma: Any, state: Any) -> None:
    """What is known of values on their way, until `store` puts them down."""
    WATCH.copied[int(dma) if dma is not None else -1 - int(core)] = state


def store(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any, value: Any,
    block_indices: Any = None, point: Any = None, *, unwrapped: bool = False, **how: Any,
) -> Any:  # fmt: skip
    watch = WATCH
    key, original = _key(device_id, core, space, buffer), _store.__wrapped__ if unwrapped else _store
    source_info, of_output, of_dma = how.get("source_info"), how.get("output_name"), how.get("src_device_id")
    shadow = watch.shadows[key]
    where = _range(transforms, shadow.state.shape)
    copied = watch.copied.pop(int(of_dma) if of_dma is not None else -1 - int(core), None)
    if not shadow.within(where):
        if of_output is not None:
            blocks = tuple(int(i) for i in block_indices)
            watch.find(
                "block_out_of_bounds",
                _NO_LINE,
                f"the index map of output {of_output} gives block {blocks} at grid point {tuple(int(i) for i in point)},"
                f" which begins outside the array of shape {list(shadow.role.shape or shadow.state.shape)}",
            )
        else:
            watch.find(
                "out_of_bounds",
                watch.line(source_info),
                f"writes {_shown(where)} of {_named(shadow)}, outside its shape",
            )
        return token
    token = original(token, device_id, core, space, buffer, transforms, value, block_indices, point, **how)
    if of_dma is not None and shadow.role.kind == "input" and not shadow.role.aliased:
        watch.find(
            "input_written",
            watch.line(source_info),
            f"copies into input {shadow.role.name}, which is not aliased to an output",
        )
    shadow.state[where] = copied if copied is not None and copied.shape == shadow.state[where].shape else 0
    return token


def swap(
    token: Any, device_id: Any, core: Any, space: Any, buffer: Any, transforms: Any, value: Any, mask: Any,
    *, source_info: Any = None,
) -> Any:  # fmt: skip
    watch = WATCH
    shadow = watch.shadows[_key(device_id, core, space, buffer)]
    where = _range(transforms, shadow.state.shape)
    line = watch.line(source_info)
    if mask is None and not shadow.within(where):
        watch.find("out_of_bounds", line, f"writes {_shown(where)} of {_named(shadow)}, outside its shape")
        return token, np.zeros(np.shape(value), np.asarray(value).dtype)
    if shadow.role.kind == "input window":
        watch.find("input_written", line, f"writes to input {shadow.role.name}")
    token, before = _swap(token, device_id, core, space, buffer, transforms, value, mask, source_info=source_info)
    if mask is None:
        shadow.state[where] = 0
    elif shadow.within(where):
        shadow.state[where] = np.where(np.asarray(mask), 0, shadow.state[where])
    return token, before


def _named(shadow: Shadow) -> str:
    role = shadow.role
    return f"{role.kind} {role.name}".strip() + f" of shape {list(role.shape or shadow.state.shape)}"


get.__wrapped__ = lambda *args, **how: get(*args, unwrapped=True, **how)  # type: ignore[attr-defined]
store.__wrapped__ = lambda *args, **how: store(*args, unwrapped=True, **how)  # type: ignore[attr-defined]


def begin_dma(*args: Any, **fields: Any) -> Any:
    """A DMA has been started: until it is waited for, nobody may rely on what it will write."""
    dma = _DMA(*args, **fields)
    watch = WATCH
    watch.beside = True
    ends = (
        (
            "reads",
            dma.src_device_id,
            dma.src_local_core_id,
            dma.src_memory_space,
            dma.src_buffer_id,
            dma.src_transforms,
        ),
        (
            "writes",
            dma.dst_device_id,
            dma.dst_local_core_id,
            dma.dst_memory_space,
            dma.dst_buffer_id,
            dma.dst_transforms,
        ),
    )
    for does, device_id, core, space, buffer, transforms in ends:
        shadow = watch.shadows.get(_key(device_id, core, space, buffer))
        if shadow is None:
            continue
        where = _range(transforms, shadow.state.shape)
        if not shadow.within(where):
            watch.find(
                "out_of_bounds", watch.line(dma.source_info), f"a copy {does} {_shown(where)} of {_named(shadow)}"
            )
        elif does == "writes":
            shadow.state[where] = IN_FLIGHT
    return dma


def check_for_revisiting(token: Any, device_id: Any, core: Any, loop_index: Any, blocks: Any) -> Any:
    watch = WATCH
    for number, block in enumerate(blocks):
        if block is None:
            continue
        try:
            where = utils.to_range(jax.tree.map(int, block))
        except Exception:
            continue
        shown = tuple(i if isinstance(i, int) else (i.start, i.stop) for i in where)
        key = (int(core), number)
        seen = watch.visited.setdefault(key, set())
        if shown in seen and watch.latest.get(key) != shown:
            name = watch.kernel.outputs[number] if watch.kernel else str(number)
            watch.find(
                "revisited_out_of_order",
                _NO_LINE,
                f"block {_shown(where)} of output {name} is visited again at grid point"
                f" {tuple(int(i) for i in loop_index)} after other blocks",
            )
        seen.add(shown)
        watch.latest[key] = shown
    return token


def next_step(token: Any, point: Any, core: Any) -> Any:
    """The interpreter calls this before each grid step."""
    watch = WATCH
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


def validate(token: Any, device_id: Any) -> Any:
    """A kernel ends: no copy may be in flight, no semaphore may hold a count."""
    watch, shared = WATCH, interpreter._get_shared_memory()
    for semaphore in [*shared.sem.values(), *shared.fixed_id_sem.values()]:
        pending = False
        for tasks in semaphore.tasks:
            for task in tasks:
                dma = getattr(task, "__self__", None)
                if isinstance(dma, _DMA) and dma.state is not interpreter.DmaState.COMPLETED:
                    pending = True
                    watch.find("dma_never_waited", watch.line(dma.source_info), "starts a copy that nothing waits for")
        if not pending and semaphore.count_by_core.any():
            line = getattr(semaphore, "signalled_at", 0)
            left = int(semaphore.count_by_core[semaphore.count_by_core.nonzero()][0])
            watch.find("semaphore_not_zero", line, f"a semaphore still holds {left} when the kernel ends")
    return token


class WouldWaitForever(RuntimeError):
    """The only core waits for a signal that nobody is left to send."""


class _Patience(threading.Condition):
    """A condition variable that a single core never waits on: no other could change what it waits for."""

    def wait(self, timeout: float | None = None) -> bool:
        WATCH.find("wait_never_ends", _waiting.get("line", 0), "waits for a signal or a copy that was never started")
        raise WouldWaitForever


_waiting: dict[str, int] = {}
_semaphore_init, _signal, _wait = memory.Semaphore.__init__, memory.Semaphore.signal, memory.Semaphore.wait


def semaphore_init(self: Any, shared_memory: Any, *args: Any, **how: Any) -> None:
    _semaphore_init(self, shared_memory, *args, **how)
    if shared_memory.num_cores == 1:
        self.cv = _Patience()


def signal(self: Any, inc: Any, core: Any, clock: Any, logging_info: Any = None) -> None:
    self.signalled_at = WATCH.line(getattr(logging_info, "source_info", None))
    _signal(self, inc, core, clock, logging_info)


def wait(self: Any, value: Any, core: Any, *, has_tasks: bool = False, logging_info: Any = None) -> None:
    _waiting["line"] = WATCH.line(getattr(logging_info, "source_info", None))
    _wait(self, value, core, has_tasks=has_tasks, logging_info=logging_info)


class Races(race_detection_state.RaceDetectionState):  # type: ignore[misc]
    """jax's happens-before check, noting the two lines instead of printing; forgets what can no longer race."""

    def __init__(self, num_cores: int) -> None:
        super().__init__(num_cores=num_cores)
        WATCH.beside = num_cores > 1
        self._accesses: dict[Any, list[tuple[Any, Any, str, int]]] = {}

    def check_read(self, device: Any, core: Any, clock: Any, key: Any, where: Any, source_info: Any = None) -> None:
        self._check("read", clock, key, where, source_info)

    def check_write(self, device: Any, core: Any, clock: Any, key: Any, where: Any, source_info: Any = None) -> None:
        self._check("write", clock, key, where, source_info)

    def _check(self, how: str, clock: Any, key: Any, where: Any, source_info: Any) -> None:
        if not WATCH.beside:  # on one core, what comes before the first copy comes before everything else
            return
        line = WATCH.line(source_info)
        shadow = WATCH.shadows.get(key)
        if shadow and shadow.role.unused:
            return
        with self.lock:
            kept = []
            for earlier in self._accesses.get(key, []):
                its_clock, its_range, its_how, its_line = earlier
                if clocks.ordered(its_clock, clock):
                    if its_range != where or (how == "read" and its_how == "write"):
                        kept.append(earlier)
                    continue
                kept.append(earlier)
                if "write" in (how, its_how) and race_detection_state._ranges_overlap(where, its_range):
                    self.races_found = True
                    first, second = sorted([(line, how), (its_line, its_how)], reverse=True)
                    WATCH.find("race", first[0], _racing(first, second, shadow))
            kept.append((clock, where, how, line))
            self._accesses[key] = kept


def _racing(first: tuple[int, str], second: tuple[int, str], shadow: Shadow | None) -> str:
    memory_of = _named(shadow) if shadow else "the same memory"
    if not first[0]:  # which is the later line: neither is the candidate's
        return f"two cores reach the same block of {memory_of} in no fixed order"
    other = f"line {second[0]}" if second[0] else "the kernel's pipeline"
    return f"a {first[1]} here and a {second[1]} by {other} reach {memory_of} in no fixed order"


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
    if WATCH.seed is None:
        return np.arange(size, dtype=np.int32)
    return np.random.default_rng([WATCH.seed, axis]).permutation(size).astype(np.int32)


def parallel_dim_semantics(mosaic_params: Any, dimensions: int) -> tuple[bool, ...]:
    """As jax's, for one core: parallel axes need not come first."""
    semantics = mosaic_params.dimension_semantics or ()
    return tuple(_is_parallel(how) for how in semantics) or (False,) * dimensions


class _Callbacks:
    """Stands for jax's callback module inside the interpreter: gives every wait the line that it lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jax_callback, name)

    def io_callback(self, function: Any, *args: Any, **how: Any) -> Any:
        if function is interpreter.semaphore_wait:
            function = _at_line(function, source_info_util.current())
        return _io_callback(function, *args, **how)


def io_callback_impl(*args: Any, callback: Any, **how: Any) -> Any:
    """As jax's, without a device array for every argument, which takes longer than the interpreter's own work."""
    del how
    return [np.asarray(value) for value in callback(*args)]


def _at_line(function: Any, source_info: Any) -> Any:
    def call(*args: Any) -> Any:
        return function(*args, source_info=source_info)

    return call


def install(*, cores: int) -> None:
    """Put the watched functions in the interpreter's place; with several cores only races are watched."""
    jax_callback.io_callback_impl = io_callback_impl
    interpreter.RaceDetectionState = Races
    memory.Semaphore.__init__ = semaphore_init
    memory.Semaphore.signal = signal
    memory.Semaphore.wait = wait
    interpreter._validate = validate
    interpreter.callback = _Callbacks()
    interpreter._check_for_revisiting = check_for_revisiting
    interpreter.interpret_pallas_call = interpret_pallas_call
    interpreter._allocate_buffer, interpreter._deallocate_buffer = allocate_buffer, deallocate_buffer
    if cores > 1:
        return
    interpreter.get, interpreter.store, interpreter.swap = get, store, swap
    interpreter.DMA = begin_dma
    interpreter._get_randomized_grid_coordinates = randomized_grid_coordinates
    interpreter._get_parallel_dim_semantics = parallel_dim_semantics
