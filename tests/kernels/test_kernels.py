"""Every fixture kernel is right: a wrong one would make the end-to-end tests lie."""

import importlib.util
from pathlib import Path

import jax
import jax.extend.core as jex_core
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.core import jaxpr_as_fun

from hawkeye_mcp.judge.correctness import compare
from hawkeye_mcp.workloads import load

FILES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem[0].isdigit())


def _module(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _interpreted(closed):
    """The same computation with every Pallas call interpreted, so that it runs on a CPU."""

    def rewrite(jaxpr):
        equations = []
        for eqn in jaxpr.eqns:
            params = {
                k: jex_core.ClosedJaxpr(rewrite(v.jaxpr), v.consts) if isinstance(v, jex_core.ClosedJaxpr) else v
                for k, v in eqn.params.items()
            }
            if eqn.primitive.name == "pallas_call":
                params["interpret"] = True
            equations.append(eqn.replace(params=params))
        return jaxpr.replace(eqns=equations)

    return jex_core.ClosedJaxpr(rewrite(closed.jaxpr), closed.consts)


def test_each_kind_of_work_has_a_fixture_kernel():
    families = {load(file.removesuffix("_slow")).family for file in FILES}
    assert {
        "dense matmul",
        "matmul and elementwise tail",
        "matmul and softmax",
        "attention",
        "normalisation",
    } <= families
    assert {"mixture of experts, grouped matmul", "linear attention", "convolution"} <= families


@pytest.mark.parametrize("file", FILES)
def test_the_kernel_passes_its_workloads_gate_and_traces_at_full_size(file):
    workload = load(file.removesuffix("_slow"))
    code = _module(workload.folder / "workload.py")
    kernel = _module(Path(__file__).parent / f"{file}.py").workload
    size = workload.sizes["check"]
    inputs = code.create_inputs(jax.random.key(7), size)
    traced = _interpreted(jax.make_jaxpr(kernel)(*inputs))
    outputs = jax.jit(lambda *arrays: jaxpr_as_fun(traced)(*arrays))(*inputs)
    expected = jax.tree.leaves(jax.jit(code.oracle)(*inputs))
    errors, problem = compare(
        [np.asarray(out) for out in outputs],
        [np.asarray(ref) for ref in expected],
        workload.shapes(workload.outputs, "check"),
        workload.tolerance,
    )
    assert problem is None
    full = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape, dtype in workload.shapes(workload.inputs, "full")]
    out = jax.tree.leaves(jax.eval_shape(kernel, *full))
    assert [(o.shape, str(o.dtype)) for o in out] == workload.shapes(workload.outputs, "full")
