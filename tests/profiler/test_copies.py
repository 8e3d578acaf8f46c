from hawkeye_mcp.profiler.copies import plain_copies

HLO = """HloModule m, is_scheduled=true

ENTRY %main (a: bf16[8,128]) -> bf16[8,128] {
  %a = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)
  %same = bf16[8,128]{1,0:T(8,128)(2,1)} copy(%a)
  %moved = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} copy(%same)
  %turned = bf16[8,128]{0,1:T(8,128)(2,1)} copy(%moved)
  ROOT %sum = bf16[8,128]{1,0:T(8,128)(2,1)} add(%same, %same)
}
"""


def test_a_copy_is_plain_if_its_layout_stays_wherever_it_lies():
    assert plain_copies(HLO) == {"same", "moved"}
