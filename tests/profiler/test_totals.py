import pytest

from hawkeye_mcp.profiler import llo, totals

PEAKS = {"clock_hz": 1e9, "hbm_bytes_per_s": 1e12, "bf16_flops_per_s": 1e14, "eight_bit_ops_per_s": 2e14}
SOURCE = "\n".join(f"    line {n}" for n in range(1, 30))


STATIC = {
    "capacity": {"MATMUL": 4, "VALU": 4, "VSTORE:SPILL": 1, "SALU": 2}, "busy": {"mxu_matmuls": 16.0}, "hot": None,
    "pressure": 70, "flops_per_matmul": 2e4,
}  # fmt: skip


def look(steps, **changed):
    """What a run of this many steps shows: each step takes 100 cycles, 60 of them with issue."""
    counts = dict.fromkeys((*llo.NAMES, "unsized_transfers"), 0) | {
        "mxu_matmuls": 10 * steps, "valu_ops": 60 * steps, "vector_spills": 3 * steps, "hbm_read_bytes": 4096 * steps,
    }  # fmt: skip
    known = {
        "counts": counts,
        "cycles": 50 + 100 * steps,
        "issued": 20 + 60 * steps,
        "stalls": {"DMA read of operand 0": 25 + 30 * steps, "XLU result": 10 * steps, "DMA write of result 0": 5},
        "places": [
            [7, 60 * steps, 10 * steps],
            [9, 10 * steps, 0],
            ["the grid's pipeline", 50 + 30 * steps, 30 + 30 * steps],
        ],
        "before": 30,
        "after": 20,
        "static": STATIC,
        "cores": 1,
    }
    return known | changed


def plan(grid, *points, **changed):
    """points: (point, weight, look)"""
    known = {
        "name": "k",
        "grid": grid,
        "points": [point for point, _, _ in points],
        "weights": [weight for _, weight, _ in points],
        "looks": [seen for _, _, seen in points],
    }
    return known | changed


SAMPLED = plan([100], ([4], -47.0, look(4, static=None)), ([6], 48.0, look(6)))


def test_counts_of_short_grids_add_up_to_those_of_the_long_one():
    found, whole = totals.run(SAMPLED, 1, SOURCE), totals.run(plan([100], ([100], 1.0, look(100))), 1, SOURCE)
    assert found == whole
    assert found.profile.cycles == 50 + 100 * 100
    assert found.profile.registers.spills == 300


def test_of_kinds_of_steps_the_one_that_does_most_shows_the_schedule():
    """40 of 100 steps compute; the others, of which there are more, only wait."""
    idle = look(6, static=STATIC | {"flops_per_matmul": 0.0, "pressure": 1}, issued=6, before=0)
    idle["counts"] = idle["counts"] | {"mxu_matmuls": 0}
    points = ([4], -47.0, idle | {"static": None}), ([6], 48.0 - 40 / 6, idle), ([6], 40 / 6, look(6))
    found = totals.run(plan([100], *points), 1, SOURCE)
    assert found.counts["mxu_matmuls"] == pytest.approx(400)
    assert found.counts["mxu_flops"] == pytest.approx(400 * 2e4)
    assert (found.profile.registers.pressure, found.profile.phases.prologue_cycles) == (70, 30)


def test_bytes_that_values_decide_are_not_those_of_the_profile():
    found = totals.run(SAMPLED | {"moved_bytes": [7_000, 900]}, 1, SOURCE)
    assert (found.counts["hbm_read_bytes"], found.counts["hbm_written_bytes"]) == (7_000, 900)


def test_the_parts_sum_to_the_whole():
    kernel = totals.run(SAMPLED, 1, SOURCE).profile
    assert kernel.executed_bundles + sum(stall.cycles for stall in kernel.stalls) == kernel.cycles
    assert kernel.stall_cycles == sum(stall.cycles for stall in kernel.stalls)
    assert sum(region.cycles for region in kernel.regions) == kernel.cycles
    assert sum(region.stall_cycles for region in kernel.regions) == kernel.stall_cycles
    assert sum(stall.share for stall in kernel.stalls) + kernel.executed_bundles / kernel.cycles == pytest.approx(1)
    phases = kernel.phases
    assert phases.prologue_cycles + phases.steps * phases.step_cycles + phases.epilogue_cycles == kernel.cycles
    assert (phases.step_cycles, phases.steps) == (100, 100)


def test_noise_below_zero_is_cut_and_the_parts_still_sum_to_the_whole():
    short, longer = look(4), look(6)
    short["stalls"] |= {"XLU result": 5, "DMA write of result 0": 40}  # 35 cycles of a stall under another name
    kernel = totals.run(plan([100], ([4], -47.0, short), ([6], 48.0, longer)), 1, SOURCE).profile
    assert {stall.cause for stall in kernel.stalls} == {"XLU result", "DMA read of operand 0"}
    assert sum(stall.cycles for stall in kernel.stalls) == pytest.approx(kernel.stall_cycles)


def test_stalls_and_regions_come_largest_first_with_their_lines():
    kernel = totals.run(SAMPLED, 1, SOURCE).profile
    assert [stall.cause for stall in kernel.stalls] == ["DMA read of operand 0", "XLU result", "DMA write of result 0"]
    told = [(r.line, r.text, r.cycles, r.stall_cycles) for r in kernel.regions]
    assert told == [
        (7, "line 7", 6000, 1000),
        (None, "the grid's pipeline", 3050, 3030),
        (9, "line 9", 1000, 0),
    ]


