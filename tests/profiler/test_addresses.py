import pytest

from hawkeye_mcp.profiler.addresses import Addresses, direction

# Two operands and a result. The address of operand 1 passes through a spill slot, and then another takes that slot.
DUMP = b"""\
0x0: bundle slots:
  %s9_s0 = inlined_call_operand.hbm [shape: bf16[8,128], index: 0, kind: input, shape index: {}] /* input window */
  %s8_s1 = inlined_call_operand.hbm [shape: (f32[8], f32[8]), index: 1, kind: input, shape index: {}]
  %s7_s2 = inlined_call_operand.hbm [shape: f32[8], index: 2, kind: output, shape index: {}]
0x1: bundle slots:
  %20 = sst [smem:[#allocation10_spill]] %s8_s1
  %s30_s5 = sadd.s32 1, %s31_s6 /* iteration index */
0x2: bundle slots:
  %s40_s3 = scalar_lea.hbm %s9_s0, %s30_s5
  %s41_s4 = sld [smem:[#allocation10_spill]] /* input window allocation for operator input 1 */
0x3: bundle slots:
  %21 = sst [smem:[#allocation10_spill]] %s30_s5
  %s42_s3 = int_to_ptr.hbm [resolvable:$true] %s40_s3
  %s43_s1 = sld [smem:[#allocation10_spill]]
  %s44_s4 = scalar_select /*predicate=*/%p35_p7, /*on_true=*/%s41_s4, /*on_false=*/%s42_s3
  %s45_s2 = scalar_lea.hbm %s7_s2, %s43_s1
"""


def read(*pieces):
    addresses = Addresses()
    for piece in pieces:
        addresses.read(piece)
    return addresses


@pytest.mark.parametrize(
    ("transfer", "name"),
    [
        (b"dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s42_s3, /*size_in_granules=*/64, /*vmem=*/%s1_s8", "DMA read of operand 0"),
        (b"dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s41_s4, /*vmem=*/%s9_s8", "DMA read of operand 1"),
        (b"dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s9_s8, /*hbm=*/%s45_s2", "DMA write of result 0"),
        (b"dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s44_s4, /*vmem=*/%s1_s8", "DMA read of operand 0 or operand 1"),
        (b"dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s43_s1, /*vmem=*/%s1_s8", "DMA read"),
        (b"dma.general /*src=*/%s9_s0, /*dst=*/%s7_s2 /* hbm-to-hbm */", "DMA copy of operand 0 or result 0"),
    ],
)  # fmt: skip
def test_an_address_is_followed_from_the_operand_it_begins_with(transfer, name):
    assert read(b"\n" + DUMP).name_of(transfer) == name


def test_it_may_be_read_in_pieces():
    at = DUMP.index(b"\n0x3")
    transfer = b"dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s9_s8, /*hbm=*/%s45_s2"
    assert read(b"\n" + DUMP[:at], DUMP[at:]).name_of(transfer) == "DMA write of result 0"


@pytest.mark.parametrize(
    ("transfer", "expected"),
    [
        (b"dma.hbm_to_vmem [thread:$0]", "read"),
        (b"dma.smem_to_hbm [thread:$0]", "write"),
        (b"dma.vmem_to_smem [thread:$0]", "copy"),
        (b"dma.general /*src=*/%s6_s8 /* hbm-to-vmem */", "read"),
        (b"dma.general /*src=*/%s6_s8 /* hbm-to-hbm */", "copy"),
        (b"dma.general /*src=*/%s6_s8", "copy"),
    ],
)
def test_direction(transfer, expected):
    assert direction(transfer) == expected
