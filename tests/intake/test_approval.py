"""A workload that needs a person's word is scored in no way before it is given, nor after its text changed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hawkeye_bench.cli import app as bench
from mcp.server.mcpserver.exceptions import ToolError
from small_workloads import write
from typer.testing import CliRunner

from hawkeye_mcp import cli, server_options, workloads
from hawkeye_mcp.intake import approval
from hawkeye_mcp.judge.evaluate import Judge
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.workloads import Unapproved, Workload

NEEDS = {'source = "written here"': 'source = "written here"\napproval = "required"'}


@pytest.fixture
def mine(tmp_path: Path) -> Workload:
    return write(tmp_path, toml=NEEDS)


def _hawkeye(*command: object, answer: str = "") -> Any:
    return CliRunner().invoke(cli.app, [str(each) for each in command], input=answer, env={"COLUMNS": "300"})


def _approve(workload: Workload) -> None:
    approval.approve(workload.folder, approval.texts(workload.folder))


def test_a_workload_is_approved_as_long_as_nothing_of_it_changes(mine: Workload) -> None:
    assert mine.unapproved == "no person has approved it"
    _approve(mine)
    assert mine.unapproved == ""
    (mine.folder / "workload.npz").write_bytes(b"arrays that the program keeps")
    assert mine.unapproved == "workload.npz changed after it was approved"
    _approve(mine)
    for name in ("workload.py", "workload.toml", "workload.npz"):
        old = (mine.folder / name).read_bytes()
        (mine.folder / name).write_bytes(old + b"\n# changed\n")
        assert mine.unapproved == f"{name} changed after it was approved"
        (mine.folder / name).write_bytes(old)
        assert mine.unapproved == ""
    (mine.folder / "workload.npz").unlink()
    assert mine.unapproved == "workload.npz changed after it was approved"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sha256": {}, "when": "x"}', '{"sha256": 3, "when": ""}', "[" * 100_000]
)
def test_what_is_no_approval_approves_nothing(mine: Workload, text: str) -> None:
    (mine.folder / approval.FILE).write_text(text, encoding="utf-8")
    assert mine.unapproved


def test_a_workload_without_need_is_never_asked_about(tmp_path: Path) -> None:
    plain = write(tmp_path)
    assert (plain.approval, plain.unapproved) == ("", "")
    assert workloads.find_to_score(plain.reference) == plain
    shipped = [workloads.load(name) for name in workloads.names()]
    assert [workload.name for workload in shipped if workload.approval] == []


@pytest.mark.parametrize("command", ["evaluate", "profile", "sanitize", "autotune"])
def test_no_command_scores_it(mine: Workload, tmp_path: Path, command: str) -> None:
    (tmp_path / "kernel.py").write_text("def workload(x, weight, bias):\n    return x\n", encoding="utf-8")
    found = _hawkeye(command, "--workload", f"{mine.folder}/", "--kernel", tmp_path / "kernel.py")
    assert found.exit_code == 2
    assert "no person has approved it" in found.stderr
    assert f"Next: hawkeye job approve {mine.folder}" in found.stderr


def test_no_server_starts_for_it(mine: Workload, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        server_options.parse(["--workload", f"{mine.folder}/"])
    assert ended.value.code == 2
    assert "no person has approved it" in capsys.readouterr().err


def test_a_server_stops_scoring_when_the_text_changes(mine: Workload, tmp_path: Path) -> None:
    _approve(mine)
    settings = Settings(
        tpu="v5e", workload=mine.name, workload_folder=mine.folder, workspace=tmp_path, state=tmp_path, call_log=tmp_path / "l",
    )  # fmt: skip
    assert arguments.workload(settings, "") == mine
    with (mine.folder / "workload.py").open("a", encoding="utf-8") as stream:
        stream.write("# changed\n")
    with pytest.raises(ToolError, match=r"workload\.py changed after it was approved") as raised:
        arguments.workload(settings, "")
    assert str(tmp_path) not in str(raised.value)  # an agent is told no path outside its workspace


def test_no_bench_runs_it(mine: Workload, tmp_path: Path) -> None:
    command = ["--workloads", f"{mine.folder}/", "--out", str(tmp_path / "out")]
    found = CliRunner().invoke(bench, command)
    assert found.exit_code == 2
    assert "no person has approved it" in re.sub(r"[│\s]+", " ", found.stderr)  # in a box, in lines
    assert not (tmp_path / "out").exists()


@pytest.mark.anyio
async def test_the_judge_itself_refuses_whoever_asks(mine: Workload) -> None:
    judge = object.__new__(Judge)  # it has to refuse before it uses anything that it has
    with pytest.raises(Unapproved):
        await judge.evaluate("", mine, "v5e")
    with pytest.raises(Unapproved):
        await judge.profile("", mine, "v5e")
    with pytest.raises(Unapproved):
        await judge.examine("", mine, mine, "v5e", {})


def test_it_can_be_looked_at_before(mine: Workload) -> None:
    found = _hawkeye("workloads", "show", f"{mine.folder}/")
    assert (found.exit_code, "# mine" in found.stdout) == (0, True)


def test_a_person_is_shown_the_text_and_asked(mine: Workload) -> None:
    no = _hawkeye("job", "approve", mine.folder, answer="n\n")
    assert (no.exit_code, mine.unapproved) == (1, "no person has approved it")
    assert mine.code() in no.stdout
    assert 'approval = "required"' in no.stdout
    assert "not approved, so nothing is scored by it" in no.stdout
    silent = _hawkeye("job", "approve", mine.folder)
    assert (silent.exit_code, bool(mine.unapproved)) == (1, True)
    yes = _hawkeye("job", "approve", mine.folder, answer="y\n")
    assert (yes.exit_code, mine.unapproved) == (0, "")
    assert workloads.find_to_score(f"{mine.folder}/") == mine
    again = _hawkeye("job", "approve", mine.folder)
    assert (again.exit_code, mine.code() in again.stdout) == (0, False)


def test_nothing_of_the_text_is_hidden_by_what_a_terminal_does(mine: Workload) -> None:
    (mine.folder / "source").mkdir()
    (mine.folder / "source" / "port.py").write_text("x = 1\x1b[1A\x1b[2K\r\n", encoding="utf-8")
    found = _hawkeye("job", "approve", mine.folder, answer="n\n")
    assert "--- source/port.py (what it was made of)" in found.stdout
    assert "x = 1\N{REPLACEMENT CHARACTER}[1A" in found.stdout
    assert "\x1b" not in found.stdout


def test_yes_approves_and_json_says_what(mine: Workload) -> None:
    found = _hawkeye("job", "approve", mine.folder, "--yes", "--json")
    assert found.exit_code == 0
    said = json.loads(found.stdout)
    assert (said["approved"], said["needed"]) == (True, True)
    assert said["sha256"] == approval.hashes(approval.texts(mine.folder))
    assert mine.code() in found.stderr


def test_what_needs_no_approval_or_is_no_workload_says_so(tmp_path: Path) -> None:
    plain = write(tmp_path)
    found = _hawkeye("job", "approve", plain.folder)
    assert (found.exit_code, "needs no approval" in found.stdout) == (0, True)
    assert not (plain.folder / approval.FILE).exists()
    (tmp_path / "empty").mkdir()
    assert _hawkeye("job", "approve", tmp_path / "empty").exit_code == 2
    assert _hawkeye("job", "approve", tmp_path / "nowhere").exit_code == 2


def test_the_text_that_was_shown_is_what_is_approved(mine: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change between the showing and the answer is not approved with it."""

    def change_then_agree(*_: object, **__: object) -> bool:
        with (mine.folder / "workload.py").open("a", encoding="utf-8") as stream:
            stream.write("# changed while the person was reading\n")
        return True

    monkeypatch.setattr("typer.confirm", change_then_agree)
    _hawkeye("job", "approve", mine.folder)
    assert mine.unapproved == "workload.py changed after it was approved"
