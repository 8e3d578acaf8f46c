import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_judge import INSIDE, FakeJudge
from serving import ERAS, Waiting, connected, data, refusal, text

from hawkeye_mcp import calllog, pool
from hawkeye_mcp.evaluation import Status
from hawkeye_mcp.submissions import App
from hawkeye_mcp.tools import answering, reports

STATUSES = Status.__args__


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_verdict_has_its_numbers_and_a_link_to_the_whole(tmp_path: Path, mode):
    async with connected(tmp_path, mode=mode) as client:
        result = await client.call_tool("evaluate_kernel", {"source": "# fake: correct\n# fake: speedup 4"})
        found = data(result)
        whole = await client.read_resource(result.content[1].uri)
    assert found["status"] == "correct"
    assert (found["speedup"], found["candidate_us"], found["baseline_us"]) == (4.0, 25.0, 100.0)
    assert found["source"] == "predicted"
    assert found["correctness"].startswith("ok: E <= 0.01, 3 seeds, check size; output 0 bfloat16[128, 128]: E=0.001")
    assert found["audit"] == "ok: kernels matmul grid [4, 4] x1; outside: stablehlo.add x2"
    assert found["diagnosis"] == ["MXU busy 12 %", "HBM busy 80 %"]
    assert (found["isolation"], found["artifact_sha256"]) == ("rlimits", "a" * 64)
    assert found["cached"] is False
    assert found["truncated"] is False
    assert result.content[1].uri == found["full"] == f"evaluation://{found['evaluation_id']}"
    assert f'"id": "{found["evaluation_id"]}"' in whole.contents[0].text


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["evaluate_kernel", "profile"])
async def test_what_is_only_a_bound_is_marked_as_one(tmp_path: Path, tool):
    async with connected(tmp_path) as client:
        plain = data(await client.call_tool(tool, {"source": "# plain"}))
        floor = data(await client.call_tool(tool, {"source": "# fake: baseline_lower_bound"}))
        least = data(await client.call_tool(tool, {"source": "# fake: lower_bound"}))
    bounds = [(x["lower_bound"], x["baseline_lower_bound"]) for x in (plain, floor, least)]
    assert bounds == [(False, False), (False, True), (True, False)]
    verdicts = [x for x in calllog.read(tmp_path / "log" / "calls.jsonl") if x["event"] == "verdict"]
    assert [(x["lower_bound"], x["baseline_lower_bound"]) for x in verdicts] == bounds


@pytest.mark.anyio
@pytest.mark.parametrize("status", STATUSES)
async def test_every_status_passes_through_and_the_next_evaluation_works(tmp_path: Path, status):
    async with connected(tmp_path) as client:
        found = data(await client.call_tool("evaluate_kernel", {"source": f"# fake: {status}"}))
        after = data(await client.call_tool("evaluate_kernel", {"source": "# another"}))
    assert found["status"] == status
    assert found["message"]
    assert found["next_step"]
    assert (found["speedup"] is None) == (status != "correct")
    assert after["status"] == "correct"


@pytest.mark.anyio
async def test_the_same_text_is_judged_once_even_by_another_server_on_the_same_state(tmp_path: Path):
    first, second = FakeJudge(), FakeJudge()
    async with connected(tmp_path, first) as client:
        one = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        again = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
    async with connected(tmp_path, second) as client:
        later = data(await client.call_tool("evaluate_kernel", {"source": "k"}))
        other = data(await client.call_tool("evaluate_kernel", {"source": "k "}))
    assert (first.judged, second.judged) == (["k"], ["k "])
    assert [r["cached"] for r in (one, again, later, other)] == [False, True, True, False]
    assert one["evaluation_id"] == again["evaluation_id"] == later["evaluation_id"] != other["evaluation_id"]
    assert {**one, "cached": True, "job_id": ""} == again


