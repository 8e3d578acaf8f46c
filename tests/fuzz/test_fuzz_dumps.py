"""The texts that the compiler writes, which hold names that a candidate chose."""

from collections import Counter

import pytest
from fuzzing import EXAMPLES, fuzz
from mutating import mutated

from hawkeye_mcp.profiler import critical_path, dumped, hlo, llo, schedule
from hawkeye_mcp.profiler.addresses import Addresses

BUNDLES = b"""\
0x0: bundle slots:
  %s6_s8 = inlined_call_operand.hbm [shape: f32[8], index: 0, kind: input, shape index: {}]
  %s7_s2 = inlined_call_operand.hbm [shape: f32[8], index: 1, kind: output, shape index: {}]
  %20 = sst [smem:[#allocation10_spill]] %s6_s8
  %s41_s4 = sld [smem:[#allocation10_spill]]
  %8 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s41_s4, /*size_in_granules=*/100, /*vmem=*/%s7_s10 /*\x20
base_bounds: (256, 4) */
  %10 = dma.general /*src=*/%s6_s8, /*size_in_granules=*/1, /*dst=*/%s7_s2 /* hbm-to-hbm */
  %13 = sbr.rel /* loc("kernel.py":24:8 to :39) */ target = $region97
  %v14_v5 = vld [vmem:[#allocation141_spill] sm:$0xff]
  %18 = vadd.xlane.f32.xlu2 %v14_v5
  %20 = vmatmul.bf16.gmra.mxu3 %v14_v5
"""
PATH = b"""\
Length to end: 14, %s0_s0 = inlined_call_operand.hbm [shape: f32[8], index: 0, kind: input, shape index: {}]
Length to end: 13, %1 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s0_s0, /*size_in_granules=*/300, /*vmem=*/%s1_s1 /*\x20
base_bounds: (4096, 64) */
Length to end: 11, %2 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s2_s2, /*size_in_granules=*/100, /*vmem=*/%s3_s3
Length to end: 8, %3 = dma.done.wait [#allocation4], 300 /* pipeline-emitter-dma-wait */
Length to end: 6, %v4_v0 = vld [vmem:[%s1_s1] sm:$0xff] /* loc("kernel.py":7:8 to :18) */
Length to end: 4, %v6_v1 = vpop.erf %5 /* loc("site-packages/jax/nn.py":12:0 to :3) */
Length to end: 1, %11 = vsyncpa [#allocation6], 1
"""
FINAL = b"""\
     0   :  { %s9_s0 = inlined_call_operand.hbm [shape: bf16[8,128], index: 0, kind: input] }
   0x2 LB: > { %s30_s5 = sadd.s32 1, %s31_s6 } /* Start region 9 */
   0x7 LB: >> { %v60_v3 = vld [vmem:[%s61_s2] sm:$0xff] /* loc("kernel.py":12:8 to :18) */ } /* Start region 4 */
   0x8   : >> { %62 = vmatmul.bf16.gmra.mxu0 %v60_v3  ;;  %64 = vadd.xlane.f32.xlu0 %v60_v31 }
   0x9   : >> { %66 = sbr.rel (!%p67_p12) target = $region4 }
  0x13   : > { %90 = sbr.rel (!%p14_p6) target = $region9 }
"""
SLOTS = b"""\
== CAPACTIY:
MATMUL, MATPUSH, XLU
    4     4     3
== UTILIZATION:
0 0 0
4 1 0
"""
PRESSURE = b"Register pressure for vregs is 61\n"
PROFILE = b"""hlo_op_estimate {
  hlo_op_name: "fusion.1"
  estimated_cycles: 63694
}
"""
HLO = b"""HloModule jit_f, is_scheduled=true

%fused (param_0: bf16[256,512]) -> bf16[256,512] {
  %param_0 = bf16[256,512]{1,0:T(8,128)(2,1)} parameter(0)
  %slice.1 = bf16[8,512]{1,0} slice(%param_0), slice={[0:8], [0:512]}
  ROOT %multiply.9 = bf16[256,512]{1,0:T(8,128)(2,1)} multiply(%param_0, %param_0)
}

%body (arg: (s32[], f32[128,128])) -> (s32[], f32[128,128]) {
  %arg = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) parameter(0)
  %n = s32[]{:T(128)} get-tuple-element(%arg), index=0
  %one = s32[]{:T(128)} constant(1)
  %more = s32[]{:T(128)} add(%n, %one)
  %gte = f32[128,128]{1,0:T(8,128)} get-tuple-element(%arg), index=1
  %inner = f32[128,128]{1,0:T(8,128)} custom-call(%gte), custom_call_target="tpu_custom_call", backend_config={"used_scoped_memory_configs":[{"memory_space":"1","offset":"0","size":"2048"}],"bundle_analysis_data":{"estimated_cycles":"700"}}
  ROOT %t = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) tuple(%more, %inner)
}

%cond (arg.1: (s32[], f32[128,128])) -> pred[] {
  %arg.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) parameter(0)
  %m = s32[]{:T(128)} get-tuple-element(%arg.1), index=0
  %end = s32[]{:T(128)} constant(12)
  ROOT %less = pred[]{:T(512)} compare(%m, %end), direction=LT
}

ENTRY %main (x.1: bf16[256,512], y.1: f32[128,128]) -> bf16[256,512] {
  %x.1 = bf16[256,512]{1,0:T(8,128)(2,1)} parameter(0)
  %y.1 = f32[128,128]{1,0:T(8,128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  %copy-start.1 = (bf16[256,512]{1,0:T(8,128)(2,1)S(1)}, bf16[256,512]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%x.1)
  %copy-done.1 = bf16[256,512]{1,0:T(8,128)(2,1)S(1)} copy-done(%copy-start.1)
  %fusion.1 = bf16[256,512]{1,0:T(8,128)(2,1)} fusion(%copy-done.1), kind=kLoop, calls=%fused, metadata={op_name="a (b)"}, backend_config={"window_config":{"output_window_bounds":["4","8"],"iteration_bounds":["2","8"],"estimated_cycles":"1234"},"bundle_analysis_data":{"estimated_cycles":"999"}}
  %dot.1 = f32[128,128]{1,0} dot(%y.1, %y.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %c.1 = f32[8,16,9]{2,1,0} parameter(2)
  %c.2 = f32[16,32,3]{2,1,0} parameter(3)
  %convolution.2 = f32[8,32,7]{2,1,0} convolution(%c.1, %c.2), window={size=3 stride=1 pad=0_0 rhs_dilate=1}, dim_labels=bf0_io0->bf0
  %dynamic-update-slice.1 = f32[128,128]{1,0} dynamic-update-slice(%y.1, %dot.1, %zero, %zero)
  %kernel.2 = f32[128,128]{1,0:T(8,128)} custom-call(%y.1, %y.1), custom_call_target="tpu_custom_call", frontend_attributes={hawkeye_point="3"}, backend_config={"custom_call_config":{"body":"AA"}}
  %tuple.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) tuple(%zero, %kernel.2)
  %while.1 = (s32[]{:T(128)}, f32[128,128]{1,0:T(8,128)}) while(%tuple.1), condition=%cond, body=%body
  ROOT %bitcast.1 = bf16[256,512]{1,0:T(8,128)(2,1)} bitcast(%fusion.1)
}
"""


