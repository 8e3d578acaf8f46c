"""The sanitizer's side in the sandbox: run one candidate in one setting, and say what was seen.

settings: "static" looks at the full size without running; "one_core" runs the check size, watched, in as many runs as
blame needs; "two_cores" splits the parallel axes between two cores that race for real.
"""

import base64
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src.core import jaxpr_as_fun
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter
from jax._src.pallas.mosaic.interpret.params import InterpretParams

from . import grid, record, shadow, static, watch

SEEDS = (1, 2, 3)
# Programs run a few times, so they are compiled fast; and what multiplies garbage by zero must stay garbage, which
# XLA's algebraic simplifier does not promise.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_disable_hlo_passes": "algsimp"}
_MOST_SITES = 24
_KINDS = {
    shadow.FRESH: "uninitialised_read",
    shadow.PADDING: "ragged_edge",
    shadow.CARRIED: "parallel_carry",
    shadow.IN_FLIGHT: "read_before_wait",
}
_SEEN = {
    shadow.FRESH: "was never written before",
    shadow.PADDING: "lies past the edge of the array",
    shadow.CARRIED: "was left there by another point of a parallel axis",
    shadow.IN_FLIGHT: "a copy that was not waited for may still be writing",
}


class Report:
    """What goes back: grows while checks run, so that a time limit loses nothing that was found."""

    def __init__(self) -> None:
        self.findings: list[dict[str, Any]] = []
        self.ran: list[str] = []
        self.not_checked: list[dict[str, str]] = []
        self.seconds: dict[str, float] = {}
        self.nan: list[int] = []

    def skip(self, check: str, reason: str) -> None:
        self.not_checked.append({"check": check, "reason": reason[:500]})

    def reply(self) -> dict[str, Any]:
        return {
            "findings": self.findings,
            "ran": self.ran,
            "not_checked": self.not_checked,
            "seconds": self.seconds,
            "nan": self.nan,
        }


def full_size(closed: Any, file: str, report: Report) -> None:
    start = time.monotonic()
    findings, reasons = static.check(closed, file)
    report.findings += findings
    report.ran.append("static")
    for reason in reasons:
        report.skip("static", reason)
    report.seconds["static"] = round(time.monotonic() - start, 3)


def run_one_core(traced: Callable[..., Any], inputs: list[Any], file: str, report: Report, quick: bool) -> None:
    """traced(inputs, params): the program for jax's TPU interpreter. quick: without the orders of parallel axes."""
    record.start(record.Watch(file))
    watch.install(cores=1)
    # on one core only copies run beside the kernel; where there are none, nothing is lost but time
    closed = traced(inputs, InterpretParams(detect_races=True, grid_point_recorder=grid.next_step))
    kernels = [call.eqn for call in static.calls(closed.jaxpr)]
    program = jax.jit(jaxpr_as_fun(closed), compiler_options=_OPTIONS)
    checks = ["uninitialised", "out_of_bounds", "dma", "semaphores", "revisits", "parallel", "races"]
    start = time.monotonic()

    def run(**how: Any) -> tuple[record.Watch, list[Any] | None, str]:
        each = record.start(record.Watch(file, **how))
        try:
            outputs = [np.asarray(x) for x in program(*inputs)]
        except Exception as error:
            interpreter.reset_tpu_interpret_mode_state()
            return each, None, f"{type(error).__name__}: {error}"
        return each, outputs, ""

    first, outputs, error = run()
    report.seconds["first_run"] = round(time.monotonic() - start, 3)
    report.findings += first.findings.values()
    if outputs is None:
        if first.findings:
            report.ran += checks
        for check in [] if first.findings else checks:
            report.skip(check, f"the interpreter cannot run it: {_last_line(error)}")
        return
    report.nan = [_nan(x) for x in outputs]
    report.ran += checks
    for site in _guilty(list(first.sites), outputs, run) if first.sites else []:
        report.findings.append(_told(site, first))
    if quick:
        report.skip("seeds", "it is left to the sanitizer alone")
    else:
        _orders(kernels, outputs, run, report)
    report.seconds["one_core"] = round(time.monotonic() - start, 3)


def _guilty(sites: list[shadow.Site], outputs: list[Any], run: Callable[..., Any]) -> list[shadow.Site]:
    """The sites at which garbage changes the result."""
    garbage = (record.NAN, record.LARGE)

    def matters(**how: Any) -> bool:
        _, found, _ = run(telling=False, **how)
        return found is None or not _same(found, outputs)

    harmful = [how for how in garbage if matters(otherwise=how)]
    if not harmful:
        return []
    guilty = [site for site in sites[:_MOST_SITES] if any(matters(fills={site: how}) for how in harmful)]
    fresh = {(site.line, site.role, site.name) for site in guilty if site.code == shadow.FRESH}
    guilty = [s for s in guilty if s.code != shadow.CARRIED or (s.line, s.role, s.name) not in fresh]
    return guilty or sites[:1]


def _told(site: shadow.Site, seen: record.Watch) -> dict[str, Any]:
    kind = _KINDS[site.code]
    name = f"{site.role} {site.name}".strip()
    if site.role == "output" and site.code == shadow.FRESH:
        kind, message = "unwritten_output", f"the kernel returns elements of {name} that it never writes"
    elif site.role == "output":
        message = f"the kernel returns elements of {name} of which some {_SEEN[site.code].replace('was', 'were', 1)}"
    else:
        message = f"reads {name} where it {_SEEN[site.code]}, and the result depends on it"
    return {
        "kind": kind,
        "line": site.line or seen.lines.get(site.kernel, 0),
        "message": message,
        "kernel": site.kernel,
    }


