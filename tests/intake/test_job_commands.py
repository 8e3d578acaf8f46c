"""`hawkeye job`: exit codes, what is printed where, and what is written."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import job_files
import pytest
from job_files import JOBS, changed
from typer.testing import CliRunner

from hawkeye_mcp import cli
from hawkeye_mcp.intake import fields, rules
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.plan import recorded

EXAMPLES = Path(__file__).parent / "jobs"


def _job(*command: object) -> Any:
    return CliRunner().invoke(cli.app, ["job", *map(str, command)], env={"COLUMNS": "300"})


@pytest.mark.parametrize("name", ["gated_norm", "gated_mlp", "scaled_softmax", "saxpy", "softplus_gate"])
def test_the_examples_are_valid(name: str) -> None:
    found = _job("validate", EXAMPLES / f"{name}.json")
    assert (found.exit_code, found.stdout) == (0, f"{EXAMPLES / name}.json: valid\n")


def test_there_is_an_example_of_each_kind() -> None:
    jobs = [json.loads(path.read_text(encoding="utf-8")) for path in EXAMPLES.glob("*.json")]
    assert sorted(job["input"]["type"] for job in jobs) == ["cuda", "jax", "pytorch", "pytorch", "specification"]
    assert {job["conversion"]["method"] for job in jobs if "conversion" in job} == {"torchax", "port"}


def test_exit_codes_tell_valid_from_contradictory_from_incomplete(tmp_path: Path) -> None:
    path = job_files.write(tmp_path, JOBS["jax"])
    assert _job("validate", path).exit_code == 0
    job_files.write(tmp_path, changed(JOBS["jax"], {"input.path": "gone.py"}))
    gone = _job("validate", path)
    assert (gone.exit_code, f"There is no file {tmp_path}/gone.py" in gone.stdout) == (2, True)
    job_files.write(tmp_path, changed(JOBS["jax"], {"input.path": "gone.py", "has_reference": True}))
    both = _job("validate", path)
    assert both.exit_code == 1
    assert "references names none" in both.stdout
    assert "Fix: Name them in references" in both.stdout
    assert "missing  input.path" in both.stdout
    assert _job("validate", tmp_path / "nowhere.json").exit_code == 1
    assert _job("validate").exit_code == 2


def test_validate_prints_its_report_as_one_json_value(tmp_path: Path) -> None:
    path = job_files.write(tmp_path, changed(JOBS["jax"], {"needs_jax_conversion": True, "correctness.atol": 0.9}))
    found = _job("validate", path, "--json")
    report = json.loads(found.stdout)
    assert (found.exit_code, report["valid"], report["plan"], report["missing_paths"]) == (1, False, None, [])
    assert [error["field"] for error in report["errors"]] == ["needs_jax_conversion"]
    assert set(report["errors"][0]) == {"field", "message", "fix"}
    assert [warning["field"] for warning in report["warnings"]] == ["correctness.atol", "correctness"]
    job_files.write(tmp_path, JOBS["jax"])
    assert json.loads(_job("validate", path, "--json").stdout)["plan"]["workload"] == "mine"


@pytest.mark.parametrize(
    ("name", "phases", "executes", "only_read", "approval", "signature"),
    [
        ("gated_norm", ["capture"], ["gated_norm.py"], [], False, "workload(x, gate, scale)"),
        ("gated_mlp", ["capture"], ["gated_mlp.py"], [], False, None),
        (
            "scaled_softmax", ["capture", "trace_port", "verify_port", "compare_structure"],
            ["scaled_softmax.py", "scaled_softmax_port.py"], ["scaled_softmax.cu"], False, None,
        ),
        ("saxpy", ["baseline", "capture"], ["saxpy_port.py"], ["saxpy.cu"], True, "workload(x, y)"),
        ("softplus_gate", ["baseline", "capture"], [], [], True, "workload(x, bias)"),
    ],
)  # fmt: skip
def test_the_plan_says_what_runs_where_and_what_is_written(
    name: str, phases: list[str], executes: list[str], only_read: list[str], approval: bool, signature: str | None
) -> None:
    plan = json.loads(_job("plan", EXAMPLES / f"{name}.json", "--json").stdout)
    names = [phase["name"] for phase in plan["phases"]]
    assert names[: len(phases)] == phases
    assert set(names).isdisjoint({"trace_port", "verify_port", "baseline"} - set(phases))
    assert [Path(path).name for path in plan["executes"]] == executes
    assert [Path(path).name for path in plan["only_read"]] == only_read
    assert (plan["signature"], bool(plan["approval"])) == (signature, approval)
    assert plan["needs_torch"] == (name in ("gated_mlp", "scaled_softmax"))
    assert {"workload.py", "workload.toml"} <= set(plan["writes"])
    text = _job("plan", EXAMPLES / f"{name}.json").stdout
    assert all(f" {each} [" in text for each in names)
    assert {phase["name"] for phase in plan["phases"] if phase["gate"]} >= {"capture", "emit", "verify_folder", "check"}


def test_a_plan_tells_what_a_server_may_spend_and_that_the_source_is_run(tmp_path: Path) -> None:
    path = job_files.write(tmp_path, JOBS["pytorch"])
    text = _job("plan", path).stdout
    assert "judges any number of kernels on v5e; with --run its autotune looks at any number of points." in text
    assert " source [" not in text
    changes = {"budget": {"evaluations": 1, "autotune_points": 40}, "evaluation.compare_against_source": True}
    path.write_text(json.dumps(changed(JOBS["pytorch"], {**changes, "target": {"tpu": "v6e"}})), encoding="utf-8")
    text = _job("plan", path).stdout
    assert "judges 1 kernel on v6e; with --run its autotune looks at 40 points." in text
    assert " source [capture]: runs PyTorch at full size" in text


def test_a_plan_tells_the_tolerances_of_its_gates(tmp_path: Path) -> None:
    job = changed(JOBS["pytorch"], {"conversion": {"method": "port", "port": "later.py"}, "correctness.atol": 0.003})
    found = _job("plan", job_files.write(tmp_path, job))
    assert found.exit_code == 2  # the port may be written later: what will be done with it is told all the same
    assert "|difference| <= 0.003 + 0.01 * |result|" in found.stdout
    assert "There is no file" in found.stderr
    broken = _job("plan", job_files.write(tmp_path, changed(job, {"has_reference": True})))
    assert (broken.exit_code, broken.stdout) == (1, "")


def test_a_plan_tells_shapes_once_they_are_known() -> None:
    plan = json.loads(_job("plan", EXAMPLES / "softplus_gate.json", "--json").stdout)
    assert plan["shapes"] == [
        {"name": "x", "role": "input", "dtype": "float32", "full": [4096, 1024], "check": [32, 1024]},
        {"name": "bias", "role": "parameter", "dtype": "float32", "full": [1024], "check": [1024]},
        {"name": "out", "role": "output", "dtype": "float32", "full": [4096, 1024], "check": [32, 1024]},
    ]
    before = rules.check(EXAMPLES / "gated_mlp.json").plan
    assert before
    assert (before.signature, before.shapes) == (None, ())
    draw = {"kind": "normal", "mean": 0, "std": 1}
    sizes = {
        size: {
            "arrays": [
                {"name": "x", "role": "input", "shape": [rows, 8], "dtype": "float32", "draw": draw},
                {"name": "up_weight", "role": "parameter", "shape": [8, 8], "dtype": "bfloat16", "draw": draw},
            ],
            "outputs": [{"shape": [rows, 8], "dtype": "float32"}],
        }
        for size, rows in (("full", 64), ("check", 4))
    }
    record = {"source_sha256": "", "route": "torchax", "versions": {}, "sizes": sizes, "trials": 1, "notes": ["a note"]}
    after = recorded(before, Capture.model_validate(record))
    assert after.signature == "workload(x, up_weight)"
    assert "a note" in after.signature_note
    assert [(one.name, one.role, one.dtype, one.full, one.check) for one in after.shapes] == [
        ("x", "input", "float32", (64, 8), (4, 8)),
        ("up_weight", "parameter", "bfloat16", (8, 8), (8, 8)),
        ("result 0", "output", "float32", (64, 8), (4, 8)),
    ]


@pytest.mark.slow
def test_a_plan_with_capture_runs_the_program_for_its_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = json.loads(_job("plan", EXAMPLES / "gated_mlp.json", "--capture", "--json").stdout)
    assert plan["signature"] == "workload(x, gate_weight, up_weight, down_weight, down_bias)"
    assert plan["shapes"][0]["check"] == [32, 256]


def test_a_plan_tells_what_of_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torchax" else object())
    found = _job("plan", EXAMPLES / "gated_mlp.json")
    assert "Needs: hawkeye-mcp[torch]; not installed here: torchax" in found.stdout


def test_the_schema_is_that_of_the_models() -> None:
    assert json.loads(_job("schema").stdout) == Job.model_json_schema(by_alias=True)
    assert _job("schema", "--markdown").stdout == fields.markdown() + "\n"


def test_classify_proposes_a_job_that_is_valid(tmp_path: Path) -> None:
    source = tmp_path / "layer.py"
    source.write_text(job_files.TORCH_SOURCE, encoding="utf-8")
    into = tmp_path / "jobs" / "layer.json"
    found = _job("classify", source, "--write", into, "--json")
    assert (found.exit_code, json.loads(found.stdout)["primary"]) == (0, str(source))
    assert json.loads(into.read_text(encoding="utf-8"))["input"]["path"] == "../layer.py"
    assert _job("validate", into).exit_code == 0
    again = _job("classify", source, "--write", into)
    assert again.exit_code == 1
    assert "exists and stays as it is" in again.stderr


def test_classify_refuses_to_guess(tmp_path: Path) -> None:
    job_files.write(tmp_path, {})
    two = _job("classify", tmp_path / "jax.py", tmp_path / "torch_module.py", "--write", tmp_path / "x.json")
    assert (two.exit_code, "Any of 2 files might be the program" in two.stdout) == (3, True)
    assert "was not written" in two.stderr
    assert not (tmp_path / "x.json").exists()
    assert _job("classify", tmp_path / "nowhere.py").exit_code == 4
    assert _job("classify").exit_code == 2


def test_an_import_of_an_invalid_job_says_why_and_does_nothing(tmp_path: Path) -> None:
    path = job_files.write(tmp_path, changed(JOBS["jax"], {"has_reference": True}))
    before = sorted(tmp_path.iterdir())
    found = _job("import", path, "--dir", tmp_path)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "references names none" in found.stderr
    told = _job("import", path, "--dir", tmp_path, "--json")
    assert json.loads(told.stdout)["invalid"]["errors"][0]["field"] == "has_reference"
    job_files.write(tmp_path, changed(JOBS["jax"], {"input.path": "gone.py"}))
    assert _job("import", path, "--dir", tmp_path).exit_code == 2
    assert sorted(tmp_path.iterdir()) == before


def test_neither_jax_nor_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom hawkeye_mcp import cli\n"
        "from hawkeye_mcp.intake import classify, plan, rules, show, specification\n"
        f"report = rules.check(Path({str(EXAMPLES / 'gated_mlp.json')!r}))\nshow.plan(report.plan)\n"
        f"specification.source(rules.load(Path({str(EXAMPLES / 'softplus_gate.json')!r})))\n"
        f"classify.classify([Path({str(EXAMPLES)!r})], Path())\n"
        "print(sorted({'jax', 'torch', 'torchax', 'libtpu'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"
