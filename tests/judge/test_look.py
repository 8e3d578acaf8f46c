"""What a look says is put together from the plan, the compiled program and the counted schedule."""

from hawkeye_mcp import taxonomy, workloads
from hawkeye_mcp.evaluation import OpTime, Timing
from hawkeye_mcp.judge import look
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.profile import Count, KernelProfile, Stall

PEAKS = {
    "bf16_flops_per_s": 197e12, "eight_bit_ops_per_s": 394e12, "hbm_bytes_per_s": 820e9, "clock_hz": 1.5e9,
    "vmem_bytes": 128 << 20,
}  # fmt: skip
OP = OpTime(
    name="kernel", kind="mosaic", method="static_profile", static_us=9e3, hbm_floor_us=300, hbm_bytes=246_000_000,
    us=9e3, bound="static_schedule",
)  # fmt: skip
OPERAND = {
    "label": "operand 0 bf16[4096,8192]", "direction": "read", "item_bits": 16, "array_bytes": 64 << 20, "space": "vmem",
    "block": [512, 512], "block_bytes": 512 << 10, "tile_padding": 1.0, "overhang": 1.0, "copies": 2, "axes": [0],
    "moved_bytes": 128 << 20,
}  # fmt: skip
PLAN = {
    "name": "kernel", "grid": [64], "calls": 1, "cycles": 13_500_000.0, "own_hbm_bytes": 0, "window_bytes": [128 << 20], "eight_bit_matmul": False,
    "runs": [(1, [False])], "vmem_bytes": 1_500_000,
    "anatomy": {"operands": [OPERAND], "matmuls": [{"lhs": "bf16", "rhs": "bf16", "flops": 1e9, "passes": 1}]},
}  # fmt: skip


def _work(**changed) -> Work:
    work = Work("", workloads.load("41k_Gemm_Add_ReLU"), "v5e", lambda stage: None)
    work.timing = Timing(source="predicted", candidate_us=9e3, baseline_us=None, speedup=None, ops=[OP])
    work.peaks, work.kernels = PEAKS, [PLAN | changed]
    return work


def test_memory_and_traffic_are_those_of_the_plan_and_of_the_compiled_program():
    found = look.fields(_work())
    (kernel,) = found["kernels"]
    assert [(b.name, b.kind, b.bytes, b.copies) for b in kernel.buffers] == [
        ("operand 0 bf16[4096,8192]", "window", 1 << 20, 2),
        ("spilled registers and temporaries of the compiler", "internal", 1_500_000 - (1 << 20), 1),
    ]
    assert [(t.operand, t.bytes, t.factor) for t in kernel.traffic] == [("operand 0 bf16[4096,8192]", 128 << 20, 2.0)]
    assert (found["vmem_bytes"], found["vmem_capacity_bytes"], found["hbm_bytes"]) == (
        1_500_000,
        128 << 20,
        246_000_000,
    )
    assert (kernel.us, kernel.calls) == (9000.0, 1)


def test_an_array_that_stays_in_vmem_takes_no_window_and_crosses_nothing():
    (kernel,) = look.fields(_work(runs=[(3, [True])]))["kernels"]
    assert (kernel.traffic, kernel.calls, kernel.us) == ([], 3, 3000.0)
    assert [b.kind for b in kernel.buffers] == ["internal"]


def test_bytes_of_which_a_kernels_depend_on_data_are_unknown():
    found = look.fields(_work(window_bytes=None))
    assert (found["hbm_bytes"], found["roofline"].intensity) == (None, None)
    assert look.fields(_work())["roofline"].intensity > 0


def test_a_lower_bound_is_held_against_no_ceiling():
    work = _work()
    work.timing = work.timing.model_copy(update={"lower_bound": True})
    found = look.fields(work)
    assert (found["bound"], found["roofline"].best_speedup) == (None, None)
    assert found["roofline"].best_us > 0


def test_what_was_counted_stays_with_its_kernel():
    work = _work()
    stall = Stall(cause="DMA read of operand 0", cycles=9e6, share=9e6 / 13.5e6)
    work.look = {
        "counters": {
            "valu_ops": Count(total=5e6, unit="count"),
            "executed_bundles": Count(total=4.5e6, unit="bundles"),
            "stall_cycles": Count(total=9e6, unit="cycles"),
        },
        "kernels": [KernelProfile(name="kernel", grid=[64], calls=1, stalls=[stall])],
    }
    found = look.fields(work)
    assert found["kernels"][0].stalls == [stall]
    assert found["kernels"][0].traffic
    assert found["bound"] == "latency"
    assert {c.unit for c in found["roofline"].ceilings} == {"hbm", "mxu", "vpu"}


def test_a_candidate_without_a_time_has_its_memory_and_says_so():
    work = _work(cycles=None)
    work.timing = work.timing.model_copy(update={"candidate_us": None})
    found = look.fields(work)
    assert found["vmem_bytes"] == 1_500_000
    assert "roofline" not in found
    assert [f.costs_us for f in found["findings"]] == [None]


def test_a_damaged_cell_takes_nothing_but_its_row_from_the_diagnosis(monkeypatch):
    whole = look.findings(_work())
    assert [one.taxonomy_row for one in whole] == ["01_mxu_feed"]

    def broken(tpu: str) -> None:
        raise ValueError("config.json is not JSON")

    monkeypatch.setattr(taxonomy, "rows", broken)
    assert look.findings(_work()) == [one.model_copy(update={"taxonomy_row": None}) for one in whole]
