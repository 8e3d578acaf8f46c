"""`hawkeye`: exit codes, JSON that programs can rely on, files that are never overwritten, one real evaluation."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from families import ended, family, until
from small_workloads import write
from typer.testing import CliRunner

from hawkeye_mcp import __version__, cli, clients, content, kernels, taxonomy, workloads
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge import evaluate as judging
from hawkeye_mcp.judge.workers import WorkerTimeout
from hawkeye_mcp.profiler import calibration
from hawkeye_mcp.taxonomy_check import source
from hawkeye_mcp.versions import versions

KERNEL = Path(__file__).parent / "kernels" / "12p_RMSNorm.py"
HAWKEYE = [sys.executable, "-m", "hawkeye_mcp.cli"]


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


# --- wrong usage


@pytest.mark.parametrize("command", ["evaluate", "profile"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--workload": "8p_GEM"}, "Nearest: 8p_GEMM"),
        ({"--workload": "nothing"}, f"All: {', '.join(workloads.names())}."),
        ({"--tpu": "v4"}, "'v4' is not one of v5e, v5p, v6e, 7x"),
        ({"--kernel": "absent.py"}, "absent.py cannot be read: No such file"),
        ({"--kernel": "."}, "cannot be read: Is a directory"),
        ({"--kernel": "latin1.py"}, "not UTF-8 text (byte 2)"),
        ({"--kernel": "large.py"}, "larger than 1000000 bytes"),
        ({"--kernel": None}, "--kernel"),
        ({"--bogus": "1"}, "--bogus"),
    ],
)
def test_wrong_usage_exits_2_before_anything_starts(command, changed, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(judging, "open_judge", None)  # starting it would be another failure than the expected one
    Path("latin1.py").write_bytes(b"# \xe9\n")
    Path("large.py").write_bytes(b"#" * 1_000_001)
    options = {"--workload": "8p_GEMM", "--kernel": str(KERNEL), "--tpu": "v5e"} | changed
    result = run(command, *(word for key, value in options.items() if value is not None for word in (key, value)))
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_byte_order_mark_is_no_part_of_a_kernel(tmp_path):
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbfA = 1\r\n")
    assert kernels.read(tmp_path / "marked.py") == "A = 1\r\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["workloads", "show", "nothing"], "12p_RMSNorm"),
        (["taxonomy", "show", "01_mxu_fed"], "01_mxu_feed"),
        (["taxonomy", "show", "99_none", "--tpu", "v6e"], "v6e has no row '99_none'"),
        (["taxonomy", "verify", "--row", "99_none"], "no row '99_none'. All: 01_mxu_feed"),
        (["taxonomy", "verify", "--row", "01_mxu_feed", "--write"], "leave --tpu and --row out"),
        (["taxonomy", "verify", "--tpu", "v3"], "v5e, v5p, v6e, 7x"),
        (["taxonomy", "render", "--row", "99_none"], "no row '99_none'. All: 01_mxu_feed"),
        (["taxonomy", "show", "01_mxu_feed", "--part", "some"], "all, guide, naive, optimized, config"),
        (["taxonomy", "list", "--tpu", "v3"], "v5e, v5p, v6e, 7x"),
        (["install", "emacs"], "claude_code, claude_code_plugin, codex, openhands, cursor, vscode, gemini_cli"),
        (["install", "codex", "--condition", "some"], "none, taxonomy, pool, full"),
        (["install", "codex", "--print", "--dir", "here"], "not both"),
        (["install", "codex", "--dir", "/proc/nowhere"], "/proc/nowhere"),
        (["baselines", "--workload", "nothing"], "12p_RMSNorm"),
    ],
)
def test_other_wrong_usage_exits_2_and_names_what_is_legal(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"hawkeye {__version__}\n")


def test_help_needs_nothing_heavy():
    heavy = "jax", "mcp", "pydantic", "anyio", "rich", "numpy"
    code = f"import sys, hawkeye_mcp.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- content


def test_workloads_as_json():
    listed = json.loads(run("workloads", "list", "--json").stdout)
    assert [entry["name"] for entry in listed] == workloads.names()
    flops = {entry["name"]: entry["flops"] for entry in listed}
    assert flops["8p_GEMM"] == workloads.load("8p_GEMM").flops
    shown = json.loads(run("workloads", "show", "8p_GEMM", "--json").stdout)
    assert shown["sizes"]["full"] == workloads.load("8p_GEMM").sizes["full"]
    assert shown["statement"] == workloads.statement(workloads.load("8p_GEMM"))
    assert "folder" not in shown


def test_workloads_as_text():
    listed = run("workloads", "list").stdout
    assert all(name in listed for name in workloads.names())
    assert run("workloads", "show", "8p_GEMM").stdout.rstrip("\n") == workloads.statement(workloads.load("8p_GEMM"))


def test_a_new_workload_is_written_once_and_named_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run("workloads", "new", "mine")
    assert "hawkeye workloads check mine/" in said.stdout
    assert json.loads(run("workloads", "show", "./mine/", "--json").stdout)["name"] == "mine"
    (tmp_path / "mine" / "workload.toml").write_text("changed")
    assert run("workloads", "new", "mine").exit_code == 1
    assert (tmp_path / "mine" / "workload.toml").read_text() == "changed"
    for name in ("8p_GEMM", "a b", "../mine"):
        assert run("workloads", "new", name).exit_code == 2


def test_a_check_reports_each_workload_and_exits_1_if_one_is_not_ok(tmp_path, monkeypatch):
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))
    good = write(tmp_path, "good")
    faint = write(tmp_path, "faint", code={'(size["N"],)) * 0.5': '(size["N"],)) * 0.001'})
    found = run("workloads", "check", good.reference, faint.reference, "--json")
    assert found.exit_code == 1
    first, second = json.loads(found.stdout)["workloads"]
    assert (first["name"], first["ok"], second["name"], second["ok"]) == ("good", True, "faint", False)
    assert [mutant["name"] for mutant in second["mutants"]["survived"]] == ["add 1: operand 0 alone"]
    assert {"error", "gate", "failing"} <= second["mutants"]["survived"][0].keys()
    assert "[2/2]" in found.stderr
    shown = run("workloads", "check", good.reference)  # kept: at once
    assert shown.exit_code == 0
    assert "1 of 1 workloads are ok." in shown.stdout
    assert run("workloads", "check", "--size", "huge").exit_code == 2


def test_taxonomy_as_json():
    cell = taxonomy.cell("v5e", "01_mxu_feed")
    listed = json.loads(run("taxonomy", "list", "--json").stdout)
    assert {"row": cell.row, "tpu": "v5e", "title": cell.title, "one_line": cell.one_line} in listed
    one_chip = json.loads(run("taxonomy", "list", "--tpu", "v6e", "--json").stdout)
    assert one_chip == [each for each in listed if each["tpu"] == "v6e"] != []
    assert json.loads(run("taxonomy", "show", cell.row, "--json").stdout) == cell.model_dump()
    part = json.loads(run("taxonomy", "show", cell.row, "--part", "naive", "--json").stdout)
    assert part["naive"] == cell.naive_kernel
    assert "optimized_kernel" not in part


def test_a_part_is_the_file_itself_so_that_it_can_be_redirected():
    cell = taxonomy.cell("v5e", "05_fused_epilogue")
    assert run("taxonomy", "show", cell.row, "--part", "optimized").stdout == cell.optimized_kernel
    assert json.loads(run("taxonomy", "show", cell.row, "--part", "config").stdout) == cell.config


# --- install


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_install_writes_what_the_client_reads_once(client, tmp_path):
    folder = tmp_path / "new"
    files = clients.render(client, tpu="v6e", condition="none")
    options = [client, "--tpu", "v6e", "--condition", "none", "--dir", folder]
    first = run("install", *options)
    assert first.exit_code == 0
    assert {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()} == files
    assert clients.command(client, tpu="v6e", condition="none") in first.stdout
    again = run("install", *options)
    assert again.exit_code == 0
    assert "already so" in again.stdout


def test_install_overwrites_nothing_and_prints_what_to_merge(tmp_path):
    other = tmp_path / "mcp.json"
    other.write_text('{"mcpServers": {"mine": {}}}')
    result = run("install", "openhands", "--dir", tmp_path)
    assert result.exit_code == 1
    assert clients.render("openhands")["mcp.json"] in result.stderr
    assert other.read_text() == '{"mcpServers": {"mine": {}}}'
    assert list(tmp_path.iterdir()) == [other], "none of a client's files is written where one cannot be"


def test_install_print_is_the_file_alone_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("install", "codex", "--print").stdout == clients.render("codex")["config.toml"]
    assert clients.command("codex") in run("install", "codex").stdout
    assert list(tmp_path.iterdir()) == []


# --- baselines


def entry(name, us=10_000.0):
    """Of an operation that takes so long, more than the floor of 8p_GEMM and 12p_RMSNorm on PEAKS."""
    cost = baseline.OpCost(name="fusion", kind="xla", method="xla_estimate", cycles=us * 1e3, hbm_bytes=1)
    return baseline.Entry(
        workload=name,
        tpu="v5e",
        costs=[cost],
        peaks={"clock_hz": 1e9, "hbm_bytes_per_s": 1e15, "bf16_flops_per_s": 1e18},
        versions=versions(),
        fingerprint=baseline.fingerprint(workloads.load(name), "v5e", versions()),
    )


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Where the shipped file lies for this test; the cache is empty and nothing can be computed."""

    async def compute(workload, tpu, versions, compilers, *, profile):
        raise WorkerTimeout(f"cannot compile {workload.name}")

    monkeypatch.setattr(baseline, "shipped_path", lambda tpu: tmp_path / "baselines" / f"{tpu}.json")
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(baseline, "compute", compute)
    return tmp_path / "baselines" / "v5e.json"


