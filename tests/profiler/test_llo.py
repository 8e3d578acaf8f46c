import pytest

from hawkeye_mcp.profiler import llo

DUMP = b"""\
0x0: bundle slots:
  %s6_s8 = inlined_call_operand.hbm [shape: f32[8], index: 0, kind: input, shape index: {}]
  %8 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s6_s8, /*size_in_granules=*/100, /*vmem=*/%s7_s10, /*dst_syncflagno=*/[#a4] /*\x20
base_bounds: (256, 4)
second_minor_factor: 1 */


0x1: bundle slots:
  %9 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s7_s9, /*size_in_granules=*/10, /*hbm=*/%s17_s19, /*dst_syncflagno=*/[#a4]
  %10 = dma.general /*src=*/%s6_s8, /*size_in_granules=*/1, /*dst=*/%s7_s11, /*dst_syncflagno_1=*/0 /* hbm-to-hbm */
  %21 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s6_s8, /*size_in_granules=*/%s5_s5, /*vmem=*/%s7_s10, /*dst_syncflagno=*/[#a4]
0x2: bundle slots:
  %11 = dma.done.wait [#a4], 65536
  %12 = dma.smem_to_vmem [thread:$0]  /*src=*/%s2, /*size_in_granules=*/16
  %13 = sbr.rel /* loc("kernel.py":24:8 to :39) */ target = $region97
0x3: bundle slots:
  %v14_v5 = vld [vmem:[#allocation141_spill] sm:$0xff]
  %v15_v6 = vld [vmem:[%s10_s11 + $0x228] sm:$0xff]
  %16 = vst [vmem:[#allocation142_spill] sm:$0xff] /*vst_source=*/%v14_v5
  %17 = sst [smem:[#allocation1071_spill]] %s1_s1
  %18 = vadd.xlane.f32.xlu2 %v14_v5
  %v19_v7 = vpop.xlane.xlu0 %18
  %20 = vmatmul.bf16.gmra.mxu3 %v14_v5
  %v22_v8 = vperm.slane %v14_v5, 0
  %23 = vexp2.f32 %v14_v5
"""

EXPECTED = {
    "hbm_read_bytes": 32 * 101,
    "hbm_written_bytes": 32 * 11,
    "unsized_transfers": 1,
    "dma_starts": 5,
    "dma_waits": 1,
    "to region97": 1,
    "vector_loads": 2,
    "vector_fills": 1,
    "vector_stores": 1,
    "vector_spills": 1,
    "xlu_ops": 1,
    "xlu_reduces": 1,
    "result_pops": 1,
    "mxu_matmuls": 1,
    "valu_ops": 1,
    "eup_ops": 1,
    "scalar_ops": 2,  # the branch and the scalar's spill, which is none of a vector register
}


def test_each_instruction_adds_to_its_counter_and_transfers_on_the_sides_that_are_hbm():
    counts = llo.count([b"\n" + DUMP])
    assert {name: counts[name] for name in (*llo.NAMES, "unsized_transfers", "to region97") if counts[name]} == EXPECTED


@pytest.mark.parametrize("piece_bytes", [1, 7, 64, 1 << 20])
def test_counts_do_not_depend_on_where_a_file_is_cut_into_pieces(tmp_path, monkeypatch, piece_bytes):
    path = tmp_path / "k_bundles.txt"
    path.write_bytes(DUMP)
    whole = llo.count([b"\n" + DUMP])
    monkeypatch.setattr(llo, "PIECE_BYTES", piece_bytes)
    assert llo.count_file(path) == whole


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("vrot.lane.b32.xlu1", "xlu_rotates"),
        ("vxpose.xlu0.b32.start", "xlu_transposes"),
        ("vmax.xlane.f32.xlu0", "xlu_reduces"),
        ("vperm.xlu0", "xlu_permutes"),
        ("vpop.trf.xlu0", "result_pops"),
        ("vrot.slane", "valu_ops"),  # across sublanes: no XLU is named
        ("vmatpush1.bf16.msra.mxu0", "mxu_pushes"),
        ("vmatmul.mubr.bf16.gmra.mrb[100].mxu0", "mxu_matmuls"),
        ("vrsqrt.f32", "eup_ops"),
        ("vsyncadd", "sync_ops"),
        ("vunpack.c.l.bf16.f32", "valu_ops"),
        ("scmp.ne.s32.totalorder", "scalar_ops"),
        ("pnand", "scalar_ops"),
    ],
)
def test_the_kind_of_an_instruction(op, kind):
    assert llo.kind_of(op) == kind


def test_garbage_counts_nothing_that_it_does_not_hold():
    assert llo.count([b"\n\xff\xfe\x00 dma.", b"size_in_granules=*/12\n", b""]) == {}


def test_a_missing_dump_is_none(tmp_path):
    assert llo.count_file(tmp_path / "k_bundles.txt") is None
