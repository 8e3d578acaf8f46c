import anyio
import pytest
from serving import connected, data

from hawkeye_mcp import conditions
from hawkeye_mcp.sanitizer import run
from hawkeye_mcp.sanitizer.model import Finding, NotChecked, Sanitized


@pytest.fixture
def listed(monkeypatch):
    """The tool in the table of what clients see."""
    if "sanitize" not in conditions.tools("none"):
        monkeypatch.setattr(conditions, "TABLE", (conditions.Entry("tool", "sanitize"), *conditions.TABLE))


def answer(monkeypatch, waits=None):
    async def sanitize(source, workload, tpu, **how):
        if waits:
            await waits.wait()
        findings = [Finding(kind="race", line=3, message=source, on_tpu="t" * 300, advice="a" * 300) for _ in range(40)]
        return Sanitized(
            status="findings",
            message="Found.",
            next_step="Mend.",
            workload=workload.name,
            tpu=tpu,
            kernel_sha256="0" * 64,
            findings=findings,
            checks=["races"],
            not_checked=[NotChecked(check="seeds", reason="none")],
            isolation="rlimits",
            stages_s={},
        )

    monkeypatch.setattr(run, "sanitize", sanitize)


@pytest.mark.anyio
async def test_findings_come_with_line_effect_and_cure_and_fit_every_client(tmp_path, monkeypatch, listed):
    answer(monkeypatch)
    async with connected(tmp_path, condition="none") as client:
        result = await client.call_tool("sanitize", {"source": "k", "tpu": "v5e"})
    found = data(result)
    assert (found["status"], found["workload"], found["tpu"]) == ("findings", "8p_GEMM", "v5e")
    assert found["findings"][0] == {"kind": "race", "line": 3, "message": "k", "on_tpu": "t" * 300, "advice": "a" * 300}
    assert (found["checks"], found["not_checked"]) == (["races"], ["seeds: none"])
    assert found["truncated"]
    assert len(result.content[0].text) <= 11_000


@pytest.mark.anyio
async def test_one_that_takes_longer_than_the_wait_is_a_job_and_spends_no_evaluation(tmp_path, monkeypatch, listed):
    waits = anyio.Event()
    answer(monkeypatch, waits)
    async with connected(tmp_path, condition="none", max_evaluations=1) as client:
        running = data(await client.call_tool("sanitize", {"source": "k", "wait_s": 0}))
        waits.set()
        done = data(await client.call_tool("job", {"job_id": running["job_id"]}))
        verdict = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert running["status"] == "running"
    assert (done["status"], done["job_id"]) == ("findings", running["job_id"])
    assert verdict["status"] == "correct"


@pytest.mark.anyio
async def test_a_fault_is_told_without_its_inside(tmp_path, monkeypatch, listed):
    async def sanitize(source, workload, tpu, **how):
        raise run.SandboxFailed("secret inside")

    monkeypatch.setattr(run, "sanitize", sanitize)
    async with connected(tmp_path, condition="none") as client:
        found = data(await client.call_tool("sanitize", {"source": "k"}))
    assert found["status"] == "harness_error"
    assert "secret" not in str(found)
