import pytest

from hawkeye_mcp.profiler.hlo import Unreadable, ops

TEXT = """HloModule jit_f, is_scheduled=true

%fused (param_0: bf16[256,512]) -> bf16[256,512] {
  %param_0 = bf16[256,512]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %multiply.9 = bf16[256,512]{1,0:T(8,128)(2,1)} multiply(%param_0, %param_0)
}

%body (arg: (s32[], f32[128,128])) -> (s32[], f32[128,128]) {
  %arg = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) parameter(0)
  %gte = f32[128,128]{1,0:T(8,128)} get-tuple-element(%arg), index=1
  ROOT %inner = f32[128,128]{1,0:T(8,128)} custom-call(%gte), custom_call_target="tpu_custom_call", backend_config={"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"2048"},{"memory_space":"0","size":"9"}],"bundle_analysis_data":{"estimated_cycles":"700"}}
}

%cond (arg.1: (s32[], f32[128,128])) -> pred[] {
  %arg.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) parameter(0)
  ROOT %less = pred[]{:T(512)} compare(%arg.1, %arg.1), direction=LT
}

ENTRY %main (x.1: bf16[256,512], y.1: f32[128,128]) -> bf16[256,512] {
  %x.1 = bf16[256,512]{1,0:T(8,128)(2,1)} parameter(0)
  %y.1 = f32[128,128]{1,0:T(8,128)} parameter(1)
  %copy-start.1 = (bf16[256,512]{1,0:T(8,128)(2,1)S(1)}, bf16[256,512]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%x.1)
  %copy-done.1 = bf16[256,512]{1,0:T(8,128)(2,1)S(1)} copy-done(%copy-start.1)
  %fusion.1 = bf16[256,512]{1,0:T(8,128)(2,1)} fusion(%copy-done.1), kind=kLoop, calls=%fused, metadata={op_name="a (b)"}, backend_config={"flag_configs":[],"window_config":{"kernel_window_bounds":[],"estimated_cycles":"1234"},"bundle_analysis_data":{"estimated_cycles":"999"}}
  %kernel.2 = f32[128,128]{1,0:T(8,128)} custom-call(%y.1, %y.1), custom_call_target="tpu_custom_call", frontend_attributes={hawkeye_point="3"}, backend_config={"custom_call_config":{"body":"AA"}}
  %tuple.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) tuple(%y.1, %kernel.2)
  %while.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) while(%tuple.1), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"12"}}
  %while.2 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) while(%while.1), condition=%cond, body=%body
  ROOT %bitcast.1 = bf16[256,512]{1,0:T(8,128)(2,1)} bitcast(%fusion.1)
}
"""
X = 256 * 512 * 2
Y = 128 * 128 * 4


def _named(name):
    found = [op for op in ops(TEXT) if op.name == name]
    assert found
    return found


def test_only_operations_with_a_cost_are_listed_once_each_time_they_stand_there():
    assert [op.name for op in ops(TEXT)] == ["copy-start.1", "fusion.1", "kernel.2", "inner", "inner"]


def test_a_fusion_carries_the_profiles_cycles_and_xlas_own():
    (fusion,) = _named("fusion.1")
    assert (fusion.profile_cycles, fusion.xla_cycles) == (999, 1234)
    assert (fusion.opcode, fusion.mosaic, fusion.calls) == ("fusion", False, 1)


def test_what_is_placed_on_chip_does_not_cross_hbm():
    (fusion,) = _named("fusion.1")
    assert fusion.hbm_bytes == X  # its result; its operand is in VMEM
    assert fusion.on_chip == [True, False]
    (copy,) = _named("copy-start.1")
    assert copy.ahead
    assert copy.hbm_bytes == X  # one side of it


def test_a_kernel_is_known_by_its_target_and_its_number():
    (kernel,) = _named("kernel.2")
    assert kernel.mosaic
    assert kernel.point == 3
    assert kernel.profile_cycles is None
    assert kernel.hbm_bytes == 2 * Y  # one operand given twice, and the result
    assert not kernel.small


