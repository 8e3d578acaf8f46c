import pytest

from hawkeye_mcp.profiler import critical_path, llo
from hawkeye_mcp.profiler.critical_path import OTHER, PIPELINE, SCALAR_SPILLS, SPILLS, Incomplete

# 40 cycles: two transfers in flight at once, a step of work, a result written. The last record of a walk has length 1.
DUMP = b"""\
Length to end: 40, %s0_s0 = inlined_call_operand.hbm [shape: f32[8], index: 0, kind: input, shape index: {}]
Length to end: 39, %1 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s0_s0, /*size_in_granules=*/300, /*vmem=*/%s1_s1 /*\x20
base_bounds: (4096, 64)
second_minor_factor: 1 */
Length to end: 38, %2 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s2_s2, /*size_in_granules=*/100, /*vmem=*/%s3_s3
Length to end: 25, %3 = dma.done.wait [#allocation4], 300 /* pipeline-emitter-dma-wait */
Length to end: 23, %v4_v0 = vld [vmem:[%s1_s1] sm:$0xff] /* loc("kernel.py":7:8 to :18) */
Length to end: 22, %5 = vadd.xlane.f32.xlu2 %v4_v0 /* copy :: loc("kernel.py":9:28 to :67) */
Length to end: 15, %v6_v1 = vpop.erf %5 /* loc("site-packages/jax/nn.py":12:0 to :3) */
Length to end: 13, %7 = vst [vmem:[#allocation2_spill] sm:$0xff] /*vst_source=*/%v6_v1
Length to end: 12, %8 = vst [vmem:[%s9_s9] sm:$0xff] /*vst_source=*/%v6_v1 /* loc("kernel.py":9:8 to :18) */
Length to end: 11, %9 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s9_s9, /*size_in_granules=*/300, /*hbm=*/%s5_s5
Length to end: 2, %10 = dma.done.wait [#allocation5], 300
Length to end: 1, %11 = vsyncpa [#allocation6], 1
"""


def name_of(text):
    direction = "read" if text.startswith(b"dma.hbm") else "write"
    return f"DMA {direction} of {'big' if b'*/300' in text else 'small'}"


def walked(dump=DUMP):
    return critical_path.walk([b"\n" + dump.rstrip(b"\n")], "kernel.py", name_of)


def test_every_cycle_is_issue_or_a_stall_with_a_cause():
    walk = walked()
    assert (walk.cycles, walk.issued) == (40, 12)
    assert walk.stalls == {
        "DMA read of big": 9,  # 12 cycles behind both reads, by their sizes: 3 to 1
        "DMA read of small": 3,
        "XLU result": 6,
        "EUP result": 1,
        "DMA write of big": 8,
        "semaphore": 1,
    }
    assert walk.issued + sum(walk.stalls.values()) == walk.cycles


def test_transfers_whose_sizes_are_noted_as_nothing_still_account_for_their_cycles():
    walk = walked(DUMP.replace(b"*/300", b"*/0").replace(b"*/100", b"*/0"))
    assert walk.stalls["DMA read of small"] == 12
    assert walk.issued + sum(walk.stalls.values()) == walk.cycles


def test_every_cycle_has_a_place():
    walk = walked()
    assert walk.places == {7: 1, 9: 8, SPILLS: 1, PIPELINE: 1 + 13 + 2 + 9 + 1 + 1, OTHER: 1 + 2}
    assert walk.place_stalls == {9: 6, PIPELINE: 12 + 1 + 8, OTHER: 1}
    assert sum(walk.places.values()) == walk.cycles


def test_scalar_registers_spill_to_smem_and_are_no_vector_spills():
    walk = walked(DUMP.replace(b"vst [vmem:[#allocation2_spill] sm:$0xff]", b"sst [smem:[#allocation2_spill]]"))
    assert (walk.places[SCALAR_SPILLS], walk.places[SPILLS]) == (1, 0)


def test_the_kernels_own_work_begins_and_ends_with_its_lines():
    walk = walked()
    assert (walk.before, walk.after) == (40 - 23, 12 - 1)


def test_a_transfer_that_the_kernel_starts_has_its_line():
    by_hand = DUMP.replace(b"%s3_s3", b'%s3_s3 /* loc("kernel.py":3:8 to :17) */')
    walk = walked(by_hand)
    assert (walk.places[3], walk.place_stalls[3]) == (13, 12)
    assert walk.before == 2


@pytest.mark.parametrize("piece_bytes", [1, 50, 300])
def test_a_walk_does_not_depend_on_where_a_file_is_cut_into_pieces(tmp_path, monkeypatch, piece_bytes):
    path = tmp_path / "k_critical_path.txt"
    path.write_bytes(DUMP)
    monkeypatch.setattr(llo, "PIECE_BYTES", piece_bytes)
    assert critical_path.walk_file(path, "kernel.py", name_of) == walked()


@pytest.mark.parametrize("end", [b"Length to end: 2,", b"Length to end: 15", b"Length to end: 39,"])
def test_a_dump_that_is_cut_off_is_no_walk(end):
    with pytest.raises(Incomplete, match="cut off"):
        walked(DUMP[: DUMP.index(end)])


@pytest.mark.parametrize(
    "dump", [b"", b"\xff\xfe\x00" * 1000, b"Length to end: x, %1 = vld\n", b"Cycles left: 3, vld\n"]
)
def test_another_layout_is_no_walk(dump):
    with pytest.raises(Incomplete, match="no records"):
        walked(dump)


def test_lengths_that_grow_are_no_walk():
    with pytest.raises(Incomplete, match="from 38 to 39"):
        walked(DUMP.replace(b"end: 25,", b"end: 39,"))


def test_a_missing_dump_is_none(tmp_path):
    assert critical_path.walk_file(tmp_path / "k_critical_path.txt", "kernel.py", name_of) is None
