"""Each kind of finding on a candidate that has it, none on one that does not, and the worst first."""

import re

import pytest
from views import GEMM, MATMUL, NORM, counts, kernel, operand, view

from hawkeye_mcp.profile import Count
from hawkeye_mcp.profiler.diagnosis import diagnose
from hawkeye_mcp.profiler.view import count, flop, size

ROWS = [
    *("01_mxu_feed", "04_async_pipeline", "05_fused_epilogue", "12_ragged_edges_and_masking"),
    *("08_k_blocked_accumulation", "09_block_size_and_vmem_budget", "13_layout_and_transpose", "15_manual_dma"),
    "16_parallel_cores",
]


def _counters(found):
    return [one.counter for one in found]


def _norm(**changed):
    """A kernel without matmuls on a workload that HBM binds at 1342 us."""
    return kernel(matmuls=[], mxu_us=0.0, **({"us": 4000.0, "hbm_us": 1342.0, "grid": (64,)} | changed))


def test_near_the_ceiling_says_so_and_nothing_else():
    (found,) = diagnose(view(kernel(us=2900.0)), ROWS)
    assert (found.counter, found.costs_us) == ("roofline.best_us", pytest.approx(151, abs=1))
    assert "Within 6 % of what the MXU needs" in found.text


def test_a_lower_bound_claims_no_distance():
    (found,) = diagnose(view(kernel(us=2900.0), lower_bound=True), ROWS)
    assert "lower bound" in found.text
    assert found.costs_us is None


