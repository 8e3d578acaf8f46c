"""The only code that runs beside a candidate: trace it, export it, write the artifacts out, end.

Runs as a file of its own inside the sandbox (it must not import the rest of the package, which is hidden there):
one JSON request a line on stdin, one JSON reply a line on the original stdout. The first request holds the candidate's
source; what it defines answers those that follow without one. Whatever the candidate does to this process,
the worst it can send back is another artifact or another error message; both are treated as hostile data.
"""

import base64
import contextlib
import gc
import importlib
import json
import linecache
import os
import resource
import signal
import sys
import traceback
import types
from typing import Any

KERNEL_FILE = "kernel.py"
READY = b"ready"  # the first line out: from here on the candidate is to blame


def restrict(limits: dict[str, int]) -> None:
    """Limits that hold for this process and its children; as root also another user, so that they bind at all."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")  # if memory runs out, this process is the one to go
    for name, limit in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (limit, limit))
    if uid := limits.get("uid"):  # RLIMIT_NPROC does not bind root
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    # Past its file limit a process gets an error, not a signal, so that the message can say what happened.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def refuse_platform_dependence(jaxpr: Any) -> None:
    """Raises ValueError if the program asks which platform it runs on: one is verified, the other timed."""
    from jax._src.core import jaxprs_in_params

    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "platform_index":
            raise ValueError("jax.lax.platform_dependent is not allowed: the program must be the same everywhere")
        for inner in jaxprs_in_params(eqn.params):
            refuse_platform_dependence(inner)


def for_cpu(closed: Any) -> Any:
    """The same jaxpr with every pallas_call set to run under the interpreter, at any depth."""
    import jax.extend.core as jex_core

    def rewrite_param(value: Any) -> Any:
        if isinstance(value, jex_core.ClosedJaxpr):
            return jex_core.ClosedJaxpr(rewrite(value.jaxpr), value.consts)
        if isinstance(value, jex_core.Jaxpr):
            return rewrite(value)
        if isinstance(value, tuple | list):
            return value if hasattr(value, "_fields") else type(value)(rewrite_param(item) for item in value)
        return value

    def rewrite(jaxpr: Any) -> Any:
        equations = []
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "pallas_call":
                params = {**eqn.params, "interpret": True}
            else:
                params = {name: rewrite_param(value) for name, value in eqn.params.items()}
            equations.append(eqn.replace(params=params))
        return jaxpr.replace(eqns=equations)

    return jex_core.ClosedJaxpr(rewrite(closed.jaxpr), closed.consts)


def export_for(closed: Any, platform: str, shapes: list[Any]) -> bytes:
    import jax
    from jax import export
    from jax._src.core import jaxpr_as_fun

    run = jaxpr_as_fun(closed)
    exporter = export.export(jax.jit(lambda *xs: run(*xs), keep_unused=True), platforms=[platform])
    return bytes(exporter(*shapes).serialize())


class Failed(Exception):
    def __init__(self, stage: str, cause: BaseException):
        super().__init__(str(cause))
        self.stage, self.cause = stage, cause


def artifacts(function: Any, inputs: list[Any], device: dict[str, Any], *, interpreted: bool) -> dict[str, str]:
    """The exports, base64, of one trace at one size: for the TPU and, if asked, for the CPU interpreter."""
    import jax
    from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh

    shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in inputs]
    # Lowering asks the default device for its tiling; without this mesh that would be the CPU.
    target = AbstractDevice(device_kind=device["device_kind"], num_cores=device["cores"], platform="tpu")
    stage = "trace"
    try:
        with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)):
            closed = jax.make_jaxpr(function)(*shapes)
            refuse_platform_dependence(closed.jaxpr)
            stage = "lower"
            tpu = export_for(closed, "tpu", shapes)
        stage = "interpret"
        cpu = export_for(for_cpu(closed), "cpu", shapes) if interpreted else b""
    except BaseException as error:  # a candidate may raise anything, SystemExit included
        raise Failed(stage, error) from error
    return {"tpu": base64.b64encode(tpu).decode(), "cpu": base64.b64encode(cpu).decode()}


def describe(error: BaseException) -> dict[str, object]:
    """The error's text, and the candidate's own frames of its traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == KERNEL_FILE]
    lines = [f"line {f.lineno}, in {f.name}: {f.line}" for f in frames[-6:]]
    if isinstance(error, SyntaxError) and error.filename == KERNEL_FILE:
        lines.append(f"line {error.lineno}: {(error.text or '').strip()}")
    text = "".join(traceback.format_exception_only(error)).strip()
    return {"type": type(error).__name__, "text": text[:20_000], "where": lines}


