"""Inside the verifier: audit artifacts, run them on the CPU on fresh secret inputs, compare with the oracle."""

import base64
import functools
import importlib.util
import secrets
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.judge import audit as auditing
from hawkeye_mcp.judge import correctness, drawing
from hawkeye_mcp.judge.original import HANDLERS as ORIGINALS
from hawkeye_mcp.judge.port import HANDLERS as PORTS
from hawkeye_mcp.judge.same_work import same_work

_programs: dict[str, artifact.Program] = {}


def _program(data_b64: str) -> artifact.Program:
    return artifact.read(base64.b64decode(data_b64))


@functools.cache
def module_of(name: str) -> ModuleType:
    """A workload's own code, imported from its folder."""
    path = workloads.find(name).folder / "workload.py"
    spec = importlib.util.spec_from_file_location(f"hawkeye_workload_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def audit(workload: str, size: workloads.Size, tpu: str, cpu: str) -> dict[str, Any]:
    """Audit the artifacts (base64; cpu may be empty) of one size: {"unreadable": why} for bytes that no reader here takes."""
    declared = workloads.find(workload)
    try:
        data = base64.b64decode(tpu)
        tpu_program = artifact.read(data)
        found = auditing.audit(
            tpu_program,
            _program(cpu) if cpu else None,
            declared.shapes(declared.inputs, size),
            allow_outside=declared.outside.allow,
            nbytes=len(data),
        )
        outputs = tpu_program.outputs
    except Exception as error:  # whatever hostile bytes make the readers raise
        return {"unreadable": f"{type(error).__name__}: {error}"[:2000]}
    return {
        "audit": found.model_dump(mode="json"),
        "outputs": [[list(shape), dtype] for shape, dtype in outputs],
        "sha256": artifact.sha256(data),
        "bytes": len(data),
    }


def verify(workload: str, size: workloads.Size, cpu: str, seeds: int) -> dict[str, Any]:
    """Run the CPU artifact (base64) on `seeds` fresh secret draws; stops at the first draw that fails."""
    declared = workloads.find(workload)
    run = jax.jit(_program(cpu).exported.call)
    draw, oracle = _jitted(workload, size)
    errors = []
    problem = None
    for _ in range(seeds):
        inputs = draw(jax.random.key(secrets.randbits(32)))
        try:
            actual = [np.asarray(x) for x in jax.tree.leaves(run(*inputs))]
        except Exception as error:  # out of memory, or whatever else the candidate's program does
            return {"runtime_error": f"{type(error).__name__}: {error}"[:4000]}
        expected = [np.asarray(x) for x in jax.tree.leaves(oracle(*inputs))]
        found, problem = correctness.compare(
            actual, expected, declared.shapes(declared.outputs, size), declared.tolerance
        )
        errors.append(found)
        if problem:
            break
    return {
        "ok": problem is None,
        "problem": problem,
        "seeds": len(errors),
        "outputs": [error.model_dump(mode="json") for error in correctness.merge(errors)],
    }


def bind(workload: str, size: workloads.Size, tpu: str, seeds: int) -> dict[str, Any]:
    """Run the kernels of the TPU artifact (base64) operation by operation: a mosaic_eval.result.Bound."""
    from hawkeye_mcp.mosaic_eval import bind as binding

    declared = workloads.find(workload)
    draw, oracle = _jitted(workload, size)
    outputs = declared.shapes(declared.outputs, size)
    found = binding.bind(base64.b64decode(tpu), draw, oracle, outputs, declared.tolerance, seeds)
    return found.model_dump(mode="json")


@functools.cache
def _jitted(workload: str, size: workloads.Size) -> tuple[Any, Any]:
    module = module_of(workload)
    dims = dict(workloads.find(workload).sizes[size])
    return drawing.draw(module, dims), jax.jit(module.oracle)


def public_inputs(workload: str) -> dict[str, Any]:
    """Inputs at the check size for the sanitizer, of a seed that is no secret; they are shown to the candidate."""
    draw, _ = _jitted(workload, "check")
    arrays = [np.asarray(x) for x in draw(jax.random.key(0))]
    return {
        "inputs": [
            {"shape": list(x.shape), "dtype": str(x.dtype), "data": base64.b64encode(x.tobytes()).decode()}
            for x in arrays
        ]
    }


def warm() -> dict[str, Any]:
    """Make the CPU backend ready."""
    jax.block_until_ready(jax.numpy.zeros(8) + 1)
    return {}


def check_workload(workload: str, size: workloads.Size, memory_bytes: int) -> dict[str, Any]:
    """The audit of a workload's test; see workload_check."""
    from hawkeye_mcp.workload_check.audit import check

    return check(workload, size, memory_bytes)


def workload_structure(workload: str, size: workloads.Size) -> dict[str, Any]:
    """The structure of a workload's plain JAX at one size, and how many characters its jaxpr has as text."""
    from hawkeye_mcp.intake.structure import structure

    module, dims = module_of(workload), dict(workloads.find(workload).sizes[size])
    shapes = jax.eval_shape(lambda: module.create_inputs(jax.random.key(0), dims))
    closed = jax.make_jaxpr(module.workload)(*shapes)
    return {"structure": structure(closed), "characters": len(str(closed))}


def of_import(step: str, **given: Any) -> dict[str, Any]:
    """A workload that was just written, against what it was made from; see imported."""
    from hawkeye_mcp.judge.imported import HANDLERS as STEPS

    return STEPS[step](**given)


def chip_facts(tpu: str) -> dict[str, Any]:
    """What jax and this package know of a chip; see taxonomy_check."""
    from hawkeye_mcp.taxonomy_check.facts import facts

    return facts(tpu)


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {
    "audit": audit,
    "verify": verify,
    "bind": bind,
    "same_work": same_work,
    "public_inputs": public_inputs,
    "check_workload": check_workload,
    "workload_structure": workload_structure,
    "chip_facts": chip_facts,
    "of_import": of_import,
    "warm": warm,
    **PORTS,
    **ORIGINALS,
}
