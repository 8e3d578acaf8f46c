"""Runs on the machines of a Ray cluster that is there already: one task for each run.

A machine does its run in a temporary folder and sends it back; it gets its place in OUT in one step, so a machine that
is lost leaves nothing behind. Where the cluster has hosts of the plan's chip, as Ray itself names chips, each run gets
one chip of such a host; otherwise runs take CPUs alone. Secrets that the agent's options name travel with the task,
over the cluster's own connections.
"""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from hawkeye_bench import runs
from hawkeye_bench.agents.choose import AgentSpec, make
from hawkeye_bench.driver import Progress, misconfigured
from hawkeye_bench.executors import node, parcel
from hawkeye_bench.order import RunKey
from hawkeye_bench.runs import Plan, Run
from hawkeye_bench.schedule import Do, WorkerLost
from hawkeye_bench.worker import Job

# What a run takes of a machine, as of this one with the local executor.
CPUS, MEMORY_BYTES = 2, 3 * 2**30
# Ray's names (ray.util.accelerators). A TPU host has the resource "accelerator_type:NAME" and, for its chips, "TPU".
ACCELERATORS = {"v5e": "TPU-V5LITEPOD", "v5p": "TPU-V5P", "v6e": "TPU-V6E", "7x": "TPU-V7X"}
# Ray itself tries for two minutes, and ends the process where it fails.
_CONNECT_S = 5.0
# Beyond what a worker may take to end, before the task is killed.
_MARGIN_S = 10.0


class ClusterUnusable(ValueError):
    """No run can be done on it; the message says why and what to do."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to. ray: the module. machines: that can do a run. slots: runs at once, by
    CPUs, memory and chips. accelerator: Ray's name of the chip that each run gets one of; None where there is none.
    """

    ray: Any
    tpu: str
    cpus: int
    machines: int
    slots: int
    accelerator: str | None

    def __str__(self) -> str:
        """What is said at the start."""
        machines = "1 machine" if self.machines == 1 else f"{self.machines} machines"
        each = f"{self.cpus} CPUs" + (f" and one {self.tpu} chip" if self.accelerator else "")
        chips = "" if self.accelerator else f" No host has {self.tpu} chips: times are predicted."
        return f"Ray: {machines}, {self.slots} at once, {each} for each run.{chips}"