def test_loops_multiply_and_unknown_ones_say_so():
    known, unknown = _named("inner")
    assert known.calls == 12
    assert unknown.calls == 0
    assert known.profile_cycles == 700
    assert known.vmem_bytes == 2048


def test_text_of_another_kind_has_no_operations():
    assert ops("") == []
    assert ops("not hlo at all {\n  nothing = here\n}") == []


def test_what_fits_a_register_is_small_and_a_new_buffer_is_nothing():
    found = ops(
        """ENTRY %main (x: f32[8,128], y: f32[9,128]) -> f32[9,128] {
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %y = f32[9,128]{1,0:T(8,128)} parameter(1)
  %few = f32[8,128]{1,0:T(8,128)} negate(%x)
  %sorted = f32[8,128]{1,0:T(8,128)} sort(%few), dimensions={0}, to_apply=%less
  %buffer = f32[9,128]{1,0:T(8,128)} custom-call(), custom_call_target="AllocateBuffer"
  ROOT %more = f32[9,128]{1,0:T(8,128)} negate(%y)
}
"""
    )
    assert {op.name: op.small for op in found} == {"few": True, "sorted": False, "more": False}


def test_a_tiling_that_splits_the_contraction_adds_up_partial_sums():
    def tiled(iterations):
        window = f'"output_window_bounds":["16","2"],"iteration_bounds":[{iterations}],"estimated_cycles":"1234"'
        text = TEXT.replace('"kernel_window_bounds":[],"estimated_cycles":"1234"', window)
        (op,) = (op for op in ops(text) if op.name == "fusion.1")
        return op.partial

    # 128 registers of the result in windows of 32
    assert [tiled(each) for each in ('"2","2"', '"2","2","3"')] == [0, 2 * 128]


def _sort_of(*lines):
    body = "\n".join(f"  {line}" for line in lines)
    text = f"%inner (p: f32[64,128]) -> f32[64,128] {{\n  %p = f32[64,128]{{1,0}} parameter(0)\n{body}\n}}\n\n" + (
        "ENTRY %main (x: f32[64,128]) -> f32[64,128] {\n  %x = f32[64,128]{1,0} parameter(0)\n"
        "  ROOT %f = f32[64,128]{1,0} fusion(%x), kind=kLoop, calls=%inner\n}\n"
    )
    (op,) = ops(text)
    return op.sort


def test_a_fusion_is_named_after_the_most_demanding_work_in_it():
    whole, row = "f32[64,128]{1,0}", "f32[64]{0}"
    assert _sort_of(f"ROOT %t = {whole} transpose(%p), dimensions={{0,1}}") == "copy"
    assert _sort_of(f"ROOT %m = {whole} multiply(%p, %p)") == "elementwise"
    assert _sort_of(f"ROOT %e = {whole} exponential(%p)") == "transcendental"
    assert _sort_of(f"%e = {row} rsqrt(%p)", f"ROOT %m = {whole} multiply(%p, %e)") == "elementwise", "of rows alone"
    assert _sort_of(f"%e = {whole} exponential(%p)", f"ROOT %r = {row} reduce(%e)") == "reduction"
    assert _sort_of(f"%g = {row} gather(%p)", f"ROOT %r = {row} reduce(%g)") == "irregular"


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ('"estimated_cycles":"1234"', '"estimated_cycles":"many"'),
        ('"bundle_analysis_data":{"estimated_cycles":"999"}', '"bundle_analysis_data":[]'),
        ("condition=%cond, body=%body, backend", "condition=%cond, body=%main, backend"),
    ],
)
def test_text_that_is_written_otherwise_is_refused_as_a_whole(there, instead):
    assert there in TEXT
    with pytest.raises(Unreadable, match="not as expected"):
        ops(TEXT.replace(there, instead))
