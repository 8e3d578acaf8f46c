import base64
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import DEVICE
from jax._src.core import jaxpr_as_fun
from jax._src.lib.mlir import ir
from jax._src.mesh import AbstractDevice, AbstractMesh, use_abstract_mesh
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import artifact
from hawkeye_mcp.accuracy.known_values import specialise
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.profiler import variants
from hawkeye_mcp.profiler.mosaic import MosaicCall, body_operations, mosaic_calls

SIZES = np.array([3, 0, 2], np.int32)
X = jax.ShapeDtypeStruct((1024, 128), jnp.float32)


def grouped(x, sizes):
    """A step for each unit of the groups' sizes; a step that starts a group, and only it, writes zeros before."""
    order = jnp.repeat(jnp.arange(3, dtype=jnp.int32), sizes, total_repeat_length=8)
    starts = jnp.concatenate([jnp.ones(1, bool), order[1:] != order[:-1]]).astype(jnp.int32)

    def kernel(order_ref, starts_ref, x_ref, o_ref):
        @pl.when(starts_ref[pl.program_id(0)] == 1)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] * jnp.bfloat16(1.5)

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(sizes.sum(),),
            in_specs=[pl.BlockSpec((128, 128), lambda i, order, starts: (i, 0))],
            out_specs=pl.BlockSpec((128, 128), lambda i, order, starts: (order[i], 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((384, 128), jnp.bfloat16),
    )(order, starts, x.astype(jnp.bfloat16))


def specialised(function, shapes):
    target = AbstractDevice(device_kind=DEVICE["device_kind"], num_cores=1, platform="tpu")
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=target)):
        found = specialise(function, shapes)
        return found, artifact.read(tracer.export_for(found.closed, "tpu", shapes))


@pytest.fixture
def call():
    found, program = specialised(lambda x: jax.jit(grouped)(x, SIZES), [X])
    with program.context:
        (kernel,) = mosaic_calls(program)
        yield kernel, found.prefetched[0]


def test_what_follows_from_known_values_is_computed(call):
    kernel, known = call
    assert kernel.grid == (5,)
    assert known[0].tolist()[:5] == [0, 0, 0, 2, 2]
    assert known[1].tolist()[:5] == [1, 0, 0, 1, 0]


def test_the_program_still_computes_the_same():
    x = np.arange(1024 * 128, dtype=np.float32).reshape(1024, 128)
    found = specialise(lambda x, y: jnp.cumsum(jnp.asarray(SIZES))[-1] * x + jax.jit(jnp.sin)(y), [X, X])
    assert "cumsum" not in str(found.closed)
    out = jax.jit(jaxpr_as_fun(found.closed))(x, x)[0]
    np.testing.assert_allclose(out, 5 * x + np.sin(x), rtol=1e-6)


def test_a_grid_that_depends_on_an_argument_is_refused():
    sizes = jax.ShapeDtypeStruct((3,), jnp.int32)
    target = AbstractDevice(device_kind=DEVICE["device_kind"], num_cores=1, platform="tpu")
    with (
        use_abstract_mesh(AbstractMesh((), (), abstract_device=target)),
        pytest.raises(ValueError, match="depends on the arguments"),
    ):
        specialise(grouped, [X, sizes])


def test_steps_are_counted_by_the_branches_that_they_take(call):
    kernel, known = call
    numbers, kinds = variants.branches(kernel, known)
    assert len(numbers) == 1
    assert kinds == {(True,): 2, (False,): 3}


def test_a_branch_on_what_is_not_known_is_refused(call):
    kernel, _ = call
    with pytest.raises(ValueError, match="not known"):
        variants.branches(kernel, None)


def test_a_variant_takes_one_branch_at_every_step(call):
    kernel, known = call
    numbers, _ = variants.branches(kernel, known)
    texts = {}
    for taken in (True, False):
        copy = variants.variant(kernel, numbers, (taken,))
        texts[taken] = copy.body.operation.get_asm()
        assert "bf16" in texts[taken]
        condition = list(copy.main.regions[0].blocks[0])[numbers[0] + 1].operation.operands[0].owner
        assert "arith.constant" in condition.name
        assert ("true" in str(condition)) == taken
        assert copy.op.attributes["backend_config"] != kernel.op.attributes["backend_config"]
    assert texts[True] != texts[False]


def test_bfloat16_constants_give_way_to_the_other_operand(call):
    kernel, known = call
    numbers, _ = variants.branches(kernel, known)
    copy = variants.variant(kernel, numbers, (False,))
    products = [op for op in artifact.operations(copy.body.operation) if op.name.endswith("arith.mulf")]
    assert products
    assert all(op.operands[0] == op.operands[1] for op in products)


def test_an_emptied_kernel_keeps_its_call(call):
    kernel, _ = call
    variants.empty(kernel)
    again = mosaic_calls_of(kernel)
    assert not any(name.startswith(("vector.", "arith.mulf", "scf.")) for name in body_operations(again))
    assert again.grid == (5,)
    assert [window.block for window in again.windows] == [window.block for window in kernel.windows]


def mosaic_calls_of(kernel):
    config = json.loads(ir.StringAttr(kernel.op.attributes["backend_config"]).value)
    body = ir.Module.parse(base64.b64decode(config["custom_call_config"]["body"]), kernel.body.context)
    return MosaicCall(kernel.op, 1, config, body)
