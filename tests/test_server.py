"""What is true of the server as a whole: its schemas, its answers to wrong calls, its start and its end."""

import errno
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from fake_judge import FakeJudge
from mcp import Client
from serving import ERAS, FAIL_AFTER_S, connected, data, refusal, server, settings

from hawkeye_mcp import conditions, server_options
from hawkeye_mcp import server as hawkeye_server

SNAPSHOT = Path(__file__).parent / "snapshots" / "tools.json"


async def listed(folder: Path, condition: str, mode: str = "auto") -> list[dict]:
    async with connected(folder, condition=condition, mode=mode) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.anyio
async def test_tool_schemas_are_those_of_the_snapshot(tmp_path: Path):
    """Clients and recorded runs depend on these. After a deliberate change run this test with
    HAWKEYE_UPDATE_SNAPSHOTS=1 in the environment and read the difference before committing it."""
    found = {condition: await listed(tmp_path, condition) for condition in ("none", "full")}
    if os.environ.get("HAWKEYE_UPDATE_SNAPSHOTS"):
        SNAPSHOT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_every_client_can_use_the_schemas(tmp_path: Path, mode):
    tools = await listed(tmp_path, "full", mode)
    assert len(json.dumps(tools, ensure_ascii=False)) / 4 < 2_800, "tokens of tools/list, at 4 characters each"
    for tool in tools:
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False
        assert not {"$defs", "$ref", "anyOf", "oneOf", "allOf"} & set(json.dumps(schema).split('"'))
        for name, field in schema["properties"].items():
            assert field["type"] in ("string", "number", "integer", "boolean"), name
            assert field["description"]
            # Some clients drop defaults, so those that are not "nothing given" are said in words.
            if field.get("default"):
                assert str(field["default"]).removesuffix(".0") in field["description"]
        hints = tool["annotations"]
        assert hints.get("readOnlyHint") or (hints["destructiveHint"] is False and hints["openWorldHint"] is False)
        assert tool.get("outputSchema", {"type": "object"})["type"] == "object"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("tool", conditions.tools("full"))
async def test_an_unknown_argument_is_refused_naming_the_near_one(tmp_path: Path, tool, mode):
    async with connected(tmp_path, mode=mode) as client:
        names = next(t for t in (await client.list_tools()).tools if t.name == tool).input_schema["properties"]
        name = next(iter(names))
        said = refusal(await client.call_tool(tool, {f"{name}s": "x"}))
    assert f"there is no argument '{name}s' (did you mean '{name}'?)" in said
    assert f"Its arguments: {', '.join(names)}" in said


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_wrong_type_is_refused_with_what_was_given(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode) as client:
        said = refusal(await client.call_tool("evaluate_kernel", {"source": "k", "wait_s": "soon"}))
    assert "wait_s" in said
    assert "got 'soon'" in said


@pytest.mark.anyio
async def test_a_fault_of_the_server_hides_its_inside_and_the_next_call_works(tmp_path: Path, caplog):
    async with connected(tmp_path) as client:
        (tmp_path / "state" / "pool.sqlite3").rename(tmp_path / "away")
        (tmp_path / "state" / "pool.sqlite3").mkdir()
        said = refusal(await client.call_tool("evaluate_kernel", {"source": "k"}))
        (tmp_path / "state" / "pool.sqlite3").rmdir()
        (tmp_path / "away").rename(tmp_path / "state" / "pool.sqlite3")
        after = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert said == (
        "evaluate_kernel failed inside the server, which is no fault of the call. "
        "Call it again; if it fails again, the server's log on stderr says why."
    )
    assert "unable to open database file" in caplog.text
    assert after["status"] == "correct"


def full_database(*_: object) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("PRAGMA max_page_count = 1")
    db.execute("CREATE TABLE full (x)")


def full_disk(*_: object) -> None:
    raise RuntimeError("while it wrote") from OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [full_database, full_disk])
async def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch, fails):
    async with connected(tmp_path) as client:
        with monkeypatch.context() as patched:
            patched.setattr("hawkeye_mcp.pool.Pool.cached", fails)
            said = refusal(await client.call_tool("evaluate_kernel", {"source": "k"}))
        after = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert "its disk is full" in said
    assert "make room" in said
    assert after["status"] == "correct"


@pytest.mark.anyio
async def test_a_judge_that_cannot_open_is_a_harness_error_and_is_tried_again(tmp_path: Path):
    judge, attempts = FakeJudge(), []

    @asynccontextmanager
    async def opens_at_the_second_try():
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("no compiler here")
        yield judge

    built = hawkeye_server.build_server(settings(tmp_path), opens_at_the_second_try)
    with anyio.fail_after(FAIL_AFTER_S):
        async with Client(built) as client:
            await anyio.wait_all_tasks_blocked()
            found = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    assert (len(attempts), found["status"]) == (2, "correct")