def executed(data: bytes) -> None:
    addresses = Addresses()
    counts = llo.count([b"\n" + data], addresses)
    assert all(number >= 0 for number in counts.values())
    addresses.name_of(data)


def walked(data: bytes) -> None:
    try:
        found = critical_path.walk([b"\n" + data], "kernel.py", lambda text: "DMA read")
    except critical_path.Incomplete:
        return
    assert found.cycles == found.issued + sum(found.stalls.values()) == sum(found.places.values())


def scheduled(data: bytes) -> None:
    found = schedule.read(data.splitlines(keepends=True), "kernel.py")
    schedule.hot_loop(found, Counter({"to region4": 9}), 20, grid=True)


def tabulated(data: bytes) -> None:
    slots = schedule.read_slots(data.decode("utf-8", "replace"))
    if slots:
        assert set(slots.used()) == set(slots.capacity)


def listed(data: bytes) -> None:
    try:
        found = hlo.ops(data.decode("utf-8", "replace"))
    except hlo.Unreadable:
        return
    assert all(op.hbm_bytes >= 0 and op.calls >= 0 for op in found)


@pytest.fixture
def estimated(tmp_path):
    def feed(data: bytes) -> None:
        (tmp_path / "a_static_llo_profile.textproto").write_bytes(data)
        dumped.estimates(tmp_path)

    return feed


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize(
    ("feed", "sample"),
    [
        (executed, BUNDLES),
        (walked, PATH),
        (scheduled, FINAL),
        (tabulated, SLOTS),
        (schedule.read_pressure, PRESSURE),
        (listed, HLO),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_dump_that_is_none_is_refused_or_read_as_far_as_it_goes(feed, sample, examples):
    fuzz(mutated([sample, BUNDLES]), feed, examples)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_profile_that_is_none_has_no_cycles(estimated, examples):
    fuzz(mutated([PROFILE]), estimated, examples)
