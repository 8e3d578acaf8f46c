"""The Ray executor without Ray: what it asks of a cluster, and what it makes of what comes back."""

import builtins
import socket
from types import SimpleNamespace

import anyio
import pytest
from bench_fixtures import plan
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.executors import node, ray
from hawkeye_bench.executors.node import Ended, Said
from hawkeye_bench.executors.ray import Cluster, ClusterUnusable, connected
from hawkeye_bench.order import RunKey
from hawkeye_bench.schedule import WorkerLost

from hawkeye_mcp.chips import TPUS

KEY = RunKey("8p_GEMM", "none", 1)
GIB = 2.0**30
CPU_ONLY = {"CPU": 8.0, "memory": 16 * GIB}
V6E_HOST = {"CPU": 44.0, "memory": 500 * GIB, "TPU": 4.0, "accelerator_type:TPU-V6E": 1.0, "TPU-v6e-4-head": 1.0}


def test_without_ray_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ClusterUnusable, match=r"pip install 'hawkeye-mcp\[ray\]'"), connected("auto", "v5e"):
        pass


@pytest.mark.parametrize("address", ["", "localhost", ":6379", "ray://head:10001", "head:port", "http://head:6379"])
def test_an_address_of_another_kind_is_told_what_to_be(address):
    with pytest.raises(ClusterUnusable, match=r"HOST:PORT as `ray start --head` printed it, or `auto`"):
        ray.reach(address)


def test_where_nobody_listens_is_said_at_once():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen, and nobody else can
        for address in (f"127.0.0.1:{silent.getsockname()[1]}", "127.0.0.1:99999"):
            with pytest.raises(ClusterUnusable, match=f"nothing answers at {address} .*`ray status`"):
                ray.reach(address)


def test_runs_go_to_the_hosts_of_the_chip_and_take_one_chip_each():
    found = ray.look(None, [CPU_ONLY, V6E_HOST, V6E_HOST], "v6e", 2)
    assert (found.accelerator, found.machines, found.slots) == ("TPU-V6E", 2, 8)
    assert str(found) == "Ray: 2 machines, 8 at once, 2 CPUs and one v6e chip for each run."
    assert ray.look(None, [V6E_HOST], "v6e", 20).slots == 2  # by its CPUs


def test_where_no_host_has_the_chip_times_are_predicted_and_that_is_said():
    found = ray.look(None, [{"memory": GIB, "node:__internal_head__": 1.0}, CPU_ONLY, V6E_HOST], "v5e", 2)
    assert (found.accelerator, found.machines, found.slots) == (None, 2, 4 + 22)
    assert str(found).endswith("26 at once, 2 CPUs for each run. No host has v5e chips: times are predicted.")
    assert ray.look(None, [CPU_ONLY | {"memory": 7 * GIB}], "v5e", 2).slots == 2  # by its memory


def test_a_cluster_too_small_for_a_run_says_what_a_run_takes():
    with pytest.raises(ClusterUnusable, match=r"no machine of the Ray cluster has 9 CPUs and 3 GiB"):
        ray.look(None, [CPU_ONLY], "v5e", 9)
    with pytest.raises(ClusterUnusable, match=r"no machine of the Ray cluster with v6e chips has 45 CPUs"):
        ray.look(None, [CPU_ONLY | {"CPU": 64.0}, V6E_HOST], "v6e", 45)


def test_every_chip_has_a_name_that_ray_knows():
    assert set(ray.ACCELERATORS) == set(TPUS)


class RayError(Exception):
    pass


class NodeDiedError(RayError):
    pass


class WorkerCrashedError(RayError):
    pass


class RayTaskError(RayError):
    cause = OSError("no space left")


class Stream:
    """What a task's stream gives: messages, an error, or nothing for ever."""

    def __init__(self, *messages):
        self.messages = iter(messages)
        self.ended = anyio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        message = next(self.messages, StopAsyncIteration())
        if message == "hang":
            await anyio.sleep_forever()

        async def value():
            if isinstance(message, Exception):
                raise message
            return message

        if isinstance(message, StopAsyncIteration):
            raise message
        return value()

    async def completed(self):
        await self.ended.wait()


