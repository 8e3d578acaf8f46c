"""Inside the process that holds the device: time a candidate's artifact against XLA's baseline, in turn.

What is timed is data: the exported artifact, and the workload's own plain JAX exported the same way, both compiled and
called alike. Time is the device's own, from jax's profiler: microseconds per call in which the device was busy with the
program's operations, so that dispatch, which takes longer than a small kernel, is not in it; how long dispatch takes is
reported beside it. Inputs are drawn afresh from secret seeds and taken in turn, so that no call finds the ones of the
call before.

Has not been run on a TPU: its tests run it whole on the CPU backend, and read synthesised profiles of a TPU.
"""

import base64
import contextlib
import fcntl
import math
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.evaluation import Measurement, Side
from hawkeye_mcp.judge import rounds, xplane
from hawkeye_mcp.judge.verify import module_of

INPUT_SETS = 4
BLOCK_US = 50_000.0  # calls of one side in one round, at least this long together by the wall clock
MOST_CALLS = 1000
WARM_CALLS = 3


class Unmeasurable(ValueError):
    """The figures of this session contradict each other, or there are none; says why."""


@dataclass
class _Timed:
    """One compiled program and its samples."""

    run: Callable[..., Any]
    compile_s: float | None
    calls: int = 1
    samples_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)
    started_s: list[float] = field(default_factory=list)

    def side(self, seed: int) -> Side:
        return Side(
            us=rounds.interval(self.samples_us, seed),
            samples_us=[float(f"{us:.6g}") for us in self.samples_us],
            wall_us=[float(f"{us:.6g}") for us in self.wall_us],
            started_s=[round(s, 3) for s in self.started_s],
            calls=self.calls,
            compile_s=self.compile_s,
        )


