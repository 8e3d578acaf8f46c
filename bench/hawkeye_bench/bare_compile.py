"""The least any judge must do: trace, lower and compile a trusted kernel for a TPU, in one warm process.

`python -m hawkeye_bench.bare_compile WORKLOAD TPU REPEATS < kernel.py` prints a JSON list of seconds. Only
for kernels of this repository: it runs the file's Python as it is.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hawkeye_mcp.judge.workers import environment


def main() -> None:
    workload_name, tpu, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    text = sys.stdin.read()
    with tempfile.TemporaryDirectory(prefix="hawkeye-bare-") as folder:
        # Before jax is imported: libtpu reads these once. The same as the judge's workers, without any dump.
        os.environ |= environment("compiler", Path(folder))
        json.dump(seconds(text, workload_name, tpu, repeats), sys.stdout)


def seconds(text: str, workload_name: str, tpu: str, repeats: int) -> list[float]:
    """Wall time of each trace, lowering and compilation; a first one, which warms the process up, is left out."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from hawkeye_mcp import workloads
    from hawkeye_mcp.chips import CHIPS

    device = topologies.get_topology_desc(platform="tpu", topology_name=CHIPS[tpu].topology).devices[0]
    workload = workloads.load(workload_name)
    shapes = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(device))
        for shape, dtype in workload.shapes(workload.inputs, "full")
    ]
    found = []
    for number in range(repeats + 1):
        module: dict[str, Any] = {"__name__": "kernel"}
        start = time.monotonic()
        exec(compile(f"{text}\n# {number}\n", "kernel.py", "exec"), module)
        jax.jit(module["workload"]).trace(*shapes).lower(lowering_platforms=("tpu",)).compile()
        found.append(round(time.monotonic() - start, 4))
    return found[1:]


if __name__ == "__main__":
    main()