def computes(monkeypatch, **fields):
    """Every baseline can be computed; the names of those that are, in order."""
    computed = []

    async def compute(workload, tpu, versions, compilers, *, profile):
        computed.append(workload.name)
        return entry(workload.name).model_copy(update={"profiled": profile} | fields)

    monkeypatch.setattr(baseline, "compute", compute)
    return computed


def test_baselines_are_added_in_the_order_of_names_and_current_ones_kept(shipped, monkeypatch):
    computed = computes(monkeypatch)
    options = ["--tpu", "v5e", "--workload", "8p_GEMM"]
    assert run("baselines", *options).exit_code == 0
    result = run("baselines", *options, "--workload", "12p_RMSNorm")
    assert computed == ["8p_GEMM", "12p_RMSNorm"], "the first one was still current"
    assert result.exit_code == 0
    assert "xla_estimate" in result.stdout
    assert "[2/2] v5e 12p_RMSNorm" in result.stderr
    assert list(json.loads(shipped.read_text())) == ["12p_RMSNorm", "8p_GEMM"]
    assert baseline.known(workloads.load("8p_GEMM"), "v5e", versions()) == entry("8p_GEMM")


def test_a_profile_is_added_to_what_lacks_it_and_only_once(shipped, monkeypatch):
    computed = computes(monkeypatch)
    options = ["--tpu", "v5e", "--workload", "8p_GEMM"]
    for profile in ([], ["--profile"], ["--profile"], []):
        assert run("baselines", *options, *profile).exit_code == 0
    assert computed == ["8p_GEMM"] * 2
    assert json.loads(shipped.read_text())["8p_GEMM"]["profiled"]


