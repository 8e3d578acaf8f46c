"""`hawkeye sanitize`: exit codes, JSON, text; one real run in the sandbox."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hawkeye_mcp import cli
from hawkeye_mcp.sanitizer import run as running
from hawkeye_mcp.sanitizer.model import CHECKS, Finding, NotChecked, Sanitized
from hawkeye_mcp.sanitizer.run import SandboxFailed

KERNEL = Path(__file__).parents[1] / "kernels" / "12p_RMSNorm.py"


def run(*arguments):
    return CliRunner().invoke(cli.app, ["sanitize", *map(str, arguments)])


def sanitized(status, findings=()):
    return Sanitized(
        status=status,
        message="Said.",
        next_step="Then.",
        workload="12p_RMSNorm",
        tpu="v5e",
        kernel_sha256="0" * 64,
        findings=list(findings),
        checks=["static", "races"],
        not_checked=[NotChecked(check="two_cores", reason="v5e has one TensorCore")],
        isolation="rlimits",
        stages_s={"total": 1.0},
    )


@pytest.fixture
def answering(monkeypatch):
    def answer(found):
        async def sanitize(source, workload, tpu, **how):
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(running, "sanitize", sanitize)

    return answer


@pytest.mark.parametrize(("status", "code"), [("silent", 0), ("findings", 1), ("failed", 1)])
def test_the_exit_code_is_0_only_for_a_silent_kernel(answering, status, code):
    answering(sanitized(status))
    assert run("--workload", "12p_RMSNorm", "--kernel", KERNEL).exit_code == code


def test_a_fault_of_the_harness_is_3(answering):
    answering(SandboxFailed("no python"))
    result = run("--workload", "12p_RMSNorm", "--kernel", KERNEL, "--json")
    assert (result.exit_code, result.stdout) == (3, "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--only": "everything"}, "'everything' is not one of static, uninitialised"),
        ({"--tpu": "v4"}, "'v4' is not one of"),
        ({"--workload": "nothing"}, "There is no workload"),
        ({"--kernel": "absent.py"}, "cannot be read"),
    ],
)
def test_wrong_usage_is_2(changed, said, answering):
    answering(AssertionError("it started"))
    options = {"--workload": "12p_RMSNorm", "--kernel": KERNEL} | changed
    result = run(*(word for pair in options.items() for word in pair))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_people_read_the_line_the_effect_and_the_cure(answering):
    finding = Finding(kind="race", line=7, message="a write", on_tpu="It depends.", advice="Wait [once].")
    answering(sanitized("findings", [finding]))
    text = run("--workload", "12p_RMSNorm", "--kernel", KERNEL).stdout
    assert "line 7: race: a write" in text
    assert "On a TPU: It depends." in text
    assert "Mend it: Wait [once]." in text
    assert "Checks that ran: static, races." in text
    assert "Not checked: two_cores: v5e has one TensorCore" in text


def test_a_real_defect_is_found_through_the_sandbox_and_named_with_its_line(tmp_path):
    right = KERNEL.read_text()
    old = "    out_ref[...] = (x * inverse * scale_ref[...].astype(jnp.float32)).astype(out_ref.dtype)\n"
    assert right.count(old) == 1
    wrong = tmp_path / "kernel.py"
    wrong.write_text(
        right.replace(old, old.replace("out_ref[...] = (x", "out_ref[:8] = (x[:8]").replace("inverse", "inverse[:8]"))
    )
    result = run("--workload", "12p_RMSNorm", "--kernel", wrong, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1, found
    kernel_line = 1 + right[: right.index("def _kernel")].count("\n")
    assert [(f["kind"], f["line"]) for f in found["findings"]] == [("unwritten_output", kernel_line)]
    assert set(found["findings"][0]) == {"kind", "line", "message", "on_tpu", "advice"}
    assert set(found["checks"]) == set(CHECKS) - {"seeds", "two_cores"}
    assert {skip["check"] for skip in found["not_checked"]} == {"seeds", "two_cores"}
