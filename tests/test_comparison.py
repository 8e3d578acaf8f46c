"""Two candidates side by side: the right ratio of the right figures, and what cannot be compared is not."""

import io
import json
import struct

import profiles
import pytest
from fake_judge import FakeJudge
from rich.console import Console
from typer.testing import CliRunner

from hawkeye_mcp import cli, comparison, profile_text
from hawkeye_mcp.judge import evaluate as judging
from hawkeye_mcp.profile import Profile


def ratios(this, other):
    return comparison.compare(this, other).ratios


def shown(this, other):
    console = Console(file=io.StringIO(), width=100, highlight=False)
    profile_text.comparison(comparison.compare(this, other), console)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_a_ratio_is_the_others_figure_over_this_ones():
    found = ratios(profiles.matmul(), profiles.rmsnorm())
    assert found["predicted_us"] == pytest.approx(2_436.2 / 726.0)
    assert found["executed_bundles"] == pytest.approx(999_533 / 1_010_000)
    assert found["stalls.DMA read of operand 0"] == 38
    assert found["stalls.MXU result"] == 0, "the other waits for none"
    back = ratios(profiles.rmsnorm(), profiles.matmul())
    assert back["predicted_us"] == pytest.approx(1 / found["predicted_us"])


def test_a_profile_beside_itself_has_ratio_one_everywhere():
    found = ratios(profiles.matmul(), profiles.matmul())
    assert {name for name, ratio in found.items() if ratio is None} == {"hbm_temp_bytes", "counters.eup_ops"}, "zeros"
    assert set(found.values()) - {None} == {1.0}
    assert "memory.vmem window bytes" in found
    assert "traffic.operand 0 bf16[4096,4096] read" in found


def test_calls_weigh_and_memory_is_of_the_kernel_that_takes_most():
    this, other = profiles.matmul(), profiles.matmul()
    kernel = other.kernels[0]
    kernel.calls = 3
    small = kernel.model_copy(update={"calls": 1, "buffers": kernel.buffers[:1], "stalls": [], "traffic": []})
    other.kernels.append(small)
    found = ratios(this, other)
    assert found["stalls.MXU result"] == 3
    assert found["traffic.result 0 bf16[4096,4096] written"] == 3
    assert found["memory.vmem window bytes"] == 1


def test_what_one_of_them_does_not_know_has_no_ratio_and_is_called_unknown():
    found = ratios(profiles.matmul(), profiles.unknown())
    assert set(found.values()) == {None}
    lines = shown(profiles.matmul(), profiles.unknown())
    assert "in short the time of one of them is unknown" in lines
    assert "mxu_matmuls 2,097,152 unknown unknown" in lines
    assert "DMA read of operand 0 50,000 unknown unknown" in lines


def test_a_kernel_that_never_waits_is_known_to_wait_for_nothing():
    other = profiles.matmul()
    other.kernels[0].stalls = []
    assert ratios(profiles.matmul(), other)["stalls.MXU result"] == 0
    assert "MXU result 0 22,000 from 0" in shown(other, profiles.matmul())


def test_the_text_has_both_times_every_figure_and_its_ratio():
    lines = shown(profiles.matmul(), profiles.rmsnorm())
    assert "in short the other takes 3.356 times as long as this one (predicted)" in lines
    assert "other bound by latency" in lines
    assert "stall_cycles 80,000 2,660,467 33.26" in lines
    assert "DMA write of result 0 8,000 260,000 32.5" in lines
    assert "eup_ops 0 0 =" in shown(profiles.matmul(), profiles.matmul())
    waits = [line.split(" ")[0] for line in lines if " result " in line or line.startswith("DMA read of operand 0 5")]
    assert waits[:2] == ["DMA", "XLU"], "the longest first"


def test_overlapping_intervals_leave_it_open_which_is_faster():
    this, other = profiles.matmul(), profiles.matmul()
    for interval, certain in (((790.0, 900.0), False), ((800.0, 900.0), True), ((500.0, 659.0), True)):
        other.timing.candidate_interval_us = interval
        assert any("not certain" in line for line in shown(this, other)) is not certain


# --- the command


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Runs `hawkeye profile` with the fake judge on kernels that say what becomes of them; returns what it gave."""
    monkeypatch.setattr(judging, "open_judge", lambda warm: FakeJudge().open())

    def run(*options, this="this", other=None):
        files = {"--kernel": tmp_path / "this.py"} | ({} if other is None else {"--compare": tmp_path / "other.py"})
        for file, said in zip(files.values(), (this, other), strict=False):
            file.write_text(f"# fake: {said}\n", encoding="utf-8")
        named = [word for option, file in files.items() for word in (option, str(file))]
        return CliRunner().invoke(cli.app, ["profile", "--workload", "8p_GEMM", *named, *map(str, options)])

    return run


def test_json_is_both_profiles_and_the_ratios(command):
    found = json.loads(command("--json", this="speedup 4", other="speedup 2").stdout)
    assert set(found) == {"this", "other", "ratios"}
    assert (found["this"]["predicted_us"], found["other"]["predicted_us"]) == (25.0, 50.0)
    assert found["ratios"]["predicted_us"] == 2.0
    assert found["this"]["kernel_sha256"] != found["other"]["kernel_sha256"]


def test_json_of_one_kernel_is_its_profile(command):
    result = command("--json", this="speedup 4")
    assert result.exit_code == 0
    found = Profile.model_validate_json(result.stdout)
    assert (found.predicted_us, found.counters["counter 1"].per_step) == (25.0, 0.0625)


@pytest.mark.parametrize(("this", "other"), [("compile_error", "x"), ("x", "compile_error")])
def test_one_that_fails_is_told_with_what_was_said_and_exits_1(command, tmp_path, this, other):
    result = command("--png", tmp_path / "out.png", this=this, other=other)
    assert result.exit_code == 1
    assert (
        f"{'other' if this == 'x' else 'this'}:\ncompile_error  8p_GEMM on v5e\nThe verdict is compile_error."
        in result.stdout
    )
    assert "compared" not in result.stdout
    assert "No picture was drawn" in result.stderr
    assert not (tmp_path / "out.png").exists()


def test_a_fault_of_the_harness_exits_3_also_beside_a_good_one(command):
    assert command(this="x", other="harness_error").exit_code == 3
    assert command("--json", this="compile_error", other="harness_error").exit_code == 3


@pytest.mark.parametrize(("other", "rows"), [(None, 1), ("speedup 2", 2)])
def test_the_picture_is_written_beside_the_text(command, tmp_path, other, rows):
    result = command("--png", tmp_path / "out.png", other=other)
    assert result.exit_code == 0, result.output
    assert struct.unpack(">II", (tmp_path / "out.png").read_bytes()[16:24]) == (1000, 560 * rows)
    assert "8p_GEMM on v5e" in result.stdout
    assert sorted(path.name for path in tmp_path.glob("*out*")) == ["out.png"]


@pytest.mark.parametrize("place", ["absent/out.png", "."])
def test_a_place_where_no_picture_can_be_is_refused_before_anything_starts(command, monkeypatch, tmp_path, place):
    monkeypatch.setattr(judging, "open_judge", None)
    result = command("--png", tmp_path / place)
    assert result.exit_code == 2
    assert "must name a file in a folder that exists" in result.stderr
    assert result.stdout == ""
