"""Small functions exported the way the tracer does it, read back the way the judge does."""

import jax
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh

from hawkeye_mcp import artifact
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.profiler.mosaic import MosaicCall, mosaic_calls

DEVICE = {"device_kind": "TPU v5 lite", "cores": 1}


def shapes_of(inputs):
    return [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in inputs]


def both(function, inputs) -> dict[str, str]:
    """The two artifacts, base64, of a function for inputs [(shape, dtype), ...]."""
    return tracer.artifacts(function, inputs, DEVICE, interpreted=True)


def tpu_bytes(function, inputs) -> bytes:
    """The artifact for the TPU alone, also where the interpreter would refuse the function."""
    target = AbstractDevice(device_kind=DEVICE["device_kind"], num_cores=1, platform="tpu")
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)):
        shapes = shapes_of(inputs)
        return tracer.export_for(jax.make_jaxpr(function)(*shapes), "tpu", shapes)


def cpu_bytes(function, inputs) -> bytes:
    shapes = shapes_of(inputs)
    return tracer.export_for(tracer.for_cpu(jax.make_jaxpr(function)(*shapes)), "cpu", shapes)


def kernels(function, inputs) -> tuple[artifact.Program, list[MosaicCall]]:
    """The program and its Mosaic kernels; keep the program: the kernels live in its context."""
    program = artifact.read(tpu_bytes(function, inputs))
    return program, mosaic_calls(program)
