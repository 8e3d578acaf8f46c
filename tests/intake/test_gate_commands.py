"""`hawkeye verify-port`, `compare-structure` and `reference-facts`: what is printed where, and the exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hawkeye_mcp.cli import app
from hawkeye_mcp.intake import facts, port_gates
from hawkeye_mcp.intake.capture import CaptureFailed
from hawkeye_mcp.intake.compare_structure import Comparison, Counts
from hawkeye_mcp.intake.facts import ReferenceFacts
from hawkeye_mcp.intake.hlo_facts import HloFacts, Operation
from hawkeye_mcp.intake.port_gates import Compared, ComparedSize
from hawkeye_mcp.intake.structure_facts import Facts
from hawkeye_mcp.intake.values import OutputAgreement
from hawkeye_mcp.intake.verify_port import Verified
from hawkeye_mcp.versions import versions

SIMILAR = {"atol": 0.01, "rtol": 0.01, "trials": 3, "isolation": "bubblewrap"}


@pytest.fixture
def job(tmp_path: Path) -> str:
    (tmp_path / "source.py").write_text("def get_inputs():\n    return []\n\ndef workload():\n    pass\n")
    (tmp_path / "port.py").write_text("def workload():\n    pass\n")
    declared = {
        "schema": "hawkeye.job/1",
        "name": "mine",
        "input": {"type": "jax", "path": "source.py"},
        "has_reference": False,
        "needs_jax_conversion": False,
    }
    (tmp_path / "job.json").write_text(json.dumps(declared))
    return str(tmp_path / "job.json")


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def found(monkeypatch: pytest.MonkeyPatch, module, name: str, outcome) -> None:
    async def gate(*given):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(module, name, gate)


def test_a_port_is_verified_before_the_jobs_own_is_written(monkeypatch, job, tmp_path):
    declared = json.loads(Path(job).read_text()) | {
        "input": {"type": "pytorch", "path": "module.py"}, "needs_jax_conversion": True,
        "conversion": {"method": "port", "port": "later.py"},
    }  # fmt: skip
    (tmp_path / "module.py").write_text("class Model:\n    pass\n\ndef get_inputs():\n    return []\n")
    Path(job).write_text(json.dumps(declared))
    verified = Verified(status="agrees", message="M.", next_step="N.", outputs=[], problems=[], **SIMILAR)
    found(monkeypatch, port_gates, "verified", verified)
    assert run("verify-port", job, "--port", str(tmp_path / "port.py")).exit_code == 0
    told = run("verify-port", job)
    assert (told.exit_code, "later.py" in told.stderr) == (2, True)
    (tmp_path / "module.py").unlink()
    assert run("verify-port", job, "--port", str(tmp_path / "port.py")).exit_code == 2


@pytest.mark.parametrize(("status", "code"), [("agrees", 0), ("differs", 1), ("failed", 1), ("refused", 1)])
def test_verify_port_says_what_was_found_and_exits_by_it(monkeypatch, job, status, code):
    output = OutputAgreement(
        index=0, ok=not code, shape=[2], dtype="float32", expected_shape=[2], expected_dtype="float32",
        elements=6, failing=code, max_abs_error=0.5,
    )  # fmt: skip
    verified = Verified(
        status=status, message="M [x].", next_step="N.", outputs=[output], problems=["M [x].", "P."], **SIMILAR
    )
    found(monkeypatch, port_gates, "verified", verified)
    told = run("verify-port", job, "--port", str(Path(job).with_name("port.py")))
    assert told.exit_code == code
    assert told.stdout.splitlines() == [
        f"{status}: M [x].",
        "  P.",
        f"  output 0 float32[2]: {code} of 6 elements wrong, largest |difference| 0.5",
        "N.",
    ]
    told = run("verify-port", job, "--port", str(Path(job).with_name("port.py")), "--json")
    assert (told.exit_code, json.loads(told.stdout)["outputs"][0]["failing"]) == (code, code)


@pytest.mark.parametrize(
    ("status", "code"), [("identical", 0), ("equivalent", 0), ("divergent", 1), ("no_reference", 1), ("refused", 1)]
)
def test_compare_structure_prints_the_difference_and_exits_by_the_verdict(monkeypatch, job, status, code):
    comparison = Comparison(
        verdict="divergent", message="", differences=["- add [1]", "+ sub"],
        counted={"constants": Counts(reference=["f32 1e-05 in add"])},
    )  # fmt: skip
    sizes = [ComparedSize(sizes=["full"], comparison=comparison)] if status == "divergent" else []
    compared = Compared(status=status, message="M.", next_step="N.", compared=sizes, isolation="bubblewrap")
    found(monkeypatch, port_gates, "compared", compared)
    told = run("compare-structure", job, "--port", str(Path(job).with_name("port.py")))
    assert told.exit_code == code
    if sizes:
        assert told.stdout.splitlines()[2:6] == [
            "At full size: divergent",
            "  - add [1]",
            "  + sub",
            "  constants: - f32 1e-05 in add",
        ]
    told = run("compare-structure", job, "--port", str(Path(job).with_name("port.py")), "--json")
    assert (told.exit_code, json.loads(told.stdout)["status"]) == (code, status)


def test_a_program_that_cannot_be_recorded_is_told_with_what_it_printed(monkeypatch, job):
    failure = CaptureFailed("source_fails", "It raises ValueError.", "Mend it.", "line 3 of the source")
    found(monkeypatch, port_gates, "verified", failure)
    told = run("verify-port", job, "--port", str(Path(job).with_name("port.py")))
    assert (told.exit_code, told.stdout) == (1, "")
    for text in ("line 3 of the source", "could not be recorded: It raises ValueError.", "Mend it."):
        assert text in told.stderr


def test_a_fault_of_the_harness_is_3(monkeypatch, job):
    found(monkeypatch, port_gates, "verified", RuntimeError("no sandbox"))
    told = run("verify-port", job, "--port", str(Path(job).with_name("port.py")))
    assert (told.exit_code, told.stdout) == (3, "")


@pytest.mark.parametrize("command", ["verify-port", "compare-structure"])
def test_wrong_usage_names_what_is_missing(tmp_path: Path, job, command):
    assert "the job names no port" in (told := run(command, job)).stderr
    assert told.exit_code == 2
    assert "--port" in (told := run(command, job, "--port", str(tmp_path / "none.py"))).stderr
    assert told.exit_code == 2
    (tmp_path / "other.json").write_text("{}")
    told = run(command, str(tmp_path / "other.json"), "--port", str(tmp_path / "port.py"))
    assert (told.exit_code, told.stdout) == (1, "")
    assert "schema" in told.stderr


def test_reference_facts_prints_both_sides_and_writes_the_program(monkeypatch, tmp_path: Path):
    program = Facts(
        inputs=["f32[8]"], outputs=["f32[]"], operations={"mul": 2, "reduce_sum": 1}, layout={},
        reductions=["reduce_sum axes=(0,) of f32[8] -> f32[]"], contractions=[], constants=[], casts=[], dtypes=["f32"], loops=[],
    )  # fmt: skip
    hlo = HloFacts(
        operations=[Operation(name="fusion", kind="loop", result="f32[]{:T(128)}", does=["reduce"], hbm_bytes=32)],
        operation_count=1, fusion_kinds={"loop": 1}, custom_calls={}, copies=[], layouts={}, argument_layouts=[],
        result_layouts=[], hbm_bytes=32, unknown_loops=False,
    )  # fmt: skip
    whole = ReferenceFacts(
        workload="8p_GEMM", tpu="v5e", program=program, jaxpr_characters=400, jaxpr_tokens=100, hlo=hlo,
        hlo_source="libtpu 1, compiled for v5e", temp_bytes=0, versions=versions(), hlo_text="HloModule whole",
    )  # fmt: skip
    found(monkeypatch, facts, "facts_of", whole)
    told = run("reference-facts", "--workload", "8p_GEMM", "--hlo", str(tmp_path / "out.hlo"))
    assert told.exit_code == 0
    assert (tmp_path / "out.hlo").read_text() == "HloModule whole"
    for line in (
        "8p_GEMM: f32[8] -> f32[]",
        "operations: mul x2, reduce_sum",
        "libtpu 1, compiled for v5e:",
        "  loop fusion (reduce): 32 HBM bytes -> f32[]{:T(128)}",
    ):
        assert line in told.stdout.splitlines()
    refused = whole.model_copy(update={"hlo": None, "hlo_problem": "It does not fit.", "hlo_text": ""})
    found(monkeypatch, facts, "facts_of", refused)
    told = run("reference-facts", "--workload", "8p_GEMM", "--json")
    assert (told.exit_code, json.loads(told.stdout)["hlo_problem"]) == (1, "It does not fit.")
    assert run("reference-facts", "--workload", "nothing").exit_code == 2
    assert run("reference-facts", "--workload", "8p_GEMM", "--tpu", "v9").exit_code == 2