@pytest.mark.anyio
@pytest.mark.parametrize("status", ["timeout", "harness_error"])
async def test_what_says_nothing_of_the_kernel_is_judged_again(tmp_path: Path, status):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        for _ in range(2):
            data(await client.call_tool("evaluate_kernel", {"source": f"# fake: {status}"}))
    assert len(judge.judged) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_identical_calls_in_flight_share_one_judgement(tmp_path: Path, mode):
    judge = FakeJudge()
    async with connected(tmp_path, judge, mode) as client:
        calls = [Waiting(client, "evaluate_kernel", {"source": "# fake: hold"}) for _ in range(3)]
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(call)
            for call in calls:
                await call.waits.wait()
            judge.release.set()
    found = [data(call.result) for call in calls]
    assert judge.judged == ["# fake: hold"]
    assert len({f["job_id"] for f in found}) == len({f["evaluation_id"] for f in found}) == 1
    assert not any(f["cached"] for f in found)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_too_short_a_wait_answers_running_and_the_job_gives_the_verdict(tmp_path: Path, mode):
    judge = FakeJudge()
    async with connected(tmp_path, judge, mode) as client:
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        assert running["status"] == "running"
        assert running["job_id"] in running["next_step"]
        assert running["evaluation_id"] == running["full"] == ""
        judge.release.set()
        done = data(await client.call_tool("job", {"job_id": running["job_id"]}))
    assert done["status"] == "correct"
    assert done["job_id"] == running["job_id"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_waiting_client_gets_rising_heartbeats_with_the_stage(tmp_path: Path, mode):
    judge, beats, enough = FakeJudge(), [], anyio.Event()

    async def on_progress(value: float, total: float | None, message: str | None) -> None:
        beats.append((value, total, message))
        if len(beats) >= 5 and message == "trace":
            enough.set()

    async with connected(tmp_path, judge, mode) as client:
        async with anyio.create_task_group() as tasks:

            async def call():
                await client.call_tool("evaluate_kernel", {"source": "# fake: hold"}, progress_callback=on_progress)

            tasks.start_soon(call)
            await enough.wait()
            judge.release.set()
    values = [value for value, _, _ in beats]
    assert values == sorted(set(values))
    assert "trace" in {message for _, _, message in beats}
    assert {total for _, total, _ in beats} == {None}


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_gives_up_stops_the_work_and_the_server_goes_on(tmp_path: Path, mode):
    judge = FakeJudge()
    async with connected(tmp_path, judge, mode) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "evaluate_kernel", {"source": "# fake: hold"})
            await judge.entered.wait()
            tasks.cancel_scope.cancel()
        await judge.was_cancelled.wait()
        after = data(await client.call_tool("evaluate_kernel", {"source": "# fine"}))
    assert judge.cancelled == ["# fake: hold"]
    assert after["status"] == "correct"


@pytest.mark.anyio
async def test_a_client_that_gives_up_does_not_take_the_verdict_from_another_waiting_one(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        stays, leaves = (Waiting(client, "evaluate_kernel", {"source": "# fake: hold"}) for _ in range(2))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stays)
            await stays.waits.wait()
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(leaves)
                await leaves.waits.wait()
                leaving.cancel_scope.cancel()
            # The server has seen the cancellation once it answers the next call.
            await client.call_tool("read_workload", {})
            judge.release.set()
    assert judge.cancelled == []
    assert data(stays.result)["status"] == "correct"