def test_a_stale_baseline_is_computed_again_and_the_others_stay(shipped, monkeypatch):
    computed = computes(monkeypatch)
    stale = entry("8p_GEMM").model_copy(update={"fingerprint": "0" * 16})
    shipped.parent.mkdir()
    shipped.write_text(json.dumps({"8p_GEMM": stale.model_dump(), "other": {"kept": True}}))
    assert run("baselines", "--tpu", "v5e", "--workload", "8p_GEMM").exit_code == 0
    found = json.loads(shipped.read_text())
    assert computed == ["8p_GEMM"]
    assert (found["8p_GEMM"], found["other"]) == (entry("8p_GEMM").kept(), {"kept": True})


def test_check_computes_nothing_and_names_what_is_missing_or_stale(shipped, monkeypatch):
    computed = computes(monkeypatch)
    stale = entry("8p_GEMM").model_copy(update={"fingerprint": "0" * 16})
    kept = {each.workload: each.kept() for each in (stale, entry("12p_RMSNorm"))}
    baseline.write_json(shipped, kept)
    names = ["8p_GEMM", "12p_RMSNorm", "1p_Flash_Attention"]
    result = run("baselines", "--check", "--json", "--tpu", "v5e", *(each for n in names for each in ("--workload", n)))
    assert result.exit_code == 1
    rows = {row["workload"]: row for row in json.loads(result.stdout)["baselines"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "8p_GEMM": "stale",
        "12p_RMSNorm": "current",
        "1p_Flash_Attention": "missing",
    }
    assert (rows["12p_RMSNorm"]["us"], rows["8p_GEMM"]["us"]) == (10_000.0, None)
    assert rows["12p_RMSNorm"]["shares"] == [{"method": "xla_estimate", "share": 1.0}]
    assert computed == []
    assert run("baselines", "--check", "--tpu", "v5e", "--workload", "12p_RMSNorm").exit_code == 0


def test_a_program_that_xla_refuses_is_shipped_with_its_words_and_no_figure(shipped, monkeypatch):
    computes(monkeypatch, refused="RESOURCE_EXHAUSTED: 17.56G", costs=[])
    result = run("baselines", "--tpu", "v5e", "--workload", "8p_GEMM", "--json")
    (row,) = json.loads(result.stdout)["baselines"]
    assert (result.exit_code, row["state"], row["us"], row["notes"]) == (
        0,
        "current",
        None,
        ["RESOURCE_EXHAUSTED: 17.56G"],
    )


def test_a_baseline_that_cannot_be_predicted_is_named_and_the_rest_goes_on(shipped):
    cached = entry("12p_RMSNorm")
    baseline.write_json(baseline._cache_path("12p_RMSNorm", "v5e", cached.fingerprint), cached.kept())
    result = run("baselines", "--tpu", "v5e", "--workload", "8p_GEMM", "--workload", "12p_RMSNorm")
    assert result.exit_code == 1
    assert "cannot compile 8p_GEMM" in result.stderr
    assert list(json.loads(shipped.read_text())) == ["12p_RMSNorm"]


def test_a_baseline_that_ran_out_of_time_or_memory_is_not_shipped(shipped, monkeypatch):
    computes(monkeypatch, passing=True, notes=["out of memory"])
    result = run("baselines", "--tpu", "v5e", "--workload", "8p_GEMM")
    assert result.exit_code == 1
    assert "not kept: out of memory" in result.stderr
    assert not shipped.exists()


def test_what_estimates_are_worth_is_printed_chip_by_chip(monkeypatch):
    row = calibration.Row(
        tpu="7x", workload="w", at={"M": 1}, op="f", sort="product", profile_cycles=1000, xla_cycles=1100,
        flop_cycles=900, hbm_cycles=1, registers=500, compiler=" ".join(
            getattr(versions(), name) for name in ("jax", "jaxlib", "libtpu")
        ),
    )  # fmt: skip
    old = row.model_copy(update={"compiler": "another"})
    plain = row.model_copy(update={"sort": "copy", "flop_cycles": 0.0, "tpu": "v5e"})
    monkeypatch.setattr(calibration, "rows", lambda: (row, old, plain))
    found = json.loads(run("baselines", "--calibration", "--json").stdout)
    assert found["estimate_over_profile"] == [{"tpu": "7x", "n": 1, "median": 1.1, "least": 1.1, "most": 1.1}]
    assert [(each["tpu"], each["sort"], each["median"]) for each in found["cycles_per_register"]] == [
        ("v5e", "copy", 2.0)
    ]
    assert "1.1" in run("baselines", "--calibration").stdout


# --- judging


def test_a_fault_of_the_harness_exits_3(monkeypatch):
    def broken(**_):
        raise OSError("no processes left")

    monkeypatch.setattr(judging, "open_judge", broken)
    result = run("evaluate", "--workload", "8p_GEMM", "--kernel", KERNEL)
    assert result.exit_code == 3
    assert "no processes left" in result.stderr
    assert "hawkeye doctor" in result.stderr
    assert result.stdout == ""


def hawkeye(*arguments, cwd=None):
    command = [*HAWKEYE, *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False, cwd=cwd
    )


def test_a_correct_kernel_end_to_end():
    done = hawkeye("evaluate", "--workload", "12p_RMSNorm", "--kernel", KERNEL, "--tpu", "v5e", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "progress is for terminals"
    found = json.loads(done.stdout)
    assert (found["status"], found["workload"], found["tpu"]) == ("correct", "12p_RMSNorm", "v5e")
    assert found["isolation"] in ("bubblewrap", "rlimits")
    assert len(found["artifact"]["sha256"]) == 64
    assert [kernel["grid"] for kernel in found["audit"]["kernels"]] == [[256]]
    assert found["correctness"]["ok"]
    assert found["correctness"]["seeds"] == 3
    timing = found["timing"]
    assert timing["source"] == "predicted"
    # Reading and writing 8 * 4096 * 8192 bfloat16 at v5e's 819 GB/s takes 1311 us; nothing correct is faster.
    assert 1300 < timing["candidate_us"] < 2000
    assert timing["speedup"] == pytest.approx(timing["baseline_us"] / timing["candidate_us"], rel=1e-3)
    assert found["diagnosis"]["findings"]
    assert found["versions"]["jax"] == versions().jax


def test_a_kernel_that_does_not_parse_end_to_end(tmp_path):
    broken = tmp_path / "kernel.py"
    broken.write_text("def workload(x, scale:\n    return x\n")
    done = hawkeye("evaluate", "--workload", "12p_RMSNorm", "--kernel", broken, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["status"] == "trace_error"
    assert "never closed" in found["message"]
    assert found["timing"] is None


README, PROFILES = (
    (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    for page in ("README.md", "hawkeye_mcp/profiler/README.md")
)
# README.md shows the beginning of what the other page shows whole.
BLOCKS = re.findall(r"```console\n\$ (hawkeye profile .*?)```", README + PROFILES, re.DOTALL)


@pytest.mark.parametrize("command", sorted({block.splitlines()[0] for block in BLOCKS}))
def test_the_readme_shows_what_its_kernels_really_give(tmp_path, command):
    """Line by line, in order; a line that is … stands for any number of others."""
    eight = README.partition("```python\n")[2].partition("```")[0]
    assert "ROWS = 8\n" in eight
    (tmp_path / "my_rmsnorm.py").write_text(eight)
    (tmp_path / "my_rmsnorm_128.py").write_text(eight.replace("ROWS = 8\n", "ROWS = 128\n"))
    done = hawkeye(*command.split()[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for told in (block.splitlines()[1:] for block in BLOCKS if block.splitlines()[0] == command):
        # Spaces align columns with their widest entry and say nothing.
        shown = iter([" ".join(line.split()) for line in done.stdout.splitlines()])
        missing = [line for line in told if line != "…" and " ".join(line.split()) not in shown]
        assert missing == [], done.stdout
        assert len(told) > 10


def test_the_pages_profile():
    assert README.count("$ hawkeye profile ") == PROFILES.count("$ hawkeye profile ") == 2
    assert len(BLOCKS) == 4


def test_what_a_kernel_says_cannot_steer_the_terminal(tmp_path):
    hostile = tmp_path / "kernel.py"
    hostile.write_text('raise ValueError("\\x1b[2J[bold]mine[/bold]\\x07")\n')
    done = hawkeye("profile", "--workload", "12p_RMSNorm", "--kernel", hostile)
    assert done.returncode == 1
    assert done.stdout.startswith("trace_error  12p_RMSNorm on v5e\n")
    assert "[2J[bold]mine[/bold]" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_stages_show_on_a_terminal_and_sigterm_leaves_no_process(tmp_path):
    endless = tmp_path / "kernel.py"
    endless.write_text("while True:\n    pass\n")
    command = [*HAWKEYE, "evaluate", "--workload", "12p_RMSNorm", "--kernel", str(endless)]
    terminal, its_end = os.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its_end) as process:
        os.close(its_end)
        shown = read_until(terminal, "trace")
        members = family(process.pid, "tracer.py")  # the stage is shown before its process has started
        process.send_signal(signal.SIGTERM)
        shown += read_until(terminal, "Stopped by SIGTERM")
        stdout, _ = process.communicate(timeout=900)
    os.close(terminal)
    assert process.returncode == 128 + signal.SIGTERM
    assert stdout == b""
    assert len(members) > 1
    until(lambda: ended(members))


def read_until(terminal, words):
    """What the terminal shows, up to and with the words; fails with an OSError if they never come."""
    shown = ""
    while words not in shown:
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def test_a_stopped_run_of_many_says_that_what_is_finished_is_kept(monkeypatch):
    async def stopped(*asked, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()

    monkeypatch.setattr("hawkeye_mcp.taxonomy_check.runner.verify", stopped)
    result = run("taxonomy", "verify", "--row", "04_async_pipeline")
    assert result.exit_code == 128 + signal.SIGTERM
    assert "Stopped by SIGTERM; what was finished is kept" in result.stderr


def test_a_broken_source_of_cells_is_wrong_usage(monkeypatch):
    async def broken(*asked, **options):
        raise ExceptionGroup("", [source.BrokenSource("01_x/guide.md.j2 does not render")])

    for module in ("runner.verify", "render.cells"):
        monkeypatch.setattr(f"hawkeye_mcp.taxonomy_check.{module}", broken)
    for command in ("verify", "render"):
        result = run("taxonomy", command)
        assert result.exit_code == 2
        assert "01_x/guide.md.j2 does not render" in result.stderr


def test_rendered_cells_that_are_not_current_are_named_and_written_on_demand(monkeypatch, tmp_path):
    async def rendered(rows):
        return {tmp_path / "v5e" / "01_a" / "guide.md": "new"}

    elsewhere = content.folder
    monkeypatch.setattr(content, "folder", lambda name: tmp_path if name == "taxonomy" else elsewhere(name))
    monkeypatch.setattr("hawkeye_mcp.taxonomy_check.render.cells", rendered)
    (tmp_path / "7x" / "09_gone").mkdir(parents=True)
    found = run("taxonomy", "render")
    assert found.exit_code == 1
    assert found.stdout.splitlines() == ["7x/09_gone: has no source; remove it", "v5e/01_a/guide.md: not current"]
    (tmp_path / "7x" / "09_gone").rmdir()
    assert run("taxonomy", "render", "--write").stdout == "v5e/01_a/guide.md: written\n"
    assert (tmp_path / "v5e" / "01_a" / "guide.md").read_text() == "new"
    assert run("taxonomy", "render").exit_code == 0