def test_regions_beyond_the_longest_are_one():
    places = [[line, 1000 - line, 1] for line in range(1, 21)]
    seen = look(1, places=places, cycles=sum(n for _, n, _ in places), issued=0, stalls={"XLU result": 1})
    kernel = totals.run(plan([], ([], 1.0, seen)), 1, SOURCE).profile
    assert len(kernel.regions) == totals.LINES + 1
    assert kernel.regions[-1].text == "8 others"
    assert sum(region.cycles for region in kernel.regions) == kernel.cycles


def test_a_line_that_the_file_does_not_have_has_no_text():
    kernel = totals.run(plan([], ([], 1.0, look(1, places=[[99, 150, 0], [0, 0, 0]]))), 1, SOURCE).profile
    assert [(region.line, region.text) for region in kernel.regions] == [(99, "")]


def test_slots_of_the_whole_run_unless_an_inner_loop_takes_most_of_it():
    run = totals.run(SAMPLED, 1, SOURCE)
    slots = {slot.name: slot for slot in run.profile.slots}
    assert slots["MATMUL"].used == pytest.approx(10 * 100 * 16 / 6020)
    assert slots["VALU"].occupancy == pytest.approx(60 * 100 / 6020 / 4)
    hot = {
        "bundles": [5, 14],
        "jumps": 64,
        "lines": [3, 8],
        "used": {"MATMUL": 40, "VALU": 5, "VSTORE:SPILL": 0, "SALU": 4},
    }
    kernel = totals.run(plan([], ([], 1.0, look(1, static=STATIC | {"hot": hot}))), 1, SOURCE).profile
    assert kernel.hot_loop == "inner loop of 10 bundles, lines 3 to 8"
    assert [(slot.used, slot.occupancy) for slot in kernel.slots] == [(4, 1), (0.5, 0.125), (0, 0), (0.4, 0.2)]


def test_counters_are_of_all_kernels_and_calls():
    runs = [totals.run(SAMPLED, 2, SOURCE), totals.run(plan([], ([], 1.0, look(1))), 3, SOURCE)]
    found = totals.counters(runs, PEAKS, 2.0, eight_bit=False, sized=True)
    assert found["valu_ops"].total == 2 * 6000 + 3 * 60
    assert found["valu_ops"].per_step == pytest.approx(12180 / 203, abs=0.01)
    cycles = 2 * 10050 + 3 * 150
    assert found["executed_bundles"].total + found["stall_cycles"].total == cycles
    assert found["valu_ops"].peak_share == pytest.approx(12180 / (4 * cycles))
    assert found["mxu_matmuls"].peak_share == pytest.approx(16 * 2030 / (4 * cycles))
    assert found["mxu_flops"].total == 2030 * 2e4
    assert found["mxu_flops"].peak_share == pytest.approx(2030 * 2e4 / (cycles * 1e5))
    assert (found["hbm_read_bytes"].total, found["hbm_read_bytes"].unit) == (4096 * 203, "bytes")
    assert found["hbm_read_bytes"].peak_share == pytest.approx(4096 * 203 / 2e6)
    assert "unsized_transfers" not in found
    of_unknown_size = totals.counters(runs, PEAKS, 2.0, eight_bit=False, sized=False)
    assert found.keys() - of_unknown_size.keys() == {"hbm_read_bytes", "hbm_written_bytes"}
    eight = totals.counters(runs, PEAKS, 2.0, eight_bit=True, sized=True)
    assert eight["mxu_flops"].peak_share == pytest.approx(found["mxu_flops"].peak_share / 2)


def test_counts_are_of_both_cores_that_share_a_grid_and_cycles_of_one():
    one, both = (
        totals.run(plan([8], ([8], 1.0, look(steps, cores=cores))), 1, SOURCE) for steps, cores in ((8, 1), (4, 2))
    )
    assert both.counts["valu_ops"] == one.counts["valu_ops"] == 8 * 60
    assert both.profile.cycles == 450
    assert {slot.name: slot.used for slot in both.profile.slots}["VALU"] == pytest.approx(240 / 260)
    assert (both.profile.phases.steps, both.profile.phases.step_cycles) == (4, 100)
    found = totals.counters([both], PEAKS, None, eight_bit=False, sized=True)
    assert found["valu_ops"].per_step == 60
    assert found["valu_ops"].peak_share == pytest.approx(480 / (2 * 4 * 450))


def test_without_the_static_schedule_what_it_alone_tells_is_unknown():
    run = totals.run(plan([], ([], 1.0, look(1, static=None))), 1, SOURCE)
    assert (run.profile.slots, run.profile.hot_loop, run.profile.registers) == ([], "", None)
    found = totals.counters([run], PEAKS, 2.0, eight_bit=False, sized=True)
    assert (found["mxu_matmuls"].total, found["mxu_matmuls"].peak_share) == (10, None)
    assert "mxu_flops" not in found


@pytest.mark.parametrize("looks", [[look(4), None], [None, None]])
def test_a_kernel_with_a_point_that_was_not_seen_is_not_counted(looks):
    assert totals.run(SAMPLED | {"looks": looks}, 1, SOURCE) is None
    assert totals.run(plan([], weights=[], points=[], looks=[]), 1, SOURCE) is None
