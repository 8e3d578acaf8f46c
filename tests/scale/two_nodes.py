"""A Ray cluster of two machines that can do runs, on this one; its head does none."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Of one machine: what one run takes, and what Ray needs for its objects.
_STORE_BYTES = 80 << 20
_MACHINE = {"num_cpus": 2, "memory": 3 << 30, "object_store_memory": _STORE_BYTES}


class TwoNodes:
    """address: to connect to. temporary: the machines' temporary folder."""

    def __init__(self, temporary: Path, resources: dict[str, float]) -> None:
        from ray.cluster_utils import Cluster

        self.temporary = temporary
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
        self._resources: list[dict[str, float]] = [{}, resources]
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._machines: list[Any] = [None, None]
        self.complete()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def complete(self) -> None:
        """Have two machines; the second has the resources that were asked for."""
        for number, own in enumerate(self._resources):
            self._machines[number] = self._machines[number] or self._cluster.add_node(**_MACHINE, resources=own)

    def kill(self, where: str) -> None:
        """Kill Ray's process of a machine, as it is named in a run's progress."""
        (number,) = [n for n, found in enumerate(self._machines) if f"Ray node {found.node_id[:8]}" in where]
        self._cluster.remove_node(self._machines[number], allow_graceful=False)
        self._machines[number] = None

    def close(self) -> None:
        self._cluster.shutdown()


@contextmanager
def two_nodes(**resources: float) -> Iterator[TwoNodes]:
    """Its processes inherit this one's environment. resources: of the second machine."""
    before = dict(os.environ)
    # The names of Ray's sockets must be short.
    with tempfile.TemporaryDirectory(prefix="ray-") as home:
        own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": f"{home}/ray", "TMPDIR": f"{home}/tmp"}
        for folder in ("ray", "tmp"):
            Path(home, folder).mkdir()
        os.environ.update(own)
        try:
            cluster = TwoNodes(Path(home, "tmp"), resources)
            try:
                yield cluster
            finally:
                cluster.close()
        finally:
            os.environ.clear()
            os.environ.update(before)
