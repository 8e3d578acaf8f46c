import base64

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import both, cpu_bytes, tpu_bytes
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp import artifact
from hawkeye_mcp.judge.audit import ARTIFACT_BYTES, audit

SQUARE = ((256, 256), "float32")


def _double(x, **options):
    def body(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2

    block = pl.BlockSpec((128, 256), lambda i: (i, 0))
    return pl.pallas_call(body, grid=(2,), in_specs=[block], out_specs=block, out_shape=x, name="double", **options)(x)


def _audited(function, inputs=(SQUARE,), **options):
    pair = both(function, inputs)
    tpu, cpu = (artifact.read(base64.b64decode(pair[platform])) for platform in ("tpu", "cpu"))
    return audit(tpu, cpu, inputs, **options)


def _problem(found):
    assert not found.ok
    (problem,) = found.problems
    return problem


def test_a_kernel_is_found_with_its_grid_and_nothing_is_wrong():
    found = _audited(_double)
    assert (found.ok, found.problems, found.outside) == (True, [], [])
    assert [(kernel.name, kernel.grid, kernel.calls) for kernel in found.kernels] == [("double", [2], 1)]


def test_plain_operations_around_a_kernel_are_counted_and_allowed():
    found = _audited(lambda x: jnp.exp(_double(x) + 1) + jnp.exp(x))
    assert found.ok
    assert {op.op: op.count for op in found.outside} == {"stablehlo.exponential": 2, "stablehlo.add": 2}


def test_plain_xla_has_no_kernel():
    assert "no Mosaic kernel" in _problem(_audited(lambda x: x * 2))


def test_an_interpreted_kernel_is_no_kernel():
    assert "interpret" in _problem(_audited(lambda x: _double(x, interpret=True)))


def test_a_matmul_outside_is_refused_and_listed_first():
    found = _audited(lambda x: _double(x) @ x + jnp.exp(x))
    assert "1 stablehlo.dot_general outside the Pallas kernels" in _problem(found)
    assert found.outside[0].op == "stablehlo.dot_general"


@pytest.mark.parametrize("allowed", ["stablehlo.dot_general", "dot_general"])
def test_a_workload_may_allow_it(allowed):
    found = _audited(lambda x: _double(x) @ x, allow_outside=[allowed])
    assert found.ok
    assert found.outside[0].count == 1
    assert not _audited(lambda x: _double(x) @ x, allow_outside=["convolution"]).ok


def test_a_matmul_inside_a_function_or_a_loop_does_not_hide():
    inner = jax.jit(lambda x: x @ x)
    assert "dot_general" in _problem(_audited(lambda x: inner(_double(x))))
    assert "dot_general" in _problem(_audited(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y @ x, _double(x))))


def test_a_convolution_outside_is_refused():
    def function(x):
        return jax.lax.conv(_double(x)[None, None], jnp.ones((1, 1, 3, 3)), (1, 1), "SAME")[0, 0]

    assert "stablehlo.convolution outside" in _problem(_audited(function))


def test_a_kernel_whose_result_is_thrown_away_does_not_count():
    options = {"compiler_params": pltpu.CompilerParams(has_side_effects=True)}  # so that jax keeps it

    def function(x):
        _double(x, **options)
        return x * 3

    found = _audited(function)
    assert [kernel.name for kernel in found.kernels] == ["double"]
    assert "No Mosaic kernel's result reaches an output" in _problem(found)


def test_a_kernel_reaches_an_output_through_functions_and_loops():
    inner = jax.jit(_double)
    assert _audited(lambda x: inner(x) + 1).ok
    assert _audited(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: _double(y), x)).ok


def test_a_library_call_on_the_cpu_is_refused_before_it_is_run():
    found = _audited(lambda x: _double(jnp.linalg.qr(x)[0]))
    assert not found.ok
    assert any("lapack" in problem and "does not allow" in problem for problem in found.problems)


def test_a_print_inside_a_kernel_is_found_in_its_body():
    def body(x_ref, out_ref):
        pl.debug_print("step")
        out_ref[...] = x_ref[...]

    def function(x):
        return pl.pallas_call(body, out_shape=x, name="chatty")(x)

    tpu = artifact.read(tpu_bytes(function, [SQUARE]))
    cpu = artifact.read(cpu_bytes(_double, [SQUARE]))
    assert "Kernel chatty calls the host (tpu.log)" in _problem(audit(tpu, cpu, [SQUARE]))


def test_swapped_artifacts_are_seen():
    tpu, cpu = (artifact.read(make(_double, [SQUARE])) for make in (tpu_bytes, cpu_bytes))
    assert audit(tpu, cpu, [SQUARE]).ok
    problems = " ".join(audit(cpu, tpu, [SQUARE]).problems)
    assert "The artifact is for cpu, not for tpu." in problems
    assert "The artifact is for tpu, not for cpu." in problems


def test_artifacts_with_other_inputs_or_outputs_are_seen():
    tpu = artifact.read(tpu_bytes(_double, [SQUARE]))
    other_input = artifact.read(cpu_bytes(_double, [((256, 256), "bfloat16")]))
    problems = " ".join(audit(tpu, other_input, [SQUARE]).problems)
    assert "The artifact for cpu takes" in problems
    assert "different outputs" in problems
    other_output = artifact.read(cpu_bytes(lambda x: _double(x)[:128], [SQUARE]))
    assert "different outputs" in _problem(audit(tpu, other_output, [SQUARE]))


def test_a_table_of_answers_does_not_fit():
    table = np.random.default_rng(0).normal(size=(1024, 2048)).astype(np.float32)
    data = tpu_bytes(lambda x: _double(x) + table[:256, :256], [SQUARE])
    assert len(data) < ARTIFACT_BYTES  # a small constant may stay
    data = tpu_bytes(lambda x: _double(x) + jnp.asarray(table).sum(), [SQUARE])
    cpu = artifact.read(cpu_bytes(_double, [SQUARE]))
    assert "carries large constants" in _problem(audit(artifact.read(data), cpu, [SQUARE], nbytes=len(data)))


@pytest.mark.parametrize("data", [b"", b"AAAA", b"\0" * 1000])
def test_bytes_that_are_no_artifact_are_unreadable(data):
    with pytest.raises(artifact.Unreadable, match="cannot be read"):
        artifact.read(data)