@pytest.mark.anyio
async def test_a_job_whose_id_was_told_survives_its_callers(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        await judge.entered.wait()
        calls = [
            Waiting(client, "evaluate_kernel", {"source": "# fake: hold"}),
            Waiting(client, "job", {"job_id": running["job_id"]}),
        ]
        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(call)
            for call in calls:
                await call.waits.wait()
            tasks.cancel_scope.cancel()
        await client.call_tool("read_workload", {})
        judge.release.set()
        done = data(await client.call_tool("job", {"job_id": running["job_id"]}))
    assert judge.cancelled == []
    assert done["status"] == "correct"


async def past_its_deadline(folder: Path, judge: FakeJudge, source: str) -> dict[str, Any]:
    """The report of a job whose deadline comes while its kernel is being judged, however long that took to begin."""
    opened: list[App] = []
    async with connected(folder, judge, on_opened=opened.append) as client, anyio.create_task_group() as tasks:
        call = Waiting(client, "evaluate_kernel", {"source": source})
        tasks.start_soon(call)
        await judge.entered.wait()
        (job,) = opened[0].jobs._by_id.values()
        job.scope.deadline = anyio.current_time()
    return data(call.result)


@pytest.mark.anyio
async def test_a_job_past_its_deadline_is_stopped_and_says_so(tmp_path: Path):
    judge = FakeJudge()
    found = await past_its_deadline(tmp_path, judge, "# fake: hold")
    assert found["status"] == "timeout"
    assert "deadline" in found["message"]
    assert "cheaper to compile" in found["next_step"]
    assert judge.cancelled == ["# fake: hold"]


@pytest.mark.anyio
async def test_a_deadline_while_verifying_asks_for_the_check_size_not_for_a_cheaper_compile(tmp_path: Path):
    found = await past_its_deadline(tmp_path, FakeJudge(), "# fake: stage verify\n# fake: hold")
    assert found["status"] == "timeout"
    assert "'verify'" in found["message"]
    assert found["next_step"].startswith("Make it traceable at the check size")
    assert "compile" not in found["next_step"]


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["evaluate_kernel", "profile"])
@pytest.mark.parametrize("fault", ["crash", "harness_error"])
async def test_a_fault_of_the_judge_is_for_the_operator_not_for_the_client(tmp_path: Path, tool, fault, caplog):
    async with connected(tmp_path, max_evaluations=1) as client:
        result = await client.call_tool(tool, {"source": f"# fake: {fault}"})
        found = data(result)
        whole = await client.read_resource(found["full"]) if found["full"] else None
        after = data(await client.call_tool("evaluate_kernel", {"source": "# fine"}))
    told = text(result) + (whole.model_dump_json() if whole else "")
    assert found["status"] == "harness_error"
    assert "secret" not in told
    assert "hawkeye doctor" not in told
    assert "tell the operator" in found["next_step"]
    assert (found["full"] != "") is (fault == "harness_error")
    assert found.get("evaluations_left", 1) == 1
    assert after["status"] == "correct"
    log = (tmp_path / "log" / "calls.jsonl").read_text()
    assert INSIDE in (caplog.text if fault == "crash" else log)


