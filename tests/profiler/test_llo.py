from hawkeye_mcp.profiler.llo import count

DUMP = """\
  0x0   : bundle slots:
  %8 = dma.hbm_to_vmem [thread:$0]  /*hbm=*/%s6_s8, /*size_in_granules=*/100, /*vmem=*/%s7_s10, /*dst_syncflagno=*/[#a4]
  0x1   : bundle slots:
  %9 = dma.vmem_to_hbm [thread:$0]  /*vmem=*/%s7_s9, /*size_in_granules=*/10, /*hbm=*/%s17_s19, /*dst_syncflagno=*/[#a4]
  %10 = dma.general /*src=*/%s6_s8, /*size_in_granules=*/1, /*dst=*/%s7_s11, /*dst_syncflagno_1=*/0 /* hbm-to-hbm */
  0x2   : bundle slots:
  %11 = dma.done.wait [#a4], 65536
  %12 = dma.smem_to_vmem [thread:$0]  /*src=*/%s2, /*size_in_granules=*/16
"""


def test_transfers_add_their_granules_on_the_sides_that_are_hbm():
    counts = count(DUMP.splitlines(keepends=True))
    assert counts["hbm_read_bytes"] == 32 * 101
    assert counts["hbm_written_bytes"] == 32 * 11
    assert (counts["executed_bundles"], counts["dma_starts"], counts["dma_waits"]) == (3, 4, 1)