def _orders(kernels: list[Any], outputs: list[Any], run: Callable[..., Any], report: Report) -> None:
    """Parallel axes in other orders: each must give the same result."""
    if not any(_splits(eqn) for eqn in kernels):
        return report.skip("seeds", "no kernel has a parallel axis with several points at the check size")
    for seed in SEEDS:
        seen, found, error = run(seed=seed)
        if found is None or not _close(found, outputs):
            what = "fails" if found is None else "gives another result"
            if not report.findings:  # else one of them may be why
                message = f"with its parallel axes in another order (seed {seed}) the kernel {what}"
                line = next(iter(seen.lines.values()), 0)
                report.findings.append({"kind": "parallel_carry", "line": line, "message": message, "kernel": ""})
            break
    report.ran.append("seeds")
    return None


def run_two_cores(traced: Callable[..., Any], inputs: list[Any], file: str, report: Report) -> None:
    params = InterpretParams(detect_races=True, num_cores_or_threads=2, grid_point_recorder=grid.next_step)
    closed = traced(inputs, params)
    calls = list(static.calls(closed.jaxpr))
    kernels = [call.eqn for call in calls]
    if not any(_splits(eqn) for eqn in kernels):
        return report.skip("two_cores", "no kernel has a parallel axis with several points at the check size")
    if any(not _prefix(eqn) for eqn in kernels):
        return report.skip("two_cores", "the interpreter splits a grid only where its parallel axes come first")
    used = {(call.name, number) for call in calls for number, taken in enumerate(call.used) if taken}
    outputs_of = {(call.name, number) for call in calls for number in range(len(call.used))}
    seen = record.start(record.Watch(file, unused=frozenset(outputs_of - used)))
    watch.install(cores=2)
    start = time.monotonic()
    program = jax.jit(jaxpr_as_fun(closed), compiler_options=_OPTIONS)
    try:
        outputs = [np.asarray(x) for x in program(*inputs)]
    except Exception as error:
        report.findings += seen.findings.values()
        return report.skip("two_cores", f"the interpreter cannot run it: {_last_line(str(error))}")
    report.findings += seen.findings.values()
    report.nan = [_nan(x) for x in outputs]
    report.ran.append("two_cores")
    report.seconds["two_cores"] = round(time.monotonic() - start, 3)
    return None


def _splits(eqn: Any) -> bool:
    call = static.Call(eqn, ())
    return any(
        yes and isinstance(size, int) and size > 1 for yes, size in zip(call.semantics, call.mapping.grid, strict=True)
    )


def _prefix(eqn: Any) -> bool:
    semantics = static.Call(eqn, ()).semantics
    return list(semantics) == sorted(semantics, reverse=True)


def _nan(values: Any) -> int:
    return int(np.isnan(values.astype(np.float32)).sum()) if jax.numpy.issubdtype(values.dtype, np.floating) else 0


def _wide(values: Any) -> Any:
    return values.astype(np.float64) if jax.numpy.issubdtype(values.dtype, jax.numpy.floating) else values


def _same(these: list[Any], those: list[Any]) -> bool:
    return all(
        np.array_equal(_wide(a), _wide(b), equal_nan=jax.numpy.issubdtype(a.dtype, jax.numpy.floating))
        for a, b in zip(these, those, strict=True)
    )


def _close(these: list[Any], those: list[Any]) -> bool:
    """As `_same`, but for what another order of additions may change."""
    for a, b in zip(map(_wide, these), map(_wide, those), strict=True):
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return False
        difference = np.where(np.isfinite(a), a - b, 0).astype(np.float64)
        scale = np.sqrt(np.mean(np.square(np.where(np.isfinite(b), b, 0).astype(np.float64)))) if b.size else 0.0
        if difference.size and np.abs(difference).max() > 1e-2 * scale:
            return False
    return True


def _last_line(error: str) -> str:
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line and not line.startswith("File")]
    return (telling or lines or ["unknown"])[-1][:300]


def arrays(encoded: list[dict[str, Any]]) -> list[Any]:
    """Inputs as they came: shape, dtype and bytes in base64."""
    return [
        np.frombuffer(base64.b64decode(one["data"]), jax.numpy.dtype(one["dtype"])).reshape(one["shape"])
        for one in encoded
    ]


def answer(
    function: Callable[..., Any], request: dict[str, Any], device: dict[str, Any], tracer: Any
) -> dict[str, Any]:
    """The reply to a request: {"settings", "full", "inputs", "quick", "limit_s"}; tracer: the module that runs this."""
    report = Report()
    failed: dict[str, Any] = {}

    def work() -> None:
        try:
            _work(function, request, device, tracer, report)
        except BaseException as error:  # a candidate may raise anything, SystemExit included
            failed["failed"] = {"stage": "sanitize", **tracer.describe(error)}

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(request["limit_s"])
    unfinished = f"it was not done within {request['limit_s']:g} s" if thread.is_alive() else ""
    return report.reply() | {"unfinished": unfinished} | failed


def _work(function: Any, request: dict[str, Any], device: dict[str, Any], tracer: Any, report: Report) -> None:
    from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh

    target = AbstractDevice(device_kind=device["device_kind"], num_cores=device["cores"], platform="tpu")

    def traced(inputs: list[Any], params: InterpretParams | None = None) -> Any:
        forced = interpreter.force_tpu_interpret_mode(params) if params else contextlib.nullcontext()
        with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)), forced:
            return jax.make_jaxpr(function)(*inputs)

    settings, file = request["settings"], tracer.KERNEL_FILE
    if "static" in settings:
        shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in request["full"]]
        full_size(traced(shapes), file, report)
    if settings == ["static"]:
        return
    inputs = arrays(request["inputs"])
    if "one_core" in settings:
        run_one_core(traced, inputs, file, report, quick=request["quick"])
    if "two_cores" in settings:
        run_two_cores(traced, inputs, file, report)
