from collections import Counter

import pytest

from hawkeye_mcp.profiler import schedule
from hawkeye_mcp.profiler.schedule import Loop, Slots

# A grid loop (region 9) around two loops (4 and 5).
BUNDLES = b"""\
= control target key start
LH: loop header
= control target key end

     0   :  { %s9_s0 = inlined_call_operand.hbm [shape: bf16[8,128], index: 0, kind: input, shape index: {}] /* input */  ;;  %s8_s1 = inlined_call_operand.hbm [shape: f32[8], index: 1, kind: input, shape index: {}]  ;;  %s7_s2 = inlined_call_operand.hbm [shape: f32[8], index: 2, kind: output, shape index: {}] }
   0x1   :  { %20 = sst [smem:[#allocation10_spill]] %s8_s1 }
   0x2 LB: > { %s30_s5 = sadd.s32 1, %s31_s6 /* iteration index */  ;;  %s31_s6 = sphi %s32_s7, %s30_s5 } /* Start region 9 */
   0x3   : > { %s40_s3 = scalar_lea.hbm %s9_s0, %s30_s5  ;;  %s41_s4 = sld [smem:[#allocation10_spill]] }
   0x4   : > { %s42_s3 = int_to_ptr.hbm [resolvable:$true] %s40_s3 }
   0x5   : > { %50 = dma.hbm_to_vmem [thread:$0]  (!%p1_p2), /*hbm=*/%s42_s3, /*size_in_granules=*/64, /*vmem=*/%s43_s8, /*dst_syncflagno=*/%s44_s9, /*src_stride=*/%s45_s1 /*\x20
base_bounds: (4096, 64)
second_minor_factor: 1 */ }
   0x6   : > { %51 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s41_s4, /*size_in_granules=*/%s46_s6, /*vmem=*/%s43_s8, /*dst_syncflagno=*/[#allocation4] }
   0x7 LB: >> { %v60_v3 = vld [vmem:[%s61_s2] sm:$0xff] /* loc("kernel.py":12:8 to :18) */ } /* Start region 4 */
   0x8   : >> { %62 = vmatmul.bf16.gmra.mxu0 %v60_v3 /* loc("kernel.py":14:8 to :18) */  ;;  %63 = vmatmul.bf16.gmra.mxu1 %v60_v31  ;;  %64 = vadd.xlane.f32.xlu0 %v60_v3  ;;  %v65_v4 = vpop.xlane.xlu0 %64 }
   0x9   : >> { %66 = sbr.rel (!%p67_p12) target = $region4 }
   0xa   :  {}
   0xb   :  {}
   0xc   :  {}
   0xd   :  {} /* End region 4 */
   0xe LB: >> { %v70_v9 = vld [vmem:[%s61_s2] sm:$0xff] /* loc("elsewhere.py":1:8 to :18) */  ;;  %71 = sbr.rel (!%p67_p12) target = $region5 } /* Start region 5 */
  0x12   : > { %80 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s43_s8, /*size_in_granules=*/64, /*hbm=*/%s81_s3, /*dst_syncflagno=*/%s44_s9  ;;  %s81_s3 = scalar_lea.hbm %s7_s2, %s30_s5 }
  0x13   : > { %90 = sbr.rel (!%p14_p6) target = $region9 }
  0x17   :  { %91 = sbr.rel target = $region99 }
"""

TABLE = """\
== CAPACTIY:
MATMUL, MATPUSH, XLU
    4     4     3
== UTILIZATION:
0 0 0
4 1 0
3 1 2
"""


@pytest.fixture(scope="module")
def read():
    return schedule.read(BUNDLES.splitlines(keepends=True), "kernel.py")


def test_loops_reach_from_their_header_to_behind_their_jump(read):
    assert read.loops == [
        Loop(0x2, 0x17, "9", (12, 14)),
        Loop(0x7, 0xD, "4", (12, 14)),
        Loop(0xE, 0x12, "5", None),
    ]


def test_registers_and_instructions_of_units_that_stay_busy(read):
    assert read.registers == 32
    assert read.units == {"mxu_matmuls": 2, "mxu_pushes": 0, "xlu_ops": 1}


@pytest.mark.parametrize(
    ("jumps", "bundles", "region"),
    [
        ({"to region4": 100, "to region5": 10, "to region9": 3}, 1000, "4"),
        ({"to region4": 10, "to region5": 100, "to region9": 3}, 800, "5"),
        ({"to region4": 10, "to region9": 100}, 1000, None),  # the grid's own loop is where it is spent
        ({}, 1000, None),
    ],
)
def test_the_hot_loop_is_the_inner_one_that_most_bundles_are_of(read, jumps, bundles, region):
    found = schedule.hot_loop(read, Counter(jumps), bundles, grid=True)
    assert (found[0].region if found else None) == region


def test_without_a_grid_the_outermost_loop_is_one_of_the_body():
    loop = Loop(3, 12, "2", None)
    alone = schedule.Schedule([loop], 1, {})
    assert schedule.hot_loop(alone, Counter({"to region2": 90}), 1000, grid=False) == (loop, 90)
    assert schedule.hot_loop(alone, Counter({"to region2": 90}), 1000, grid=True) is None


def test_a_table_of_slots():
    slots = schedule.read_slots(TABLE)
    assert slots == Slots({"MATMUL": 4, "MATPUSH": 4, "XLU": 3}, [(0, 0, 0), (4, 1, 0), (3, 1, 2)])
    assert slots.used() == {"MATMUL": 7, "MATPUSH": 2, "XLU": 2}
    assert slots.used(1, 1) == {"MATMUL": 4, "MATPUSH": 1, "XLU": 0}
    assert slots.used(2, 2) == {"MATMUL": 3, "MATPUSH": 1, "XLU": 2}


@pytest.mark.parametrize(
    "text",
    ["", "== CAPACTIY:\n", TABLE.replace("4     4     3", "4     4"), TABLE + "1 2\n", TABLE + "a b c\n", TABLE[:61]],
)
def test_another_layout_is_no_table(text):
    assert schedule.read_slots(text) is None


def test_register_pressure():
    assert schedule.read_pressure(b"Register pressure for vregs is 1080\nlen=3928 lr=[2156") == 1080
    assert schedule.read_pressure(b"pressure: 3") is None


def test_garbage_is_an_empty_schedule():
    found = schedule.read([b"\xff\xfe: {\n", b"0x: { dma.hbm_to_vmem\n", b"   0x1   :  { %s1_s1 = \n"], "kernel.py")
    assert (found.loops, found.registers) == ([], 0)


def test_the_dump_of_one_operation_is_found_by_its_whole_name(tmp_path):
    for name in (
        "17-k.1-02-schedule-analysis_final_bundles.txt",
        "17-k.10-03-final_bundles.txt",
        "17-k.1-03-final_bundles.txt",
    ):
        (tmp_path / name).touch()
    assert schedule.dump_of(tmp_path, "k.1", "final_bundles").name == "17-k.1-03-final_bundles.txt"
    assert schedule.dump_of(tmp_path, "k.2", "final_bundles") is None