@contextmanager
def connected(address: str, tpu: str, cpus: int = CPUS) -> Iterator[Cluster]:
    """Connect to a cluster that runs already, and look at what it has for runs for the chip `tpu` with `cpus` CPUs each.

    address: HOST:PORT as `ray start --head` printed it, or "auto" on a machine of a cluster.

    Raises:
        ClusterUnusable: no Ray here, no cluster there, or no machine of it that is large enough.
    """
    try:
        import ray
    except ImportError:
        raise ClusterUnusable(
            "Ray is not installed here: pip install 'hawkeye-mcp[ray]', on every machine of the cluster."
        ) from None
    reach(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterUnusable(f"cannot connect to a Ray cluster at {address}: {error}") from None
    try:
        yield look(ray, [entry["Resources"] for entry in ray.nodes() if entry["Alive"]], tpu, cpus)
    finally:
        ray.shutdown()


def reach(address: str) -> None:
    """Fail at once where nobody listens."""
    host, _, port = address.rpartition(":")
    if address == "auto":
        return
    if not host or "/" in address or not port.isdigit():
        raise ClusterUnusable(
            f"{address!r} is no address of a Ray cluster: give HOST:PORT as `ray start --head` printed it, or `auto`, "
            "on a machine that has joined the cluster (`ray start --address HOST:PORT --num-cpus 0` joins without work)."
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise ClusterUnusable(
            f"nothing answers at {address} ({error}): check that the cluster is up (`ray status`) and the address."
        ) from None


def look(ray: Any, machines: list[dict[str, float]], tpu: str, cpus: int) -> Cluster:
    """machines: Ray's resources of each."""
    name = ACCELERATORS[tpu]
    hosts = [found for found in machines if f"accelerator_type:{name}" in found and found.get("TPU", 0) >= 1]
    fit = [count for found in hosts or machines if (count := _runs_at_once(found, cpus, chips=bool(hosts)))]
    if not fit:
        raise ClusterUnusable(
            f"no machine of the Ray cluster{f' with {tpu} chips' if hosts else ''} has {cpus} CPUs and "
            f"{MEMORY_BYTES >> 30} GiB of memory for a run; `ray status` shows what they have. Add machines, or give "
            "runs fewer CPUs."
        )
    return Cluster(ray, tpu, cpus, len(fit), sum(fit), name if hosts else None)


def _runs_at_once(found: dict[str, float], cpus: int, *, chips: bool) -> int:
    limits = [found.get("CPU", 0) // cpus, found.get("memory", 0) // MEMORY_BYTES]
    return int(min([*limits, found["TPU"]] if chips else limits))


def doing(cluster: Cluster, plan: Plan, agent: AgentSpec, out: Path, **changed: object) -> Do:
    """The function that does one run of the plan on a machine of the cluster. changed: fields of the Job, for tests."""
    shutil.rmtree(out / parcel.ARRIVING, ignore_errors=True)  # of a bench that was killed
    secrets = {name: os.environ[name] for name in (agent.api_key_env, *agent.pass_env) if name}
    code = node.code_hash()

    async def do(key: RunKey, progress: Progress) -> Run:
        folder = key.folder(out)
        job = Job.model_validate({"plan": plan, "agent": agent, "out": ".", **key._asdict(), **changed})
        worked = parcel.pack(folder)[0] if (folder / "worked.json").exists() else None
        expected = node.installation(key.workload) | {node.CODE: code}
        progress("waiting for a machine of the cluster")
        # What is not set there is the machine's own: how to start a server, above all.
        stream = _start(cluster, job.model_dump_json(exclude_unset=True), expected, secrets, worked)
        where, last = await _follow(cluster.ray, stream, progress)
        if isinstance(last, str):
            return misconfigured(plan, make(agent), key, f"{where}: {last}")
        if not isinstance(last, node.Ended):
            raise WorkerLost(f"{where} said nothing of how the run ended")
        log = out / "workers" / f"{runs.name_of(key.workload)}-{key.condition}-{key.repeat}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as kept:
            kept.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} {where}, ended with {last.code}\n{last.log}")
        if last.parcel is None:
            raise WorkerLost(
                f"its process on {where} ended with {last.code} and left no record; see workers/{log.name}"
            )
        try:
            parcel.deliver(last.parcel, out, key)
        except parcel.BadParcel as bad:
            raise WorkerLost(f"what {where} sent back is no run: {bad}") from bad
        return runs.finished(folder) or Run.model_validate_json((folder / "broken.json").read_bytes())

    return do


def _start(cluster: Cluster, job: str, expected: dict[str, str], secrets: dict[str, str], worked: bytes | None) -> Any:
    """The task of one run, as the stream of its messages: where it is, then those of `node.perform`; a text at the end
    if it cannot be done there.
    """

    # An inner function travels as code, so that it can say so where this package is missing.
    def on_machine(job: str, *given: Any) -> Iterator[Any]:
        import socket

        import ray

        context = ray.get_runtime_context()
        yield f"{socket.gethostname()} ({ray.util.get_node_ip_address()}, Ray node {context.get_node_id()[:8]})"
        try:
            from hawkeye_bench.executors import node
            from hawkeye_bench.worker import Job
        except ImportError as error:
            yield f"hawkeye-mcp cannot be imported there ({error}). Install it in the environment that Ray runs in"
            return
        for message in node.perform(Job.model_validate_json(job), *given):
            yield message.problem if isinstance(message, node.Unfit) else message

    chip = {"accelerator_type": cluster.accelerator, "resources": {"TPU": 1}} if cluster.accelerator else {}
    # A fresh process for each run; the scheduler itself decides on another try.
    task = cluster.ray.remote(
        num_cpus=cluster.cpus, memory=MEMORY_BYTES, num_returns="streaming", max_retries=0, max_calls=1, **chip
    )(on_machine)
    return task.remote(job, expected, secrets, worked)


async def _follow(ray: Any, stream: Any, progress: Progress) -> tuple[str, Any]:
    """Pass on the steps of a run; where it was done, and the last message: a text if it cannot be done there.

    Raises:
        WorkerLost: the machine or the task is gone.
    """
    where, last = "", None
    try:
        async for reference in stream:
            message = await reference
            if not where:
                where = message
                progress(f"on {where}")
                continue
            last = message
            if isinstance(last, node.Said):
                progress(last.text)
    except ray.exceptions.RayError as error:
        raise WorkerLost(_reason(ray, error, where or "a machine of the cluster")) from error
    except BaseException:  # cancelled, above all
        with anyio.CancelScope(shield=True):
            await _stop(ray, stream)
        raise
    return where, last


async def _stop(ray: Any, stream: Any) -> None:
    """End a task: by itself if it can, so that nothing of it is left."""
    for force, patience_s in ((False, node.GRACE_S + _MARGIN_S), (True, _MARGIN_S)):
        ray.cancel(stream, force=force)
        with anyio.move_on_after(patience_s), suppress(ray.exceptions.RayError):
            await stream.completed()
            return


def _reason(ray: Any, error: Any, where: str) -> str:
    if isinstance(error, ray.exceptions.NodeDiedError):
        return f"{where} is gone: Ray says that the node is dead or unavailable"
    if isinstance(error, ray.exceptions.WorkerCrashedError):
        return f"Ray's process on {where} died"
    if isinstance(error, ray.exceptions.RayTaskError):
        return f"the run failed on {where}: {error.cause!r}"
    return f"Ray lost the run on {where}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
