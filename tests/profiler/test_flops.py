import itertools

import pytest

from hawkeye_mcp.profiler.flops import Product, _meetings, products
from hawkeye_mcp.profiler.hlo_text import parse


def _products(*lines):
    """Of the entry computation's root; parameters stand before it."""
    text = "ENTRY %main () -> f32[] {\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
    computations, entry = parse(text)
    found = computations[entry]
    return products(found[-1], {line.name: line.type for line in found}, computations)


def test_a_matrix_product_is_a_convolution_without_a_window():
    (found,) = _products(
        "%x = bf16[64,256]{1,0} parameter(0)",
        "%w = bf16[256,128]{1,0} parameter(1)",
        "ROOT %c = bf16[64,128]{1,0} convolution(%x, %w), dim_labels=bf_io->bf",
    )
    assert found == Product(2 * 64 * 256 * 128, 256, 128)


def test_a_batch_that_is_a_dilated_window_counts_each_batch_once():
    # 4x64 heads of scores, as XLA writes them for a TPU
    (found,) = _products(
        "%q = bf16[4,64,512,128]{3,2,1,0} parameter(0)",
        "%k = bf16[4,64,256,128]{3,2,1,0} parameter(1)",
        "ROOT %c = bf16[4,64,512,256]{3,2,1,0} convolution(%q, %k), window={size=4x64 stride=3x63 lhs_dilate=4x64},"
        " dim_labels=01bf_01oi->01bf",
    )
    assert found == Product(2 * 4 * 64 * 512 * 256 * 128, 128, 256)


def test_an_image_convolution_counts_taps_and_channels():
    (found,) = _products(
        "%x = bf16[8,64,20,30]{3,2,1,0} parameter(0)",
        "%w = bf16[128,64,3,3]{3,2,1,0} parameter(1)",
        "ROOT %c = bf16[8,128,18,28]{3,2,1,0} convolution(%x, %w), window={size=3x3}, dim_labels=bf01_oi01->bf01",
    )
    assert found.flops == 2 * 8 * 128 * 18 * 28 * 64 * 9
    assert (found.depth, found.width) == (64, 128)


def test_padding_does_no_work():
    (found,) = _products(
        "%x = f32[1,1,4]{2,1,0} parameter(0)",
        "%w = f32[1,1,3]{2,1,0} parameter(1)",
        "ROOT %c = f32[1,1,4]{2,1,0} convolution(%x, %w), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0",
    )
    assert found.flops == 2 * (2 + 3 + 3 + 2)


def test_a_dot_sums_over_its_contracting_dimensions():
    (found,) = _products(
        "%x = f32[8,16,32]{2,1,0} parameter(0)",
        "%w = f32[8,32,4]{2,1,0} parameter(1)",
        "ROOT %d = f32[8,16,4]{2,1,0} dot(%x, %w), lhs_batch_dims={0}, lhs_contracting_dims={2},"
        " rhs_batch_dims={0}, rhs_contracting_dims={1}",
    )
    assert found.flops == 2 * 8 * 16 * 32 * 4


def test_a_fusion_has_the_products_inside_it_and_other_operations_have_none():
    text = """%inner (p: bf16[64,256], q: bf16[256,128]) -> bf16[64,128] {
  %p = bf16[64,256]{1,0} parameter(0)
  %q = bf16[256,128]{1,0} parameter(1)
  %c = bf16[64,128]{1,0} convolution(%p, %q), dim_labels=bf_io->bf
  ROOT %e = bf16[64,128]{1,0} exponential(%c)
}

ENTRY %main (x: bf16[64,256], w: bf16[256,128]) -> bf16[64,128] {
  %x = bf16[64,256]{1,0} parameter(0)
  %w = bf16[256,128]{1,0} parameter(1)
  %f = bf16[64,128]{1,0} fusion(%x, %w), kind=kOutput, calls=%inner
  ROOT %n = bf16[64,128]{1,0} negate(%f)
}
"""
    computations, entry = parse(text)
    types = {line.name: line.type for line in computations[entry]}
    fusion, negate = computations[entry][-2:]
    assert [product.flops for product in products(fusion, types, computations)] == [2 * 64 * 256 * 128]
    assert products(negate, types, computations) == []


@pytest.mark.parametrize(
    ("depth", "width", "side", "factor"),
    [(64, 128, 128, 2), (128, 256, 128, 1), (8, 64, 128, 32), (192, 256, 128, 4 / 3)],
)
def test_padding_to_the_sides_of_a_matrix_unit(depth, width, side, factor):
    assert Product(1e6, depth, width).padded_flops(side) == pytest.approx(1e6 * factor)


def test_meetings_are_those_that_counting_finds():
    cases = itertools.product([1, 4, 7], [1, 3], [1, 5], [1, 2, 3], [-1, 0, 2], [1, 2, 4], [1, 2])
    for result, kernel, operand, stride, before, spread, kernel_spread in cases:
        positions = [at * stride + tap * kernel_spread - before for at in range(result) for tap in range(kernel)]
        expected = sum(0 <= p <= (operand - 1) * spread and p % spread == 0 for p in positions)
        found = _meetings(
            result=result, kernel=kernel, operand=operand, stride=stride, before=before, spread=spread,
            kernel_spread=kernel_spread,
        )  # fmt: skip
        assert found == expected


def test_a_window_beyond_any_array_is_refused_rather_than_walked():
    shape = {"result": 1, "operand": 1, "stride": 1, "before": 0, "spread": 1, "kernel_spread": 1}
    with pytest.raises(ValueError, match="window of 2000000000 positions"):
        _meetings(kernel=2_000_000_000, **shape)
