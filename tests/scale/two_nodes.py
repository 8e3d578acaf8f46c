"""A Ray cluster of two machines that can do runs, on this one; the head does none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Of one machine: what a run takes and what Ray needs for its objects.
_STORE_BYTES = 80 << 20
_MACHINE = {"num_cpus": 2, "memory": 3 << 30, "object_store_memory": _STORE_BYTES}


@contextmanager
def cluster(first: dict[str, float], second: dict[str, float]) -> Iterator[tuple[Any, list[Any]]]:
    """The cluster and its two machines, with these resources besides. Its processes inherit this one's environment."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # else Ray reports to its makers
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield made, [made.add_node(**_MACHINE, resources=own) for own in (first, second)]
    finally:
        made.shutdown()