def load(source: str) -> Any:
    """The candidate's function.

    Raises:
        Failed: it cannot be had.
    """
    linecache.cache[KERNEL_FILE] = (len(source), None, source.splitlines(True), KERNEL_FILE)
    module = types.ModuleType("kernel")
    module.__file__ = KERNEL_FILE
    sys.modules["kernel"] = module
    try:
        exec(compile(source, KERNEL_FILE, "exec"), module.__dict__)
        function = getattr(module, "workload", None)
        if not callable(function):
            defined = sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
            raise AttributeError(f"the file defines no function `workload`; it defines: {', '.join(defined) or 'none'}")
    except BaseException as error:
        raise Failed("import", error) from error
    return function


def answer(function: Any, request: dict[str, Any]) -> dict[str, Any]:
    if "sanitize" in request:
        sys.path.insert(0, request["sanitize"]["folder"])
        checks = importlib.import_module("inside.checks")
        found: dict[str, Any] = checks.answer(function, request["sanitize"], request["device"], sys.modules[__name__])
        return found
    for asked, module in (("port", "port_inside"), ("stand_in", "stand_in_inside")):
        if asked in request:
            sys.path.insert(0, request[asked]["folder"])
            beside = importlib.import_module(f"hawkeye_mcp.intake.{module}")
            traced: dict[str, Any] = beside.answer(function, request[asked], sys.modules[__name__])
            return traced
    reply: dict[str, Any] = {"artifacts": {}, "failures": {}}
    for size, inputs in request["inputs"].items():
        try:
            reply["artifacts"][size] = artifacts(
                function, inputs, request["device"], interpreted=request["interpreted"]
            )
        except Failed as failed:
            reply["failures"][size] = {"stage": failed.stage, **describe(failed.cause)}
    return reply


def warm_up(device: dict[str, Any]) -> None:
    """Import and exercise everything that tracing a kernel needs, so that the agent does not wait for it."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x_ref: Any, o_ref: Any, scratch: Any) -> None:
        scratch[...] = jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = scratch[...]

    def function(x: Any) -> Any:
        block = pl.BlockSpec((128, 128), lambda i: (i, 0))
        return pl.pallas_call(
            kernel, grid=(1,), in_specs=[block], out_specs=block,
            scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
            out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32),
        )(x)  # fmt: skip

    artifacts(function, [((128, 128), "float32")], device, interpreted=True)


def main() -> None:
    setup = json.loads(sys.argv[1])
    restrict(setup["limits"])
    channel = os.dup(1)  # the replies' way out; prints go to stderr, which the parent drains and caps
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    gc.disable()  # a sixth of the time that imports take, and what they leave is there to stay
    warm_up(setup["device"])
    gc.freeze()
    gc.enable()
    os.write(channel, READY + b"\n")
    function = None
    for line in requests:
        request = json.loads(line)
        try:
            function = load(request["source"]) if "source" in request else function
            reply = answer(function, request)
        except Failed as failed:
            reply = {"failed": {"stage": failed.stage, **describe(failed.cause)}}
        payload = json.dumps(reply).encode() + b"\n"
        while payload:
            payload = payload[os.write(channel, payload) :]
    os._exit(0)


if __name__ == "__main__":
    main()
