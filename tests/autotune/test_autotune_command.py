"""`hawkeye autotune`: wrong usage, what it prints and writes, and what outlives a kill. The judge is the stand-in."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stand_in import SOURCE, StandIn
from typer.testing import CliRunner

from hawkeye_mcp import cli
from hawkeye_mcp.autotune.model import Autotuned
from hawkeye_mcp.judge import evaluate as judging

HERE = Path(__file__).parent
PARAMS = ["--param", "A=1,2,4,8", "--param", "B=8,16,32"]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path / "kernel.py"


def words(kernel: Path, *more: object) -> list[str]:
    return ["autotune", "--workload", "8p_GEMM", "--kernel", str(kernel), *(str(word) for word in more)]


def run(kernel: Path, judge: StandIn | None, monkeypatch, *more: object):
    monkeypatch.setattr(judging, "open_judge", judge.open if judge else None)
    return CliRunner().invoke(cli.app, words(kernel, "--run-dir", kernel.parent / "run", *more))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "give either --space or --param"),
        (["--param", "A=1", "--space", "space.json"], "give either --space or --param"),
        (["--param", "A"], "write a name and whole numbers, such as BLOCK_M=128,256"),
        (["--param", "A=1,x"], "write a name and whole numbers"),
        (["--param", "A=1", "--param", "A=2"], "names a constant twice"),
        (["--param", "A=1", "--constraint", "A >"], "cannot be read"),
        (["--param", "C=1"], "It has A = 1, B = 8."),
        (["--space", "absent.json"], "absent.json cannot be read: No such file"),
        (["--space", "space.json"], "search space is no JSON"),
        (["--space", "space.json", "--constraint", "A > 1"], "the file of --space holds the constraints"),
        ([*PARAMS, "--strategy", "best"], "'best' is not one of grid, random, halving, tpe"),
        ([*PARAMS, "--strategy", "grid", "--points", "3"], "looks at all 12 points"),
        ([*PARAMS, "--points", "0"], "--points"),
        ([*PARAMS, "--png", "absent/out.png"], "must name a file in a folder that exists"),
        ([*PARAMS, "--tpu", "v4"], "'v4' is not one of"),
    ],
)
def test_wrong_usage_exits_2_before_anything_starts(kernel, monkeypatch, more, said):
    monkeypatch.chdir(kernel.parent)
    Path("space.json").write_text("{")
    found = run(kernel, None, monkeypatch, *more)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in " ".join(found.stderr.split())
    assert not Path("run").exists()


def test_the_table_has_the_points_best_first_and_the_compilers_words(kernel, monkeypatch):
    found = run(kernel, StandIn(), monkeypatch, *PARAMS, "--strategy", "grid")
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["better", "8p_GEMM", "on", "v5e"]
    table = [line.split() for line in lines[lines.index("Points, best first; us are predicted.") + 2 :]]
    assert table[0] == ["4", "16", "100", "[90.9", "to", "110]", "0.0", "winner"]
    assert ["1", "8", "206", "[187", "to", "227]", "0.0", "the", "file", "as", "it", "is"] in table
    told = " ".join(found.stdout.split())
    assert (
        "3 points compile_error, for example A=4 B=32: E1001: CompileTimeScopedVmemOom: Size 42.00M and limit 16.00M"
        in told
    )
    assert "looked at 12 of 12 points by grid, of 12 allowed: 9 predicted, 3 compile error" in told
    assert str(kernel.parent / "run" / "best_kernel.py") in told
    assert kernel.read_text(encoding="utf-8") == SOURCE


def test_json_is_the_whole_result_and_a_space_may_be_a_file(kernel, monkeypatch):
    space = kernel.parent / "space.json"
    text = '{"parameters": {"A": [1, 4], "B": [8, 16]}, "constraints": ["A * B < 64 or A == 4"]}'
    space.write_text(text, encoding="utf-8-sig")  # with a byte order mark, as some editors write
    found = run(kernel, StandIn(), monkeypatch, "--space", space, "--json", "--png", kernel.parent / "map.png")
    result = Autotuned.model_validate_json(found.stdout)
    assert (found.exit_code, result.status, result.best.parameters) == (0, "better", {"A": 4, "B": 16})
    assert (result.strategy, result.constraints) == ("halving", ["A * B < 64 or A == 4"])
    assert (kernel.parent / "map.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_correct_winner_it_exits_1(kernel, monkeypatch):
    found = run(kernel, StandIn(), monkeypatch, "--param", "A=8", "--param", "B=16,32")
    assert found.exit_code == 1
    assert found.stdout.startswith("none timed")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_what_a_stopped_search_looked_at_is_kept_and_the_same_command_goes_on(kernel, end):
    command = [sys.executable, str(HERE / "searching.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    rest = words(kernel, *PARAMS, "--run-dir", kernel.parent / "run", "--json")
    errors = []
    with subprocess.Popen(
        [*command, "5", *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as cut:
        for line in cut.stderr:
            errors.append(line)
            if line == "holding\n":
                cut.send_signal(end)
        printed = cut.stdout.read()
    assert printed == ""
    if end == signal.SIGINT:
        assert cut.returncode == 130
        assert any("what was finished is kept, and the same command goes on from there" in line for line in errors)
        assert json.loads(errors[-1].removeprefix("profiled ")) != []
    kept = (kernel.parent / "run" / "points.jsonl").read_text().splitlines()
    assert len(kept) == 5
    assert not list((kernel.parent / "run").glob("*.part"))
    again = subprocess.run([*command, "-1", *rest], capture_output=True, text=True, env=environment, check=True)
    found = Autotuned.model_validate_json(again.stdout)
    fresh = json.loads(re.search(r"^profiled (.*)$", again.stderr, re.MULTILINE)[1])
    assert len(fresh) == 7
    before = [tuple(json.loads(line)["looked"]["parameters"].values()) for line in kept]
    assert not {tuple(point) for point in fresh} & set(before)
    assert (found.from_store, found.status, found.best.parameters) == (5, "better", {"A": 4, "B": 16})


def test_two_searches_of_one_folder_do_not_mix(kernel, monkeypatch):
    from hawkeye_mcp.autotune.store import alone

    with alone(kernel.parent / "run"):
        found = run(kernel, StandIn(), monkeypatch, *PARAMS)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Another search is at work" in found.stderr
