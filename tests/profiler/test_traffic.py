import jax
import jax.numpy as jnp
import pytest
from compiling import optimised

from hawkeye_mcp.profiler.hlo import ops
from hawkeye_mcp.profiler.hlo_text import parse
from hawkeye_mcp.profiler.traffic import hbm_bytes, moved_bytes

LARGE = "f32[4096,1024]{1,0:T(8,128)}"
PART = "f32[64,1024]{1,0:T(8,128)}"
WHOLE_BYTES = 4096 * 1024 * 4
PART_BYTES = 64 * 1024 * 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[8,128]{1,0:T(8,128)}", 4096),
        ("f32[8,128]{1,0:T(8,128)S(1)}", 0),
        ("(bf16[16]{0}, s4[16]{0}, pred[16]{0}, f8e4m3fn[16]{0})", 32 + 8 + 16 + 16),
        ("f32[]", 4),
        ("token[]", 0),
        ("f32[0,128]{1,0}", 0),
    ],
)
def test_bytes_of_a_type(text, expected):
    assert hbm_bytes(text) == expected


def _fused(body, result, parameters=f"p: {LARGE}, i: s32[]", given="%x, %i", first=LARGE):
    """Bytes of one fusion over x (large), i (a position) and u (a part of it)."""
    text = f"""%fused ({parameters}) -> {result} {{
{body}
}}

ENTRY %main (x: {first}, i: s32[], u: {PART}) -> {result} {{
  %x = {first} parameter(0)
  %i = s32[]{{:T(128)S(6)}} parameter(1)
  %u = {PART} parameter(2)
  ROOT %fusion = {result} fusion({given}), kind=kLoop, calls=%fused
}}
"""
    (op,) = ops(text)
    return op.hbm_bytes


def test_a_slice_inside_a_fusion_reads_what_it_takes():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %cut = {PART} dynamic-slice(%p, %i, %zero), dynamic_slice_sizes={{64,1024}}
  ROOT %out = {PART} negate(%cut)"""
    assert _fused(body, PART) == 2 * PART_BYTES


def test_an_operand_that_is_also_read_whole_counts_whole():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  %zero = s32[] constant(0)
  %cut = {PART} dynamic-slice(%p, %i, %zero), dynamic_slice_sizes={{64,1024}}
  %sum = f32[]{{:T(128)}} reduce(%p, %zero), dimensions={{0,1}}, to_apply=%add
  %all = {PART} broadcast(%sum), dimensions={{}}
  ROOT %out = {PART} add(%cut, %all)"""
    assert _fused(body, PART) == WHOLE_BYTES + PART_BYTES


def test_a_slice_reaches_through_what_comes_before_it_and_nested_fusions():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  %wide = {LARGE} exponential(%p)
  %cut = {PART} slice(%wide), slice={{[0:64], [0:1024]}}
  ROOT %out = {PART} negate(%cut)"""
    assert _fused(body, PART) == 2 * PART_BYTES
    outer = f"""  %p.1 = {LARGE} parameter(0)
  %i.1 = s32[] parameter(1)
  ROOT %nested = {PART} fusion(%p.1, %i.1), kind=kLoop, calls=%inner
}}

%inner (p: {LARGE}, i: s32[]) -> {PART} {{
{body}"""
    assert _fused(outer, PART) == 2 * PART_BYTES


def test_an_update_in_place_moves_the_update_alone():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  %u = {PART} parameter(2)
  %zero = s32[] constant(0)
  ROOT %out = {LARGE} dynamic-update-slice(%p, %u, %i, %zero)"""
    assert _fused(body, LARGE, f"p: {LARGE}, i: s32[], u: {PART}", "%x, %i, %u") == 2 * PART_BYTES


def test_an_update_that_is_calculated_with_reads_the_rest_and_writes_all():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  %u = {PART} parameter(2)
  %zero = s32[] constant(0)
  %new = {LARGE} dynamic-update-slice(%p, %u, %i, %zero)
  ROOT %out = {LARGE} negate(%new)"""
    found = _fused(body, LARGE, f"p: {LARGE}, i: s32[], u: {PART}", "%x, %i, %u")
    assert found == (WHOLE_BYTES - PART_BYTES) + PART_BYTES + WHOLE_BYTES


def test_what_lies_on_chip_counts_nothing_however_it_is_cut():
    body = f"""  %p = {LARGE} parameter(0)
  %i = s32[] parameter(1)
  ROOT %cut = {PART} slice(%p), slice={{[0:64], [0:1024]}}"""
    assert _fused(body, PART, first="f32[4096,1024]{1,0:T(8,128)S(1)}") == PART_BYTES


def test_a_part_fetched_ahead_is_the_part():
    (op,) = ops(
        f"""ENTRY %main (x: {LARGE}) -> {PART} {{
  %x = {LARGE} parameter(0)
  %slice-start = (({LARGE}), f32[64,1024]{{1,0:T(8,128)S(1)}}, s32[]{{:S(2)}}) slice-start(%x), slice={{[0:64], [0:1024]}}
  ROOT %slice-done = f32[64,1024]{{1,0:T(8,128)S(1)}} slice-done(%slice-start)
}}
"""
    )
    assert (op.hbm_bytes, op.ahead) == (PART_BYTES, True)


@pytest.mark.anyio
async def test_the_real_compilers_programs_are_read_so():
    rows, columns = 131072, 1024  # half a gigabyte: too large for XLA to keep it on the chip

    def some_rows(x, start):
        return jnp.exp(jax.lax.dynamic_slice(x, (start, 0), (64, columns))) * 2

    found = await optimised(some_rows, [((rows, columns), "float32"), ((), "int32")])
    assert 64 * columns * 4 <= sum(op["hbm_bytes"] for op in found) <= 3 * 64 * columns * 4

    def all_rows(x):
        return jnp.exp(x) * 2

    found = await optimised(all_rows, [((rows, columns), "float32")])
    assert sum(op["hbm_bytes"] for op in found) == 2 * rows * columns * 4


def test_a_gather_on_a_sparsecore_reads_and_writes_its_result():
    text = """ENTRY %main (x: bf16[16384,128], i: s32[64]) -> bf16[64,128] {
  %x = bf16[16384,128]{1,0:T(8,128)(2,1)} parameter(0)
  %i = s32[64]{0:T(128)} parameter(1)
  %start = ((), (), (s32[64]{0})) async-start(), calls=%other
  %update = ((bf16[16384,128]{1,0:T(8,128)(2,1)}, s32[64]{0:T(128)}), bf16[64,128]{1,0:T(8,128)}, (s32[49184]{0:T(1)S(15)}, s32[64]{0})) async-update(%start, %x, %i)
  ROOT %done = bf16[64,128]{1,0:T(8,128)} async-done(%update)
}
"""
    computations, entry = parse(text)
    (update,) = (line for line in computations[entry] if line.opcode == "async-update")
    assert moved_bytes(update, {line.name: line.type for line in computations[entry]}, computations) == 2 * 64 * 128 * 2