@pytest.mark.anyio
async def test_a_judge_that_never_opens_says_why_in_the_log_and_to_no_client(tmp_path: Path, caplog):
    @asynccontextmanager
    async def never_opens():
        raise RuntimeError("no compiler here")
        yield

    built = hawkeye_server.build_server(settings(tmp_path), never_opens)
    with anyio.fail_after(FAIL_AFTER_S):
        async with Client(built) as client:
            found = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
            workload = await client.call_tool("read_workload", {})
    assert found["status"] == "harness_error"
    assert "no compiler here" not in str(found)
    assert "tell the operator" in found["next_step"]
    assert "no compiler here" in caplog.text
    assert not workload.is_error


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_disconnects_mid_call_stops_the_work_and_closes_the_judge(tmp_path: Path, mode):
    judge = FakeJudge()
    with anyio.fail_after(FAIL_AFTER_S):
        async with anyio.create_task_group() as tasks:
            async with Client(server(tmp_path, judge), mode=mode) as client:
                tasks.start_soon(client.call_tool, "evaluate_kernel", {"source": "# fake: hold"})
                await judge.entered.wait()
                tasks.cancel_scope.cancel()
    assert judge.cancelled == ["# fake: hold"]
    assert judge.closed


@pytest.mark.anyio
async def test_jobs_left_running_end_with_the_server_before_the_judge_closes(tmp_path: Path):
    order = []

    class Ordered(FakeJudge):
        @asynccontextmanager
        async def open(self):
            try:
                yield self
            finally:
                order.append(("closed", list(self.cancelled)))

    judge = Ordered()
    async with connected(tmp_path, judge) as client:
        data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        await judge.entered.wait()
    assert order == [("closed", ["# fake: hold"])]


@pytest.mark.anyio
@pytest.mark.parametrize("condition", conditions.CONDITIONS)
async def test_instructions_and_prompt_are_the_loop_of_the_condition(tmp_path: Path, condition):
    async with connected(tmp_path, condition=condition) as client:
        prompt = await client.get_prompt("optimize_kernel")
        instructions = client.instructions
    assert instructions == conditions.loop(condition)
    assert prompt.messages[0].content.text.endswith(conditions.loop(condition))
    assert "8p_GEMM" in prompt.messages[0].content.text


def test_building_the_server_imports_no_jax():
    code = (
        "import sys; import hawkeye_mcp.judge.evaluate, hawkeye_mcp.hosts.judge; from hawkeye_mcp.server import build_server; "
        "from hawkeye_mcp.submissions import Settings; "
        "build_server(Settings()); print(sorted({m.partition('.')[0] for m in sys.modules} & "
        "{'jax', 'jaxlib', 'libtpu', 'numpy'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--condition", "some"], "'none', 'taxonomy', 'pool', 'full'"),
        (["--tpu", "v4"], "'v5e', 'v5p', 'v6e', '7x'"),
        (["--workload", "8p_GEM"], "Nearest: 8p_GEMM"),
        (["--workspace", "/nowhere/at/all"], "is not a folder"),
        (["--max-evaluations", "-1"], "0 (no limit) or more"),
        (["--state", "/proc/nothing"], "cannot write"),
        (["--conditon", "none"], "unrecognized arguments"),
        (["--transport", "smoke"], "'stdio', 'http'"),
        (["--transport", "http", "--port", "99999"], "choose another --host or --port"),
    ],
)
def test_wrong_usage_exits_2_with_the_legal_values(capsys, arguments, said):
    with pytest.raises(SystemExit) as exited:
        server_options.parse(arguments)
    captured = capsys.readouterr()
    assert exited.value.code == 2
    assert said.replace("'", "") in captured.err.replace("'", "")
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (7, 40, "v6e")),
        (["--max-evaluations", "0", "--tpu", "v5p"], (0, 40, "v5p")),
        (["--max-evaluations", "2"], (2, 40, "v6e")),
    ],
)
def test_a_jobs_budget_and_chip_hold_unless_the_command_line_says_others(tmp_path: Path, arguments, expected):
    declared = {
        "schema": "hawkeye.job/1", "name": "mine", "input": {"type": "pytorch", "path": "nowhere.py"},
        "has_reference": False, "needs_jax_conversion": True, "conversion": {"method": "port", "port": "later.py"},
        "target": {"tpu": "v6e"}, "budget": {"evaluations": 7, "autotune_points": 40},
    }  # fmt: skip
    (tmp_path / "job.json").write_text(json.dumps(declared))
    given = ["--job", str(tmp_path / "job.json"), "--state", str(tmp_path / "state"), *arguments]
    found = server_options.parse(given).settings
    assert (found.max_evaluations, found.max_points, found.tpu) == expected


def test_a_job_that_contradicts_itself_is_told_at_the_start(tmp_path: Path, capsys):
    (tmp_path / "job.json").write_text('{"schema": "hawkeye.job/1", "budget": {"evaluations": 0}}')
    with pytest.raises(SystemExit) as exited:
        server_options.parse(["--job", str(tmp_path / "job.json")])
    said = capsys.readouterr().err
    assert exited.value.code == 2
    assert "argument --job" in said
    assert "greater than or equal to 1" in said


def test_the_defaults_are_open_and_the_log_lies_in_the_state_folder(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    found = server_options.parse([]).settings
    assert (found.condition, found.tpu, found.workload, found.max_evaluations) == ("full", "", "", 0)
    assert found.workspace == tmp_path
    assert found.state == tmp_path / "xdg" / "hawkeye-mcp"
    assert found.call_log.parent == found.state / "calls"
