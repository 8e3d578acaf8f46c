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
        self._resources = resources
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._machines: list[Any] = []
        self.complete()

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def complete(self) -> None:
        """Have two machines; the second has the resources that were asked for."""
        while len(self._machines) < 2:
            own = self._resources if self._machines else {}
            self._machines.append(self._cluster.add_node(**_MACHINE, resources=own))

    def kill(self, where: str) -> None:
        """Kill Ray's process of a machine, as it is named in a run's progress."""
        (found,) = [machine for machine in self._machines if f"Ray node {machine.node_id[:8]}" in where]
        self._machines.remove(found)
        self._cluster.remove_node(found, allow_graceful=False)

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