@pytest.mark.anyio
async def test_a_path_inside_the_workspace_is_read(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        folder = tmp_path / "workspace" / "sub"
        folder.mkdir()
        (folder / "k.py").write_text("# é\n", encoding="utf-8")
        relative = data(await client.call_tool("evaluate_kernel", {"path": "sub/k.py"}))
        absolute = data(await client.call_tool("evaluate_kernel", {"path": str(folder / "k.py")}))
    assert judge.judged == ["# é\n"]
    assert relative["evaluation_id"] == absolute["evaluation_id"]
    assert relative["kernel_sha256"] == pool.sha256("# é\n")
    kept = tmp_path / "log" / "kernels" / f"{relative['kernel_sha256']}.py"
    assert kept.read_bytes() == "# é\n".encode()


@pytest.mark.anyio
async def test_a_path_that_leaves_the_workspace_is_refused(tmp_path: Path):
    judge = FakeJudge()
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n")
    async with connected(tmp_path, judge) as client:
        workspace = tmp_path / "workspace"
        (workspace / "link.py").symlink_to(outside)
        (workspace / "folder").symlink_to(tmp_path)
        for path in ("../outside.py", str(outside), "link.py", "folder/outside.py", "/etc/passwd"):
            assert "outside the workspace" in refusal(await client.call_tool("evaluate_kernel", {"path": path}))
    assert judge.judged == []


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["the repository", "an installed copy", "the state folder", "the kept kernels"])
async def test_the_servers_own_files_are_refused_although_the_workspace_holds_them(tmp_path: Path, place):
    """A SyntaxError quotes its line, so a file that could be judged could be read, condition or not."""
    judge, workspace = FakeJudge(), tmp_path / "workspace"
    installed = workspace / ".venv/lib/python3.11/site-packages/hawkeye_mcp/_content/taxonomy/v5e/01_mxu_feed"
    if place == "the repository":
        workspace = Path(__file__).parents[2]
        files = [
            workspace / "taxonomy/v5e/01_mxu_feed/optimized_kernel.py",
            workspace / "hawkeye_mcp/judge/evaluate.py",
        ]
        files += [workspace / "workloads/8p_GEMM/workload.py", workspace / "taxonomy/v5e/01_mxu_feed/guide.md"]
    elif place == "an installed copy":
        files = [installed / "naive_kernel.py"]
    elif place == "the state folder":
        files = [workspace / "state" / "x.py"]
    else:
        files = [workspace / "log" / "kernels" / "x.py"]
    changed = {"workspace": workspace, "state": tmp_path / "workspace" / "state"}
    async with connected(tmp_path, judge, call_log=tmp_path / "workspace/log/calls.jsonl", **changed) as client:
        for file in files:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("this is no Python\n")
            for tool in ("evaluate_kernel", "profile"):
                assert "is outside the workspace" in refusal(await client.call_tool(tool, {"path": str(file)}))
        beside = workspace / "tests/kernels/8p_GEMM.py" if place == "the repository" else workspace / "k.py"
        if not beside.exists():
            beside.write_text("# a kernel")
        data(await client.call_tool("evaluate_kernel", {"path": str(beside)}))
    assert judge.judged == [beside.read_text()]


@pytest.mark.anyio
async def test_only_python_files_are_kernels_also_behind_a_link(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        workspace = tmp_path / "workspace"
        (workspace / "notes.md").write_text("words\n")
        (workspace / "link.py").symlink_to(workspace / "notes.md")
        for path in ("notes.md", "link.py", ".", "absent"):
            assert "is no .py file" in refusal(await client.call_tool("evaluate_kernel", {"path": path}))
    assert judge.judged == []


@pytest.mark.anyio
async def test_a_file_that_is_no_kernel_text_is_refused(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        workspace = tmp_path / "workspace"
        (workspace / "latin.py").write_bytes(b"# \xe9\n")
        (workspace / "large.py").write_bytes(b"#" * 1_000_001)
        (workspace / "folder.py").mkdir()
        os.mkfifo(workspace / "pipe.py")
        for path, why in (
            ("latin.py", "not UTF-8"),
            ("large.py", "larger than 1000000 bytes"),
            ("folder.py", "no file"),
            ("pipe.py", "no file"),
            ("absent.py", "no file"),
            ("nul\0.py", "no usable path"),
        ):
            assert why in refusal(await client.call_tool("evaluate_kernel", {"path": path}))
        assert "1000001 bytes" in refusal(await client.call_tool("evaluate_kernel", {"source": "#" * 1_000_001}))
    assert judge.judged == []


@pytest.mark.anyio
async def test_exactly_one_of_source_and_path_is_asked_for(tmp_path: Path):
    async with connected(tmp_path) as client:
        neither = refusal(await client.call_tool("evaluate_kernel", {}))
        both = refusal(await client.call_tool("evaluate_kernel", {"source": "x", "path": "y"}))
    assert "neither was given" in neither
    assert "both were given" in both


@pytest.mark.anyio
async def test_what_is_pinned_cannot_be_changed(tmp_path: Path):
    async with connected(tmp_path) as client:
        other = refusal(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "12p_RMSNorm"}))
        chip = refusal(await client.call_tool("evaluate_kernel", {"source": "x", "tpu": "v6e"}))
        same = data(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "8p_GEMM", "tpu": "v5e"}))
    assert "only the workload '8p_GEMM'" in other
    assert "only for v5e" in chip
    assert same["status"] == "correct"


