"""`hawkeye compare --host`: the kernel's time comes from the host, and is in no ratio with one of this machine."""

from pathlib import Path

import pytest
from hosting import served
from typer.testing import CliRunner

from hawkeye_mcp import workloads
from hawkeye_mcp.cli import app
from hawkeye_mcp.commands import compare
from hawkeye_mcp.hosts import registry
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.intake import original
from hawkeye_mcp.intake.original import Side
from hawkeye_mcp.profile import Profile

KERNEL = "# fake: measured\n# fake: within 1.5"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWKEYE_CONFIG", str(tmp_path / "config"))


@pytest.mark.anyio
async def test_the_kernels_time_is_the_hosts_and_says_so(tmp_path: Path):
    async with served(tmp_path / "there") as server:
        registry.add("tpu-1", server.host())

        async def profile() -> Profile:
            return await compare._there("tpu-1", KERNEL, workloads.find("8p_GEMM"), "v5e", lambda stage: None)

        found = await original._kernel(profile)
    assert (found.us, found.source, found.on, found.host) == (50.0, "measured", "TPU v5e", "tpu-1")
    assert original._told(found) == "50 us [33.33 to 75], measured: TPU v5e, by tpu-1"
    here = Side(us=100.0, source="measured", on="TPU by torch_xla 2.13, torch 2.13 eager, 9 runs")
    assert original._ratio(here, found) == (
        None,
        "the original was measured on this machine, and the kernel's time is measured on tpu-1",
    )
    assert original._ratio(here, found.model_copy(update={"host": ""}))[0] == 2.0


@pytest.mark.anyio
async def test_without_a_host_that_does_it_the_comparison_stands_and_the_time_is_unknown(capsys):
    registry.add("tpu-1", Host(url="http://127.0.0.1:1"))

    async def profile() -> Profile:
        return await compare._there("tpu-1", KERNEL, workloads.find("8p_GEMM"), "v5e", lambda stage: None)

    found = await original._kernel(profile)
    assert (found.us, found.source) == (None, None)
    assert found.note.startswith("unknown: None of the hosts did it (tpu-1). `hawkeye hosts check`")
    assert "tpu-1 is left out: it cannot be reached" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "words"), [("tpu-1", "give --workload"), ("tpu-2", "There is no host 'tpu-2'")])
def test_a_host_without_a_workload_and_an_unknown_one_are_wrong_usage(tmp_path: Path, host, words):
    registry.add("tpu-1", Host(url="http://127.0.0.1:1"))
    (tmp_path / "k.py").write_text(KERNEL)
    named = ["--torch", str(tmp_path / "k.py"), "--kernel", str(tmp_path / "k.py"), "--host", host]
    done = CliRunner().invoke(app, ["compare", *named])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", "").split())
