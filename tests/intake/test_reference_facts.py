"""Facts on references: of the jaxpr, and of what the TPU's compiler says."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from hawkeye_mcp import workloads
from hawkeye_mcp.intake.facts import facts_of
from hawkeye_mcp.intake.graph import read
from hawkeye_mcp.intake.hlo_facts import hlo_facts
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.intake.structure_facts import facts
from hawkeye_mcp.profiler import hlo

TEXT = """HloModule jit_call, is_scheduled=true

%fused_computation (param_0: bf16[512,1024], param_1: bf16[1024,256]) -> f32[512,256] {
  %param_0 = bf16[512,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %param_1 = bf16[1024,256]{1,0:T(8,128)(2,1)} parameter(1)
  %dot = f32[512,256]{1,0:T(8,128)} convolution(%param_0, %param_1), dim_labels=bf_io->bf
  ROOT %exp = f32[512,256]{1,0:T(8,128)} exponential(%dot)
}

ENTRY %main (a: bf16[512,1024], b: bf16[1024,256]) -> f32[256,512] {
  %b = bf16[1024,256]{1,0:T(8,128)(2,1)} parameter(1)
  %a = bf16[512,1024]{1,0:T(8,128)(2,1)} parameter(0)
  %fusion = f32[512,256]{1,0:T(8,128)} fusion(%a, %b), kind=kOutput, calls=%fused_computation, backend_config={"window_config":{"estimated_cycles":"4321"}}
  ROOT %copy.1 = f32[256,512]{0,1:T(8,128)} copy(%fusion)
}
"""


def test_fusions_layouts_copies_and_bytes_are_read_from_the_compilers_text():
    found = hlo_facts(TEXT)
    fusion, copy = found.operations
    assert (fusion.name, fusion.kind, fusion.does, fusion.xla_cycles) == (
        "fusion",
        "output",
        ["convolution", "exponential"],
        4321,
    )
    assert fusion.hbm_bytes == 512 * 1024 * 2 + 1024 * 256 * 2 + 512 * 256 * 4
    assert (found.fusion_kinds, found.custom_calls) == ({"output": 1}, {})
    assert found.copies == [f"copy.1: {copy.result}"]
    assert found.layouts == {"{1,0:T(8,128)}": 1, "{0,1:T(8,128)}": 1}
    assert [layout.split("{")[0] for layout in found.argument_layouts] == ["bf16[512,1024]", "bf16[1024,256]"]
    assert found.hbm_bytes == fusion.hbm_bytes + copy.hbm_bytes


def test_what_is_no_optimised_hlo_is_said_to_be_none():
    with pytest.raises(hlo.Unreadable):
        hlo_facts("no HLO")


def test_facts_on_a_program_reach_into_loops_and_calls():
    def program(x, w):
        def step(carry, row):
            return carry + jax.nn.relu(row) * 1e-5, jnp.sum(carry.astype(jnp.bfloat16))

        carry, sums = lax.scan(step, x[0], x)
        return carry @ w, sums, lax.while_loop(lambda c: c[0] < 3.0, lambda c: c * 2.0, carry)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((8, 128), (128, 64))]
    found = facts(read(structure(jax.make_jaxpr(program)(*shapes))))
    assert found.loops == ["scan of 8", "while of an unknown number"]
    assert found.operations["scan of 8: mul"] == 1
    assert found.operations["scan of 8: max"] == 1
    assert "scan of 8: f32 1e-05 in mul" in found.constants
    assert found.reductions == ["scan of 8: reduce_sum axes=(0,) of f32[128] -> f32[]"]
    assert found.contractions == ["dot_general of f32[128] x f32[128,64] over (0,) x (0,) -> f32[64]"]
    assert "scan of 8: convert f32[128] -> bf16[128]" in found.casts
    assert found.dtypes == ["bf16", "bool", "f32"]


@pytest.mark.anyio
async def test_the_hlo_is_the_tpu_compilers_and_its_refusal_is_told_in_its_words(tmp_path):
    stages = []
    found = await facts_of(workloads.load("12p_RMSNorm"), "v5e", stages.append)
    assert stages == ["trace", "compile for v5e"]
    assert found.hlo_source.startswith("libtpu")
    assert found.hlo
    assert found.hlo.result_layouts == ["bf16[8,4096,8192]{2,1,0:T(8,128)(2,1)}"]  # a CPU's has no tiles
    assert "is_scheduled=true" in found.hlo_text
    assert found.hlo.hbm_bytes >= found.argument_bytes + found.output_bytes > 1e9
    assert "hlo_text" not in found.model_dump()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_program_that_does_not_fit_the_chip_has_no_hlo():
    found = await facts_of(workloads.load("2p_GQA_Attention"), "v5e", lambda stage: None)
    assert found.hlo is None
    assert "Ran out of memory on HBM" in found.hlo_problem
    assert found.program.contractions