@pytest.mark.anyio
async def test_without_pins_the_call_names_the_workload_and_may_name_the_tpu(tmp_path: Path):
    async with connected(tmp_path, workload="", tpu="") as client:
        unnamed = refusal(await client.call_tool("evaluate_kernel", {"source": "x"}))
        unknown = refusal(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "8p_GEM"}))
        chip = refusal(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "8p_GEMM", "tpu": "v4"}))
        default = data(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "8p_GEMM"}))
        named = data(await client.call_tool("evaluate_kernel", {"source": "x", "workload": "12p_RMSNorm", "tpu": "7x"}))
    assert "8p_GEMM" in unnamed
    assert "Nearest: 8p_GEMM" in unknown
    assert "v5e, v5p, v6e, 7x" in chip
    assert (default["workload"], default["tpu"]) == ("8p_GEMM", "v5e")
    assert (named["workload"], named["tpu"], named["cached"]) == ("12p_RMSNorm", "7x", False)


@pytest.mark.anyio
async def test_a_budget_counts_verdicts_and_refuses_when_spent(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge, max_evaluations=2) as client:
        left = []
        for source in ("# fake: incorrect", "# fake: harness_error", "# fake: incorrect", "# a", "# b", "# a"):
            left.append(data(await client.call_tool("evaluate_kernel", {"source": source})))
        profiled = data(await client.call_tool("profile", {"source": "# b"}))
    assert [x["evaluations_left"] for x in left] == [1, 1, 1, 0, 0, 0]
    assert [x["status"] for x in left] == [
        "incorrect",
        "harness_error",
        "incorrect",
        "correct",
        "budget_spent",
        "correct",
    ]
    assert left[5]["cached"] is True
    assert profiled["status"] == "profiled"
    assert "# b" not in judge.judged[:-1]


@pytest.mark.anyio
async def test_a_budget_survives_a_restart_on_the_same_log_and_counts_what_is_running(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge, max_evaluations=2) as client:
        data(await client.call_tool("evaluate_kernel", {"source": "# a"}))
    async with connected(tmp_path, judge, max_evaluations=2) as client:
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        spent = data(await client.call_tool("evaluate_kernel", {"source": "# b"}))
        shared = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
    assert running["evaluations_left"] == 0
    assert spent["status"] == "budget_spent"
    assert shared["job_id"] == running["job_id"]


@pytest.mark.anyio
@pytest.mark.parametrize("tool", ["evaluate_kernel", "profile"])
async def test_an_answer_is_cut_to_what_every_client_shows_whole(tmp_path: Path, tool):
    async with connected(tmp_path) as client:
        result = await client.call_tool(tool, {"source": "# fake: huge\n# fake: correct"})
        found = data(result)
        whole = json.loads((await client.read_resource(result.content[1].uri)).contents[0].text)
    assert found["truncated"] is True
    assert len(text(result).encode()) < 12_000
    assert result.content[1].uri == found["full"]
    if tool == "evaluate_kernel":
        assert len(found["compiler_message"]) > 300
        assert "characters cut" in found["message"]
        assert found["full"] == f"evaluation://{found['evaluation_id']}"
        assert whole["id"] == found["evaluation_id"]
    else:
        assert found["full"] == f"profile://{found['job_id']}"
        assert len(found["counters"]) < len(whole["counters"]) == 900


@pytest.mark.anyio
async def test_waits_are_clamped_not_refused(tmp_path: Path):
    async with connected(tmp_path) as client:
        assert data(await client.call_tool("evaluate_kernel", {"source": "a", "wait_s": 1e9}))["status"] == "correct"
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": -5}))
    assert running["status"] == "running"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("name", ["mcp", "claude-ai", "cursor-vscode", *sorted(answering.PATIENT_CLIENTS)])