# (name of the counter that shows it, what it is about to cost, its row, the candidate)
CASES = {
    "XLA operations": (
        "timing.ops[kind=xla].us", 800, "05_fused_epilogue", lambda: view(kernel(us=2900.0), outside_us=800.0)),
    "XLA operations that change a layout": (
        "timing.ops[kind=xla].us", 800, "13_layout_and_transpose",
        lambda: view(kernel(us=2900.0), outside_us=800.0, outside="copy.1")),
    "XLA operations that pad": (
        "timing.ops[kind=xla].us", 800, "12_ragged_edges_and_masking",
        lambda: view(kernel(us=2900.0), outside_us=800.0, outside="pad.2")),
    "an operand that HBM is read for again": (
        # 1.25 GiB of it beyond the first 64 MiB are 1594 us, but the schedule is left with 3000
        "traffic[operand 0 bf16[4096,8192]].factor", 1000, "09_block_size_and_vmem_budget",
        lambda: view(kernel(hbm_us=4000.0, schedule_us=3000.0, by_hbm=True, stalls={"DMA read of operand 0": 0.0},
                            operands=[operand(moved_bytes=20 * (64 << 20), axes=[1])]))),
    "the same where the schedule waits for it": (
        "traffic[operand 0 bf16[4096,8192]].factor", 1200, "09_block_size_and_vmem_budget",
        lambda: view(kernel(stalls={"DMA read of operand 0": 0.3, "MXU result": 0.2}, hbm_us=3000.0,
                            operands=[operand(moved_bytes=20 * (64 << 20), axes=[1])]))),
    "short steps": (
        "kernels[].phases.step_cycles", 36_000, "09_block_size_and_vmem_budget",
        lambda: view(kernel(grid=(64, 64, 16), us=40_000.0, hbm_us=4000.0))),
    "short steps that are seen to wait": (
        "kernels[].phases.step_cycles", 24_000, "09_block_size_and_vmem_budget",
        lambda: view(kernel(grid=(64, 64, 16), us=40_000.0, hbm_us=4000.0, stalls={"DMA read of operand 0": 0.6}))),
    "no grid": (
        "kernels[].grid", 1342, "04_async_pipeline", lambda: view(_norm(grid=(), us=3000.0), workload=NORM)),
    "one buffer": (
        "kernels[].buffers.copies", 1151, "04_async_pipeline",
        lambda: view(kernel(us=3900.0, operands=[
            operand(copies=1, single_buffered=True, moved_bytes=17 * (64 << 20), array_bytes=17 * (64 << 20))]))),
    "copies of its own that overlap with nothing": (  # 2000 us of waiting and 2000 of computing, one after the other
        "kernels[].stalls", 2000, "15_manual_dma",
        lambda: view(_norm(moves_by_hand=True, stalls={"DMA read of operand 0": 0.5}), workload=NORM)),
    "the same where bandwidth hides it from the prediction": (
        "kernels[].stalls", 462, "04_async_pipeline",
        lambda: view(_norm(moves_by_hand=True, us=1400.0, by_hbm=True, stalls={"DMA read of operand 0": 0.67},
                           operands=[operand(space="any", array_bytes=1 << 30, moved_bytes=1 << 30)]), workload=NORM)),
    "copies of its own that overlap with some work": (
        "kernels[].stalls", 400, "15_manual_dma",
        lambda: view(_norm(moves_by_hand=True, us=2000.0, stalls={"DMA read of operand 0": 0.2}, hbm_us=1300.0,
                           operands=[operand(space="any", array_bytes=1 << 31, moved_bytes=1 << 30)]), workload=NORM)),
    "copies of its own in steps that are short": (
        "kernels[].stalls", 2700, "15_manual_dma",
        lambda: view(_norm(moves_by_hand=True, grid=(2048,), stalls={"DMA read of operand 0": 0.9}, hbm_us=1300.0,
                           operands=[operand(space="any", array_bytes=1 << 31, moved_bytes=1 << 30)]), workload=NORM)),
    "the highest precision": (
        "matmul passes", 13_251, "01_mxu_feed", lambda: view(kernel(us=16_000.0, matmuls=[MATMUL | {"passes": 6}]))),
    "no matmul": (
        "counters.mxu_matmuls", 97_251, "01_mxu_feed", lambda: view(_norm(us=100_000.0), workload=GEMM)),
    "spills": (
        "counters.vector_spills", 2400, None,
        lambda: view(_norm(), workload=NORM, counters=counts(vector_spills=0.7, vector_stores=0.9, valu_ops=0.4))),
    "vector stores": (
        "counters.vector_stores", 2400, None,
        lambda: view(_norm(), workload=NORM, counters=counts(vector_stores=0.9, vector_spills=0.04, valu_ops=0.4))),
    "transposes": (
        "counters.xlu_transposes", 2000, "13_layout_and_transpose",
        lambda: view(_norm(stalls={"XLU result": 0.5}), workload=NORM,
                     counters=counts(stall=0.5, xlu_ops=0.3, xlu_transposes=0.2, xlu_reduces=0.1, valu_ops=0.1))),
    "vector arithmetic": (
        "counters.valu_ops", 2658, None,
        lambda: view(_norm(), workload=NORM, counters=counts(valu_ops=0.9, eup_ops=0.1))),
    "transcendentals": (
        "counters.eup_ops", 2400, None,
        lambda: view(_norm(), workload=NORM, counters=counts(valu_ops=0.4, eup_ops=0.9))),
    "transcendentals that nobody counted": (
        "counters.eup_ops", 2658, None,
        lambda: view(_norm(step={"flops": 0, "vector_elements": 0, "transcendental_elements": 64 * 2**20 * 1.3}),
                     workload=NORM)),
    "scalar loops": (
        "counters.scalar_ops", 2400, None,
        lambda: view(_norm(), workload=NORM, counters=counts(scalar_ops=0.6, valu_ops=0.1))),
    "loops over rows": (  # three quarters of the time go to turns that do little, whatever units they need
        "counters.scalar_ops", 2658, None,
        lambda: view(_norm(), workload=NORM, counters=counts(stall=0.25, scalar_ops=0.22, valu_ops=0.12))),
    "blocks over the edge": (
        "blocks[operand 0 bf16[4096,8192]].overhang", 800, "12_ragged_edges_and_masking",
        lambda: view(kernel(operands=[operand(overhang=1.25)]))),
    "thin tiles": (
        "blocks[operand 0 bf16[4096,8192]].tile_padding", 2658, None,
        lambda: view(_norm(operands=[operand(tile_padding=4.0)]), workload=NORM)),
    "one of two cores": (
        "kernels[].grid", 2000, "16_parallel_cores", lambda: view(kernel(parallel_axes=[], mxu_us=1500.0), tpu="v5p")),
    "nothing in particular": (
        "roofline.ceilings[mxu].us", 1251, "01_mxu_feed", lambda: view(kernel())),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_kind_is_found_with_its_cost_and_its_row(name):
    counter, costs_us, row, make = CASES[name]
    (worst, *_) = diagnose(make(), ROWS)
    assert worst.counter == counter
    assert worst.costs_us == pytest.approx(costs_us, rel=0.005)
    assert worst.taxonomy_row == row
    assert worst.value is not None


@pytest.mark.parametrize("name", CASES)
def test_a_finding_is_one_or_two_sentences_with_figures_that_people_read(name):
    for found in diagnose(CASES[name][3](), ROWS):
        assert len(re.findall(r"\.(?= [A-Z]|$)", found.text)) <= 2
        assert found.text.endswith(".")
        assert len(found.text) <= 320
        assert not re.search(r"\de[+-]\d|\d{5}", re.sub(r"\[[\d, ]*\]", "", found.text))


def test_figures_in_three_digits():
    assert [count(value) for value in (519_168, 2.344, 99.96, 1e9)] == ["519,000", "2.34", "100", "1,000,000,000"]
    assert [flop(value) for value in (3.848e12, 2.5e9)] == ["3,850 GFLOP", "2.5 GFLOP"]
    assert [size(value) for value in (1000, 1023 * 2**20 + 2**19, 2**31)] == ["0.977 KiB", "1 GiB", "2 GiB"]


@pytest.mark.parametrize("name", CASES)
def test_no_finding_names_a_row_that_the_chip_does_not_have(name):
    assert {one.taxonomy_row for one in diagnose(CASES[name][3](), [])} == {None}


def test_intermediates_between_kernels_that_wait_for_hbm():
    first = kernel(us=1000.0, hbm_us=1000.0, schedule_us=300.0, by_hbm=True, mxu_us=100.0)
    between = [operand(label="operand 0 f32[4096,4096]", item_bits=32)]
    second = kernel(us=1000.0, hbm_us=1000.0, schedule_us=300.0, by_hbm=True, mxu_us=100.0, operands=between)
    small = GEMM.model_copy(update={"least_bytes": 32 << 20, "flops": 1e9})
    (worst,) = [one for one in diagnose(view(first, second, workload=small), ROWS) if "least" in one.counter]
    assert (worst.counter, worst.value) == ("kernels[].traffic.least_bytes", pytest.approx(96 << 20, rel=1e-3))
    assert worst.costs_us == pytest.approx((96 << 20) / 800e9 * 1e6, rel=1e-3)


def test_an_input_that_two_kernels_read_is_no_intermediate():
    def found(least_bytes=32 << 20, **changed):
        first = kernel(us=1000.0, hbm_us=1000.0, schedule_us=300.0, by_hbm=True, mxu_us=100.0)
        second = kernel(us=1000.0, hbm_us=1000.0, schedule_us=300.0, by_hbm=True, mxu_us=100.0, **changed)
        small = GEMM.model_copy(update={"least_bytes": least_bytes, "flops": 1e9})
        told = diagnose(view(first, second, workload=small), [*ROWS, "11_carried_scan"])
        return next(one for one in told if one.counter == "kernels[].traffic.least_bytes")

    assert (found().taxonomy_row, found().value) == ("11_carried_scan", pytest.approx(64 << 20, rel=1e-3))
    assert found().costs_us == pytest.approx((64 << 20) / 800e9 * 1e6, rel=1e-3)
    assert "hand each other" in found(operands=[operand(array_bytes=96 << 20)]).text
    written = operand(label="result 0 bf16[4096,8192]", direction="written")  # an input's size, but not an input
    assert "hand each other" in found(least_bytes=128 << 20, operands=[operand(), written]).text
    wider = operand(label="result 0 f32[4096,8192]", direction="written", item_bits=32, array_bytes=128 << 20)
    assert found(least_bytes=192 << 20, operands=[operand(), wider]).taxonomy_row == "11_carried_scan"


def test_a_softmax_between_two_products_belongs_in_one_kernel_even_where_hbm_is_close_to_the_schedule():
    small = GEMM.model_copy(update={"least_bytes": 32 << 20, "flops": 1e9})
    rows = [*ROWS, "10_online_softmax"]
    waits = {"DMA write of result 0": 0.4, "MXU result": 0.1}

    def row_of(exponentials):
        work = {"flops": 1e9, "vector_elements": 1e6, "transcendental_elements": exponentials}
        first = kernel(us=1000.0, hbm_us=900.0, stalls=waits, mxu_us=100.0)
        scores = operand(label="operand 0 f32[4096,4096]", item_bits=32)
        second = kernel(us=1000.0, hbm_us=900.0, stalls=waits, mxu_us=100.0, step=work, operands=[scores])
        found = diagnose(view(first, second, workload=small), rows)
        return next(one.taxonomy_row for one in found if one.counter == "kernels[].traffic.least_bytes")

    assert row_of(1e6) == "10_online_softmax"
    assert row_of(0) == "05_fused_epilogue"


@pytest.mark.parametrize(
    ("axes", "added", "row"),
    [
        ([0, 2], 4, "08_k_blocked_accumulation"),
        ([0, 2], 1, "05_fused_epilogue"),  # a batch of products, and an epilogue
        ([0], 4, "05_fused_epilogue"),  # a product whose contraction is whole, and a reduction
    ],
)
def test_partial_products_that_another_kernel_adds_up(axes, added, row):
    small = GEMM.model_copy(update={"least_bytes": 32 << 20, "flops": 1e9})
    busy = {"us": 1000.0, "hbm_us": 1000.0, "schedule_us": 300.0, "by_hbm": True, "mxu_us": 100.0}
    result = operand(direction="written", axes=[0, 1, 2])
    product = kernel(operands=[operand(axes=axes), operand(axes=[1, 2]), result], **busy)
    reads = operand(array_bytes=added * (64 << 20))
    other = kernel(matmuls=[], operands=[reads, operand(), operand(direction="written")], **busy)
    found = diagnose(view(product, other, workload=small), ROWS)
    assert next(one.taxonomy_row for one in found if one.counter == "kernels[].traffic.least_bytes") == row


def test_float32_arrays_where_the_workload_has_bfloat16():
    wide = operand(label="operand 0 f32[4096,8192]", item_bits=32, array_bytes=1 << 30, moved_bytes=1 << 30)
    found = diagnose(view(kernel(hbm_us=4000.0, schedule_us=3000.0, by_hbm=True, operands=[wide])), ROWS)
    assert "traffic[operand 0 f32[4096,8192]].bytes" in _counters(found)
    none = GEMM.model_copy(update={"outputs": tuple(o.model_copy(update={"dtype": "float32"}) for o in GEMM.outputs)})
    found = diagnose(view(kernel(hbm_us=4000.0, schedule_us=3000.0, by_hbm=True, operands=[wide]), workload=none), ROWS)
    assert "traffic[operand 0 f32[4096,8192]].bytes" not in _counters(found)


def test_room_in_vmem_is_told_and_where_to_find_more():
    def reread(vmem, **changed):
        moved = [operand(moved_bytes=20 * (64 << 20), axes=[1])]
        made = kernel(hbm_us=4000.0, schedule_us=3000.0, by_hbm=True, operands=moved, vmem=vmem, **changed)
        return diagnose(view(made), ROWS)[0]

    assert "VMEM has room (1 MiB of the 16 MiB" in reread(1 << 20).text
    assert "the chip has 128 MiB: raise vmem_limit_bytes" in reread(14 << 20).text
    assert "VMEM is nearly full" in reread(120 << 20, vmem_limit_bytes=127 << 20).text
    assert "grid axis 0 (8 steps)" in reread(1 << 20).text


def test_a_few_per_cent_from_the_ceiling_no_cause_is_sought():
    busy = counts(valu_ops=0.8, vector_stores=0.9, vector_spills=0.5, xlu_ops=0.4)
    assert _counters(diagnose(view(kernel(us=2900.0), counters=busy), ROWS)) == ["roofline.best_us"]
    assert _counters(diagnose(view(kernel(us=3200.0), counters=busy), ROWS))[0] == "counters.vector_spills"


def test_spills_are_not_told_twice():
    busy = counts(vector_spills=0.7, vector_stores=0.9, valu_ops=0.4)
    assert "counters.vector_stores" not in _counters(diagnose(view(_norm(), workload=NORM, counters=busy), ROWS))


def test_spills_beside_a_busy_mxu_cost_nothing():
    busy = counts(stall=0.06, vector_spills=0.08, vector_stores=0.3, mxu_flops=0.93)
    assert _counters(diagnose(view(kernel(us=3000.0), counters=busy), ROWS)) == ["roofline.best_us"]


def test_matmuls_that_the_workload_does_not_have():
    twice = counts(mxu_flops=0.8) | {"mxu_flops": Count(total=2 * GEMM.flops, unit="FLOP", peak_share=0.8)}
    (found,) = diagnose(view(kernel(us=6000.0), counters=twice), ROWS)[:1]
    assert (found.counter, found.costs_us) == ("counters.mxu_flops", pytest.approx(2400, rel=0.005))
    once = counts(mxu_flops=0.8) | {"mxu_flops": Count(total=1.1 * GEMM.flops, unit="FLOP", peak_share=0.8)}
    assert "counters.mxu_flops" not in _counters(diagnose(view(kernel(us=6000.0), counters=once), ROWS))


def test_few_transcendentals_bind_nothing():
    few = {"flops": 0, "vector_elements": 0, "transcendental_elements": 64 * 2**20 / 10}
    assert "counters.eup_ops" not in _counters(diagnose(view(_norm(step=few), workload=NORM), ROWS))


def test_the_worst_is_first_and_there_are_at_most_three():
    everything = kernel(
        us=16_000.0,
        matmuls=[MATMUL | {"passes": 6}],
        operands=[operand(overhang=1.25)],
        stalls={"DMA read of operand 0": 0.3},
        grid=(8, 8),
    )
    found = diagnose(view(everything, outside_us=1000.0, counters=counts(stall=0.3, valu_ops=0.6)), ROWS)
    assert _counters(found) == ["matmul passes", "kernels[].stalls", "blocks[operand 0 bf16[4096,8192]].overhang"]
    costs = [one.costs_us for one in found]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    "clean",
    [
        view(kernel(us=2900.0, hbm_us=2000.0, operands=[operand(moved_bytes=20 * (64 << 20))])),  # hidden re-reads
        view(kernel(us=2900.0), outside_us=20.0),
        view(kernel(us=3100.0), outside_us=70.0),
        view(kernel(us=2900.0, grid=(64, 64, 16), operands=[operand(overhang=1.05)])),
        view(_norm(us=1400.0, by_hbm=True, schedule_us=900.0), workload=NORM, counters=counts(valu_ops=0.9)),
        view(kernel(us=2900.0, grid=(2,))),
    ],
)
def test_what_costs_nothing_is_not_found(clean):
    assert _counters(diagnose(clean, ROWS)) == ["roofline.best_us"]
