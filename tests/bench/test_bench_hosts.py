"""A bench that is judged on registered hosts: which ones will do, what plan and records say, what is never mixed."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from bench_fixtures import plan
from hawkeye_bench import driver, hosts, preregistration, report, runs, status, worker
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.analysis import Choices, analyse
from hawkeye_bench.cli import app
from hawkeye_bench.executors import local
from hawkeye_bench.hosts import HostsUnusable
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import PlannedHost
from small_workloads import write
from synthetic_runs import run as recorded
from typer.testing import CliRunner

from hawkeye_mcp import calllog, workloads
from hawkeye_mcp.hosts import choosing, health, registry
from hawkeye_mcp.hosts.errors import HostFailed
from hawkeye_mcp.hosts.registry import Host

sys.path.append(str(Path(__file__).parents[1] / "hosts"))
from hosting import TOKENS, served

KEY = RunKey("8p_GEMM", "none", 1)
FAIL_AFTER_S = 120
PREDICTING = PlannedHost(address="http://tpu-1:8931", tpus=[])


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAWKEYE_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


def answering(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """Register hosts that answer so: with the chips that they have, or with a fault."""
    found = {}
    for name, answer in answers.items():
        registry.add(name, Host(url=f"http://{name}:8931"))
        found[name] = health.here(0, 0).model_copy(update={"tpus": answer}) if isinstance(answer, list) else answer

    async def asked(hosts: dict[str, Host]) -> dict[str, Any]:
        return {name: found[name] for name in hosts}

    monkeypatch.setattr(choosing, "asked", asked)


def test_the_plan_has_the_hosts_with_their_chips_and_it_is_said_where_times_come_from(monkeypatch):
    answering(monkeypatch, a=["v5e", "v5e"], b=["v5e"], c=[])
    found = hosts.look("a,b", "v5e")
    assert found["a"] == PlannedHost(address="http://a:8931", tpus=["v5e", "v5e"])
    assert hosts.words(found, "v5e") == "Judged on a (http://a:8931), b (http://b:8931): times are measured."
    assert hosts.words(hosts.look("b,c", "v6e"), "v6e").endswith("times are predicted.")
    with pytest.raises(HostsUnusable, match="a, b would measure on v5e and c predict.*name hosts of one kind"):
        hosts.look("all", "v5e")


def test_a_host_that_will_not_do_is_told_with_the_reason(monkeypatch):
    older = health.here(0, 0).model_copy(update={"judge": "0" * 64})
    away = HostFailed("unreachable", "it cannot be reached: refused")
    answering(monkeypatch, old=older, away=away, good=[])
    with pytest.raises(HostsUnusable) as told:
        hosts.look("all", "v5e")
    assert str(told.value).startswith("old: it has the judge 000000000000 (here ")
    assert str(told.value).endswith(". away: it cannot be reached: refused")
    with pytest.raises(HostsUnusable, match="There is no host 'goot'. Did you mean good"):
        hosts.look("goot", "v5e")
    registry.add("secret", Host(url="http://secret:8931", token_env="HERE"))
    with pytest.raises(HostsUnusable, match="in the variable HERE, which the servers of agents are not given"):
        hosts.look("secret", "v5e")


def test_a_folder_goes_on_with_the_same_hosts_alone(tmp_path: Path):
    runs.keep_plan(tmp_path, plan(hosts={"tpu-1": PREDICTING}))
    assert runs.keep_plan(tmp_path, plan(hosts={"tpu-1": PREDICTING}, reps=2)).reps == 2
    measuring = PREDICTING.model_copy(update={"tpus": ["v5e"]})
    for others in (None, {"tpu-1": measuring}, {"tpu-1": PREDICTING, "tpu-2": PREDICTING}):
        with pytest.raises(runs.PlanDiffers, match="hosts .*tpu-1"):
            runs.keep_plan(tmp_path, plan(hosts=others))
    assert status.read(tmp_path).hosts == ["tpu-1"]


def test_a_plan_of_a_version_that_knew_no_hosts_goes_on(tmp_path: Path):
    older = plan().model_dump(mode="json")
    del older["hosts"]
    (tmp_path / "plan.json").write_text(json.dumps(older))
    assert runs.keep_plan(tmp_path, plan()).hosts is None


def test_who_judged_is_held_against_the_registered_plan(tmp_path: Path):
    the_plan = plan(workloads=["w0"], reps=5, hosts={"tpu-1": PREDICTING})
    registration = preregistration.preregister(tmp_path, the_plan, Choices())
    later = {"started": "2999-01-01T00:00:00+00:00"}
    found = [
        recorded(repeat=1, judged_again="correct", judged_on="tpu-1", **later),
        recorded(repeat=2, judged_again="correct", judged_on="tpu-2", **later),
        recorded(repeat=3, judged_again="correct", **later),
        recorded(repeat=4, status="no_kernel", **later),
        recorded(repeat=5, judged_again="incorrect", status="not_confirmed", judged_on="tpu-1", **later),
    ]
    said = preregistration.deviations(registration, the_plan, Choices(), found)
    assert said == ["2 runs had another agent, model, chip, version or host: w0 none #2, w0 none #3."]
    changed = the_plan.model_copy(update={"hosts": None})
    assert any("hosts: " in one for one in preregistration.deviations(registration, changed, Choices(), found))


def test_reports_name_the_hosts():
    found = [
        recorded(repeat=1, judged_on="b"),
        recorded(repeat=2, judged_on="a"),
        recorded(repeat=3, judged_on="b"),
        recorded("w0", "taxonomy", 1, judged_on="a", status="broken"),
    ]
    said = "The best kernels were judged on a (1x), b (2x), registered hosts."
    assert said in report.summarise(found).remarks
    assert said in analyse(found, Choices()).remarks
    assert not hosts.told([recorded()])


def test_an_agents_server_is_told_the_hosts_and_where_they_are_registered(tmp_path: Path, config: Path, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    both = {"tpu-1": PREDICTING, "tpu-2": PREDICTING}
    found = driver._server(plan(hosts=both), tmp_path, tmp_path, KEY, ["hawkeye-mcp"])
    assert found.args[found.args.index("--judge-host") + 1] == "tpu-1,tpu-2"
    assert (found.env["HAWKEYE_CONFIG"], found.env["SSH_AUTH_SOCK"]) == (str(config), "/run/agent")
    assert "SOME_TOKEN" not in found.env
    assert "--judge-host" not in driver._server(plan(), tmp_path, tmp_path, KEY, ["hawkeye-mcp"]).args


@pytest.mark.anyio
async def test_hosts_that_are_registered_otherwise_now_end_the_bench(tmp_path: Path):
    registry.add("tpu-1", Host(url="http://elsewhere:8931"))
    for hosts_now, words in (
        ({"tpu-1": PREDICTING}, "tpu-1 is http://elsewhere:8931 now and was http://tpu-1:8931 when the bench began"),
        ({"gone": PREDICTING}, "There is no host 'gone'"),
    ):
        job = worker.Job(plan=plan(hosts=hosts_now), agent=AgentSpec(), out=tmp_path, **KEY._asdict())
        await worker.work(job, lambda text: None)
        broken = runs.Run.model_validate_json((KEY.folder(tmp_path) / "broken.json").read_bytes())
        assert (broken.status, broken.stop) == ("broken", "misconfigured")
        assert words in broken.error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--executor", "ray", "--address", "auto", "--host", "tpu-1"], "judged where they are done"),
        (["--host", "tpu-2"], "There is no host 'tpu-2'"),
        (["--host", "tpu-1"], "tpu-1: it cannot be reached"),
        (["--host", ""], "'' names no host. Registered: tpu-1"),
    ],
)
def test_hosts_that_cannot_judge_are_wrong_usage(tmp_path: Path, options, words):
    registry.add("tpu-1", Host(url="http://127.0.0.1:1"))
    done = CliRunner().invoke(app, [*options, "--workloads", "8p_GEMM", "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.replace("│", "").split())
    assert not (tmp_path / "out").exists()


@pytest.mark.anyio
async def test_a_run_is_judged_on_the_host_in_its_session_and_again_at_its_end(tmp_path: Path):
    kernels, out = tmp_path / "kernels", tmp_path / "out"
    (kernels / KEY.workload).mkdir(parents=True)
    (kernels / KEY.workload / "1.py").write_text("# fake: measured\n# fake: within 1.2\n")
    with anyio.fail_after(FAIL_AFTER_S):
        async with served(tmp_path / "there", TOKENS, condition="full") as host:
            registry.add("tpu-1", host.host("alice"))
            found = await anyio.to_thread.run_sync(hosts.look, "tpu-1", "v5e")
            the_plan = plan(agent="replay", model="", hosts=found)
            do = local.doing(the_plan, AgentSpec(agent="replay", kernels=str(kernels)), out)
            run = await do(KEY, lambda text: None)
            told = [(job.kind, job.owner) for job in host.jobs]
    assert found["tpu-1"].address == host.url
    assert (run.status, run.source, run.speedup, run.judged_on) == ("correct", "measured", 2.0, "tpu-1")
    # Of the host, whose judge stands in for a real one; this machine ran no kernel.
    assert run.isolation == "rlimits"
    assert len(host.judge.judged) == 2, "the last judgement is made anew"
    assert told == [("evaluate", "alice")] * 2
    log = calllog.read(KEY.folder(out) / "calls.jsonl")
    assert [line["judged_on"] for line in log if line["event"] == "verdict"] == ["tpu-1"]
    assert log[0]["judge_hosts"] == ["tpu-1"]
    assert TOKENS["alice"] not in (KEY.folder(out) / "calls.jsonl").read_text()


def test_a_workload_that_no_host_takes_is_told_before_anything_is_run(tmp_path: Path, monkeypatch):
    answering(monkeypatch, good=[])
    with pytest.raises(HostsUnusable, match="good: A host takes only workloads that `hawkeye job import` wrote"):
        hosts.look("good", "v5e", [write(tmp_path)])
    assert hosts.look("good", "v5e", [workloads.find("8p_GEMM")])