async def test_only_clients_known_to_wait_are_kept_waiting(tmp_path: Path, name, mode, monkeypatch):
    # Instead of a minute of waiting: where the bound of unknown clients holds, the answer comes at once.
    monkeypatch.setattr(answering, "CAUTIOUS_WAIT_S", 0.0)
    judge = FakeJudge()
    async with connected(tmp_path, judge, mode, client_name=name) as client:
        call = Waiting(client, "evaluate_kernel", {"source": "# fake: hold", "wait_s": 280})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            if name in answering.PATIENT_CLIENTS:
                await call.waits.wait()
                judge.release.set()
    assert data(call.result)["status"] == ("correct" if name in answering.PATIENT_CLIENTS else "running")


def test_the_wait_of_unknown_clients_ends_before_most_of_them_give_up():
    assert answering.DEFAULT_WAIT_S < answering.CAUTIOUS_WAIT_S < 60
    assert answering.LONGEST_WAIT_S < 300


@pytest.mark.anyio
async def test_two_servers_at_once_on_one_state_judge_one_text_once(tmp_path: Path):
    first, second, found = FakeJudge(), FakeJudge(), []
    (tmp_path / "other").mkdir()
    async with (
        connected(tmp_path, first) as one,
        connected(tmp_path / "other", second, state=tmp_path / "state") as two,
        anyio.create_task_group() as tasks,
    ):

        async def call(client):
            found.append(data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold"})))

        tasks.start_soon(call, one)
        await first.entered.wait()
        tasks.start_soon(call, two)
        await anyio.wait_all_tasks_blocked()
        first.release.set()
    assert (len(first.judged), len(second.judged)) == (1, 0)
    assert found[0]["evaluation_id"] == found[1]["evaluation_id"]


@pytest.mark.anyio
async def test_the_log_tells_the_verdict_even_when_nobody_waited_for_it(tmp_path: Path):
    judge = FakeJudge()
    async with connected(tmp_path, judge) as client:
        running = data(await client.call_tool("evaluate_kernel", {"source": "# fake: hold", "wait_s": 0}))
        judge.release.set()
        await client.call_tool("job", {"job_id": running["job_id"]})
    verdict = next(x for x in calllog.read(tmp_path / "log" / "calls.jsonl") if x["event"] == "verdict")
    assert verdict["job_id"] == running["job_id"]
    assert (verdict["status"], verdict["speedup"]) == ("correct", 2.0)
    assert (verdict["cached"], verdict["lower_bound"]) == (False, False)


@pytest.mark.anyio
async def test_a_cached_verdict_is_on_record_in_the_session_that_got_it_and_spends_nothing(tmp_path: Path):
    source = "# fake: correct\n# fake: speedup 3\n# fake: lower_bound\n"
    async with connected(tmp_path) as client:
        data(await client.call_tool("evaluate_kernel", {"source": source}))
    own_log = {"call_log": tmp_path / "another" / "calls.jsonl"}
    async with connected(tmp_path, max_evaluations=1, **own_log) as client:
        cached = [data(await client.call_tool("evaluate_kernel", {"source": source})) for _ in range(2)]
    log = calllog.read(tmp_path / "another" / "calls.jsonl")
    verdicts = [line for line in log if calllog.is_verdict(line)]
    assert [x["evaluations_left"] for x in cached] == [1, 1]
    assert [(x["cached"], x["status"], x["speedup"], x["lower_bound"]) for x in verdicts] == [
        (True, "correct", 3, True)
    ] * 2
    assert verdicts[0]["kernel_sha256"] == pool.sha256(source)
    assert (tmp_path / "another" / "kernels" / f"{pool.sha256(source)}.py").read_text() == source


def test_a_report_that_fits_is_left_alone():
    report = reports.EvaluationReport(status="correct", message="m" * 5000, next_step="n")
    assert reports.fit(report) is report
