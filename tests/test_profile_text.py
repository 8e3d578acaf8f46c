"""A profile as text: the answer first, every figure in its place, nothing empty, nothing wider than a terminal."""

import io
import re

import profiles
import pytest
from rich.console import Console

from hawkeye_mcp import profile_text

WIDTH = 100


def shown(found):
    """Its lines, each with runs of spaces as one: they align columns and say nothing."""
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    profile_text.profile(found, console)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_the_first_screen_has_time_interval_bound_ceiling_and_findings():
    found = shown(profiles.matmul())
    first = "\n".join(found[:16])
    assert found[0] == "profiled 8p_GEMM on v5e"
    assert "predicted candidate 726 us [660 to 799], XLA baseline 722 us [670 to 770]" in first
    assert "bound mxu: most of the time the matrix units are at work" in first
    assert "at best 1.041 times as fast: no kernel does this work in less than 697.5 us on v5e (mxu)" in first
    assert "schedule 1,010,000 bundles executed, 80,000 cycles waiting, 1,024 register spills" in first
    assert "memory VMEM 4.062 MiB of 128 MiB, 544 MiB over HBM" in first
    assert "finding 1 Operand 0 is read 8 times over" in first
    assert "shown by traffic factor of operand 0 = 8; costs about 33.3 us" in first
    assert "taxonomy hawkeye taxonomy show 01_mxu_feed --tpu v5e" in first


@pytest.mark.parametrize(
    "row",
    [
        "matmul_kernel 1 726 696.4 static_schedule 726 static_profile_sampled",
        "mxu 697.5 1.374e+11 FLOP 1.97e+14 bf16, jax's TpuInfo",
        "kernel matmul_kernel, grid 8 x 8 x 8: 726 us, a schedule of 1,090,000 cycles",
        "3,500 cycles before the first step, 2,120 for each of 512, 1,060 after the last",
        "61 vectors live at once for 64 registers; 1,024 spills and 2,048 fills executed",
        "issuing bundles 1,010,000 92.7 % ███████████████████",
        "waiting for MXU result 22,000 2.0 %",
        "21 1,000,000 91.7 % 22,000 acc_ref[...] += jnp.dot(x_ref[...], y_ref[...], prefe…",
        "25 40,000 3.7 % 0 out_ref[...] = acc_ref[...].astype(out_ref.dtype)",
        "50,000 4.6 % 58,000 (of no line of the file)",
        "slot in bundles 120 to 2180, run 512 times used of occupancy",
        "VALU 2.4 4 60.0 % ████████████",
        "scratch 0 f32[512,512] scratch vmem 1 1,048,576",
        "operand 1 bf16[4096,4096] read 268,435,456 33,554,432 8",
        "mxu_matmuls 2,097,152 4,096 count 96.2 %",
        "executed_bundles 1,010,000 1,973 bundles",
    ],
)
def test_every_table_has_its_figures(row):
    assert row in shown(profiles.matmul())


def test_what_takes_most_cycles_stands_first():
    found = shown(profiles.rmsnorm())
    waits = [line for line in found if re.match(r"waiting for|issuing", line)]
    assert [line.split("result")[0].split(" 1")[0].rsplit(" ", 1)[0] for line in waits[:2]] == [
        "waiting for DMA read of operand",
        "issuing bundles 999,533 27.3 %",
    ]
    assert waits[-1].startswith("waiting for EUP result 70,000 1.9 %")


def test_what_is_unknown_is_called_so_with_the_reason_and_no_empty_table_is_shown():
    found = shown(profiles.unknown())
    assert "no time candidate unknown us, XLA baseline 722 us" in found
    assert "bound unknown" in found
    assert "note kernel matmul_kernel: static profile unavailable: the compiler aborted" in found
    words = "\n".join(found)
    assert not re.search("at best|bundles executed|memory|counter|slot|over HBM|cycles|finding 1|None|nan", words)
    assert not any(first == second == "" for first, second in zip(found, found[1:], strict=False))


def test_of_a_lower_bound_no_gain_is_promised_and_what_it_leaves_unknown_is_called_so():
    whole = profiles.matmul()
    found = whole.model_copy(
        update={
            "bound": None,
            "hbm_bytes": None,
            "timing": whole.timing.model_copy(update={"lower_bound": True}),
            "roofline": whole.roofline.model_copy(update={"best_speedup": None}),
        }
    )
    said = shown(found)
    assert "bound unknown: the time is a lower bound" in said
    assert "at best no kernel does this work in less than 697.5 us on v5e (mxu)" in said
    assert "memory VMEM 4.062 MiB of 128 MiB, bytes over HBM unknown" in said


def test_a_kernel_that_was_not_profiled_shows_what_was_said_and_no_figures():
    found = shown(profiles.of(status="compile_error", message="The TPU compiler refuses it.", compiler_message="E1001"))
    assert found[:2] == ["compile_error 8p_GEMM on v5e", "The TPU compiler refuses it."]
    assert "E1001" in found
    assert not any("unknown" in line for line in found)


def test_a_kernel_of_which_only_the_memory_is_known_says_so():
    found = profiles.unknown()
    found.kernels[0].buffers = profiles.matmul().kernels[0].buffers
    lines = shown(found)
    assert "kernel matmul_kernel, no grid: time unknown" in lines
    assert "scratch 0 f32[512,512] scratch vmem 1 1,048,576" in lines
    assert not any(line.startswith("cycles go to") for line in lines)


def test_several_kernels_stand_one_after_the_other_with_their_calls():
    one = profiles.matmul()
    twice = one.kernels[0].model_copy(update={"name": "second", "calls": 3, "grid": []})
    found = shown(one.model_copy(update={"kernels": [one.kernels[0], twice]}))
    heads = [line for line in found if line.startswith("kernel ")]
    assert heads[1] == "kernel second, no grid, 3 calls: 726 us, a schedule of 1,090,000 cycles"
    assert len(heads) == 2


@pytest.mark.parametrize("made", [profiles.matmul, profiles.rmsnorm, profiles.unknown])
def test_no_table_is_wider_than_a_terminal(made):
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    profile_text.profile(made(), console)
    tables = [line for line in console.file.getvalue().splitlines() if not re.match(r"[a-z]+ {2,}\S+ .*[,:]", line)]
    assert max(len(line.rstrip()) for line in tables) <= WIDTH


def test_what_a_kernel_says_cannot_steer_the_terminal():
    made = profiles.matmul()
    kernel = made.kernels[0]
    kernel.name, kernel.regions[0].text = "\x1b[2Jmine", "[bold]x\x07"
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    profile_text.profile(made, console)
    assert "[bold]x" in console.file.getvalue()
    assert not re.search("[\x00-\x09\x0b-\x1f]", console.file.getvalue())


@pytest.mark.parametrize(
    ("value", "said"), [(None, "unknown"), (0, "0"), (0.0625, "0.0625"), (386.4, "386"), (2.5, "2.5"), (1e7, "10,000,000")]
)  # fmt: skip
def test_numbers(value, said):
    assert profile_text.number(value) == said


@pytest.mark.parametrize(("value", "said"), [(0, "0.0 %"), (0.0004, "<0.1 %"), (0.0005, "0.1 %"), (0.927, "92.7 %")])
def test_shares(value, said):
    assert profile_text.share(value) == said


@pytest.mark.parametrize(("value", "said"), [(688_128, "672 KiB"), (1 << 20, "1 MiB"), (1000, "1000 bytes"), (None, "unknown")])  # fmt: skip
def test_sizes(value, said):
    assert profile_text.size(value) == said
