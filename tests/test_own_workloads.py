"""Workloads in folders of one's own: a person names them by path, an agent only by the name that is pinned."""

import re

import pytest
from mcp.server.mcpserver.exceptions import ToolError
from small_workloads import write

from hawkeye_mcp import server_options, workloads
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.workloads import UnknownWorkload, find


def test_a_folder_is_found_by_its_path_and_a_shipped_one_by_its_name(tmp_path, monkeypatch):
    mine = write(tmp_path)
    assert (mine.name, mine.folder, mine.reference, mine.shipped) == (
        "mine",
        tmp_path / "mine",
        str(tmp_path / "mine"),
        False,
    )
    assert find(mine.reference) == mine
    monkeypatch.chdir(tmp_path)
    assert find("./mine/") == mine
    shipped = find("8p_GEMM")
    assert (shipped.reference, shipped.shipped) == ("8p_GEMM", True)
    assert find(str(shipped.folder)) is shipped


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "workload.toml").unlink(), "it has no workload.toml"),
        (lambda folder: (folder / "workload.py").unlink(), "it has no workload.py"),
        (lambda folder: (folder / "workload.toml").write_text("family = "), "cannot be read: Invalid value"),
        (lambda folder: (folder / "workload.toml").write_text("family = 3"), "summary: Field required"),
        (lambda folder: folder.rename(folder.parent / "m n"), "it has no workload.toml and no workload.py"),
    ],
)
def test_a_folder_that_is_no_workload_says_why(tmp_path, change, said):
    folder = write(tmp_path).folder
    change(folder)
    with pytest.raises(UnknownWorkload, match=said):
        find(str(folder))


def test_a_name_that_is_shipped_or_no_name_is_refused(tmp_path, monkeypatch):
    write(tmp_path).folder.rename(tmp_path / "8p_GEMM")
    with pytest.raises(UnknownWorkload, match="choose another"):
        find(str(tmp_path / "8p_GEMM"))
    (tmp_path / "8p_GEMM").rename(tmp_path / "a b")
    with pytest.raises(UnknownWorkload, match="letters, digits, _ and -"):
        find(str(tmp_path / "a b"))
    (tmp_path / "a b").rename(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownWorkload, match="say ./mine/"):
        find("mine")


def test_an_agent_cannot_name_a_path(tmp_path):
    mine = write(tmp_path)
    for reference in (mine.reference, "./mine/", "../mine"):
        with pytest.raises(ToolError, match="There is no workload"):
            arguments.workload(Settings(), reference)
        with pytest.raises(ToolError, match="judges only the workload 'mine'"):
            arguments.workload(_pinned(mine), reference)


def test_the_servers_flag_pins_a_folder_by_its_path(tmp_path, capsys):
    mine = write(tmp_path)
    options = server_options.parse(
        ["--workload", f"{mine.folder}/", "--workspace", str(tmp_path), "--state", str(tmp_path / "state")]
    )
    assert (options.settings.workload, options.settings.workload_folder) == ("mine", mine.folder)
    assert arguments.workload(options.settings, "") == arguments.workload(options.settings, "mine") == mine
    shipped = server_options.parse(["--workload", "8p_GEMM", "--state", str(tmp_path / "state")]).settings
    assert (shipped.workload, shipped.workload_folder) == ("8p_GEMM", None)
    with pytest.raises(SystemExit):
        server_options.parse(["--workload", "./nothing/", "--state", str(tmp_path / "state")])
    assert "it has no workload.toml" in capsys.readouterr().err


def test_its_files_cannot_be_read_as_kernels(tmp_path):
    mine = write(tmp_path)
    settings = Settings(workload="mine", workload_folder=mine.folder, workspace=tmp_path, state=tmp_path / "state")
    with pytest.raises(ToolError, match="outside the workspace"):
        arguments._read(settings, "mine/workload.py")


def test_its_statement_hides_the_judging_as_every_other(tmp_path):
    text = workloads.statement(write(tmp_path))
    assert "jax.nn.relu(jnp.dot(x, weight) + bias)" in text
    assert "oracle" not in text.split("```python")[1]
    assert "create_inputs" not in text


def _pinned(workload) -> Settings:
    return Settings(workload=workload.name, workload_folder=workload.folder)


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("{ M = 256, K = 512 }", "needs full and check, with the same dimensions"),
        ("{ M = 256, K = 512, N = 0 }", "check: the length of N must be positive"),
        ("{ M = 256, K = 512, N = 768, O = 1 }", "with the same dimensions"),
    ],
)
def test_a_size_without_a_length_for_each_dimension_is_no_size(tmp_path, check, said):
    with pytest.raises(UnknownWorkload, match=re.escape(said)):
        write(tmp_path, toml={"check = { M = 256, K = 512, N = 768 }": f"check = {check}"})


def test_an_array_names_only_dimensions_that_have_a_length(tmp_path):
    with pytest.raises(UnknownWorkload, match=re.escape("x: Q is no dimension of [sizes] full, nor a length")):
        write(tmp_path, toml={'shape = ["M", "K"]': 'shape = ["Q", "K"]'})