def measure(
    workload: str,
    size: workloads.Size,
    artifact_b64: str,
    device_kind: str,
    least_us: float,
    ceiling: str,
    repeats: int = rounds.ROUNDS,
) -> dict[str, Any]:
    """Time an artifact for this machine's device against the workload's baseline.

    device_kind: what jax must call the device. least_us, ceiling: the time that the hardware cannot do the work in less than, and the resource that says so.

    Returns:
        {"measurement": a Measurement}, or {"runtime_error": why} if the artifact does not run with nothing beside it.

    Raises:
        Unmeasurable: the device is another one, or the profiler did not see what ran.
        Exception: whatever jax raises on a baseline that does not run on this device.
    """
    program = artifact.read(base64.b64decode(artifact_b64))
    with _alone():
        device = jax.local_devices()[0]
        if device.device_kind != device_kind:
            raise Unmeasurable(f"the device here is a {device.device_kind}, not a {device_kind}")
        lines = xplane.LINES[device.platform]
        module, dims = module_of(workload), dict(workloads.find(workload).sizes[size])
        draw = jax.jit(lambda key: module.create_inputs(key, dims))
        shapes = jax.eval_shape(draw, jax.random.key(0))
        plain = export.export(jax.jit(module.workload), platforms=[device.platform])(*shapes)
        seeds = [secrets.randbits(32) for _ in range(_input_sets(device, shapes))]
        inputs = [draw(jax.random.key(seeds[0]))]
        try:
            candidate = _compiled(program.exported)
            jax.block_until_ready(candidate.run(*inputs[0]))
        except jax.errors.JaxRuntimeError as error:
            return {"runtime_error": f"{error}"[:4000]}
        timed = {"candidate": candidate, "baseline": _compiled(plain)}
        inputs += [draw(jax.random.key(seed)) for seed in seeds[1:]]
        dispatch_us = _dispatch_us()
        for one in timed.values():
            one.calls = _calls(one.run, inputs)
        baseline = timed["baseline"]
        timed["control"] = _Timed(baseline.run, None, baseline.calls)
        seed = secrets.randbits(32)
        order = rounds.order(seed, repeats)
        _run(timed, order, inputs, lines)
    sides = {name: one.side(seed) for name, one in timed.items()}
    speedup = rounds.ratio(timed["baseline"].samples_us, timed["candidate"].samples_us, seed)
    control_ratio = rounds.ratio(timed["control"].samples_us, timed["baseline"].samples_us, seed)
    verdict, why = rounds.conclude(sides, speedup, control_ratio, least_us, ceiling)
    found = Measurement(
        device=device.device_kind,
        runtime=" ".join(device.client.platform_version.split()),
        verdict=verdict,
        why=why,
        **sides,
        speedup=speedup,
        control_ratio=control_ratio,
        noise=rounds.noise(control_ratio),
        dispatch_us=dispatch_us,
        order=order,
        seed=seed,
        input_seeds=seeds,
    )
    return {"measurement": found.model_dump(mode="json")}


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process of this installation measures; the lock goes with the process."""
    with Path(__file__).open("rb") as own:  # a file that every user of the installation can open
        fcntl.flock(own, fcntl.LOCK_EX)
        yield


def _compiled(exported: export.Exported) -> _Timed:
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
    start = time.perf_counter()
    run = jax.jit(exported.call).lower(*shapes).compile()
    return _Timed(run, round(time.perf_counter() - start, 3))


def _input_sets(device: Any, shapes: Any) -> int:
    """As many sets of inputs as half of the device's memory holds, up to INPUT_SETS; what has no limit holds all."""
    limit = (device.memory_stats() or {}).get("bytes_limit")
    if limit is None:
        return INPUT_SETS
    nbytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    return int(min(INPUT_SETS, max(1, limit // 2 // nbytes)))


def _calls(run: Callable[..., Any], inputs: list[Any]) -> int:
    """Calls that fill a block, after warming up on every set of inputs."""
    for arrays in inputs:
        jax.block_until_ready(run(*arrays))
    per_call_us = _wall_us(run, inputs, WARM_CALLS)
    return min(MOST_CALLS, max(1, math.ceil(BLOCK_US / per_call_us)))


def _wall_us(run: Callable[..., Any], inputs: list[Any], calls: int) -> float:
    """Wall-clock microseconds per call. Each call ends before the next begins: outputs of many would not fit."""
    start = time.perf_counter_ns()
    for call in range(calls):
        jax.block_until_ready(run(*inputs[call % len(inputs)]))
    return (time.perf_counter_ns() - start) / 1e3 / calls


def _dispatch_us() -> float:
    """Median wall-clock time of one call of a program that does next to nothing."""
    x = jax.numpy.zeros((8, 128), jax.numpy.float32)
    run = jax.jit(lambda x: x + 1).lower(x).compile()
    taken = [_wall_us(run, [(x,)], 1) for _ in range(55)]
    return float(f"{np.median(taken[5:]):.6g}")


def _run(timed: dict[str, _Timed], order: list[list[str]], inputs: list[Any], lines: xplane.Lines) -> None:
    """All rounds; adds a sample to each side in each."""
    start = time.perf_counter()
    for turn in order:
        for name in turn:
            one = timed[name]
            one.started_s.append(time.perf_counter() - start)
            device_us, wall_us = block(one.run, inputs, one.calls, lines)
            one.samples_us.append(device_us)
            one.wall_us.append(wall_us)


def block(run: Callable[..., Any], inputs: list[Any], calls: int, lines: xplane.Lines) -> tuple[float, float]:
    """Microseconds per call of the device and of the wall clock, over calls that one profile records.

    Raises:
        Unmeasurable: the profile has other calls than these, or a device that was busy for longer than they took.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # it slows the calls, and its events are not needed
    options.enable_hlo_proto = False
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            wall_us = _wall_us(run, inputs, calls)
        (path,) = Path(folder).rglob("*.xplane.pb")
        profile = jax.profiler.ProfileData.from_file(str(path))
    return checked(xplane.busy(profile, lines), calls, wall_us), wall_us


def checked(busy: xplane.Busy, calls: int, wall_us: float) -> float:
    """Device microseconds per call, if they can be those of the calls that were made in wall_us each."""
    if busy.runs != calls:
        raise Unmeasurable(f"the profiler recorded {busy.runs} runs of a program that was called {calls} times")
    device_us = busy.us / calls
    if device_us > wall_us:
        raise Unmeasurable(f"device time {device_us:.6g} us per call is longer than the call itself, {wall_us:.6g} us")
    return device_us


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {"measure": measure}
