"""The least any judge must do: trace, lower and compile a trusted kernel for a TPU, in one warm process.

`python -m hawkeye_bench.bare_compile WORKLOAD TPU REPEATS < kernel.py` prints a JSON list of seconds. Only
for kernels of this repository: it runs the file's Python as it is.
"""

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    workload_name, tpu, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    text = sys.stdin.read()
    # Before jax is imported: libtpu reads these once. The same as the judge's workers, without any dump.
    os.environ |= {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": "v5litepod-4",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "LIBTPU_INIT_ARGS": "",
    }
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
    seconds = []
    for number in range(repeats + 1):
        module: dict[str, Any] = {"__name__": "kernel"}
        start = time.monotonic()
        exec(compile(f"{text}\n# {number}\n", "kernel.py", "exec"), module)
        jax.jit(module["workload"]).trace(*shapes).lower(lowering_platforms=("tpu",)).compile()
        seconds.append(round(time.monotonic() - start, 4))
    # The first one warms the process up.
    json.dump(seconds[1:], sys.stdout)


if __name__ == "__main__":
    main()