@pytest.fixture
def fake(monkeypatch):
    """A cluster whose one task is the stream that a test sets; what was asked of it is kept."""
    asked = SimpleNamespace(stream=None, options=None, given=None, cancelled=[])

    def remote(**options):
        asked.options = options

        def start(*given):
            asked.given = given
            return asked.stream

        return lambda function: SimpleNamespace(remote=start)

    def cancel(stream, force):
        asked.cancelled.append(force)
        if force:
            stream.ended.set()

    errors = SimpleNamespace(
        RayError=RayError,
        NodeDiedError=NodeDiedError,
        WorkerCrashedError=WorkerCrashedError,
        RayTaskError=RayTaskError,
    )
    module = SimpleNamespace(remote=remote, cancel=cancel, exceptions=errors)
    asked.cluster = Cluster(module, "v5e", cpus=3, machines=1, slots=1, accelerator=None)
    return asked


def doing(cluster, out, agent=None):
    spec = agent or AgentSpec()
    return ray.doing(cluster, plan(model="builtin"), spec, out)


async def done(fake, out, *messages):
    said = []
    fake.stream = Stream(*messages)
    return await doing(fake.cluster, out)(KEY, said.append), said


@pytest.mark.anyio
async def test_a_run_takes_its_cpus_and_is_never_repeated_by_ray_itself(fake, tmp_path):
    with pytest.raises(WorkerLost, match="its process on there ended with 7 and left no record; see workers/"):
        await done(fake, tmp_path, "there", Ended(7, "a traceback\n", None))
    memory = 3 * 2**30
    assert fake.options == {
        "num_cpus": 3,
        "memory": memory,
        "num_returns": "streaming",
        "max_retries": 0,
        "max_calls": 1,
    }
    assert "a traceback" in (tmp_path / "workers" / "8p_GEMM-none-1.log").read_text()
    fake.cluster = Cluster(fake.cluster.ray, "v6e", 2, 1, 1, "TPU-V6E")
    with pytest.raises(WorkerLost):
        await done(fake, tmp_path, "there", Ended(7, "", None))
    assert fake.options["accelerator_type"] == "TPU-V6E" and fake.options["resources"] == {"TPU": 1}


@pytest.mark.anyio
async def test_a_job_carries_no_path_of_this_machine_and_no_secret(fake, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY_OF_MODEL", "hidden")
    fake.stream = Stream("there", Ended(1, "", None))
    spec = AgentSpec(model="m", base_url="http://model/v1", api_key_env="KEY_OF_MODEL")
    with pytest.raises(WorkerLost):
        await doing(fake.cluster, tmp_path, spec)(KEY, lambda text: None)
    job, expected, secrets, worked = fake.given
    assert "hidden" not in job and "server" not in job and str(tmp_path) not in job
    assert (secrets, worked) == ({"KEY_OF_MODEL": "hidden"}, None)
    assert expected == node.installation(KEY.workload)


@pytest.mark.anyio
async def test_a_machine_that_cannot_do_it_ends_the_whole_and_is_named(fake, tmp_path):
    run, said = await done(fake, tmp_path, "there", "libtpu is 0.0.1, not 0.0.52")
    assert (run.status, run.stop) == ("broken", "misconfigured")
    assert run.error == "there: libtpu is 0.0.1, not 0.0.52"
    assert said == ["waiting for a machine of the cluster", "on there"]
    assert not KEY.folder(tmp_path).exists()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (["there", Said("step"), NodeDiedError()], "^there is gone"),
        ([NodeDiedError()], "^a machine of the cluster is gone"),
        (["there", WorkerCrashedError()], "^Ray's process on there died"),
        (["there", RayTaskError()], r"^the run failed on there: OSError\('no space left'\)"),
        (["there", RayError("lost\nmore")], "^Ray lost the run on there: RayError: lost$"),
        (["there"], "^there said nothing of how the run ended"),
        (["there", Ended(0, "", b"no parcel")], "^what there sent back is no run: it cannot be unpacked"),
    ],
)
async def test_whatever_is_lost_is_to_be_tried_again(fake, tmp_path, messages, words):
    with pytest.raises(WorkerLost, match=words):
        await done(fake, tmp_path, *messages)
    assert not KEY.folder(tmp_path).exists()


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_is_asked_to_end_and_then_killed(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "_MARGIN_S", 0.0)
    monkeypatch.setattr(node, "GRACE_S", 0.0)
    said = []
    fake.stream = Stream("there", "hang")

    async with anyio.create_task_group() as group:

        def progress(text):
            said.append(text)
            if text == "on there":
                group.cancel_scope.cancel()

        group.start_soon(doing(fake.cluster, tmp_path), KEY, progress)
    assert said[-1] == "on there"
    assert fake.cancelled == [False, True]


def test_what_was_arriving_when_a_bench_was_killed_is_removed(fake, tmp_path):
    (tmp_path / "arriving" / "0123" / "run").mkdir(parents=True)
    doing(fake.cluster, tmp_path)
    assert not (tmp_path / "arriving").exists()
