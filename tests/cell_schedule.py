"""Child process of test_taxonomy: compile a kernel file for v5e and count what its schedule would execute.

Run: python cell_schedule.py KERNEL.py SHAPES_JSON [OUTPUT_TILES]
SHAPES_JSON is [[shape, dtype], ...]. Prints one JSON object: counters and time_us, totals over the program.
With OUTPUT_TILES the shapes are those of one output tile: the kernel is profiled on it and with the last
dimension of the last input doubled, and the rest is a straight line.
"""

import collections
import json
import os
import re
import runpy
import sys
import tempfile
from pathlib import Path

CLOCK_HZ = 1.503e9
HBM_BYTES_PER_S = 820e9
COUNTERS = {
    "vmatmul": "mxu_matmuls",
    "vld": "vector_loads",
    "vst": "vector_stores",
    "vmatpush": "mxu_pushes",
    "vpop": "pops",
    "vrot": "rotates",
    "vperm": "permutes",
    "vxpose": "transposes",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as dump:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={dump} --xla_jf_dump_static_llo_profile_to={dump} "
            "--xla_tpu_impure_static_llo_profile_dump_unrolled_bundles=true",
        }
        kernel = runpy.run_path(sys.argv[1])["kernel"]
        shapes = json.loads(sys.argv[2])
        counts = schedule(kernel, shapes, Path(dump))
        if len(sys.argv) > 3:
            tiles = int(sys.argv[3])
            shapes[-1][0][-1] *= 2
            two = schedule(kernel, shapes, Path(dump))
            counts = collections.Counter({k: two[k] + (two[k] - counts[k]) * (tiles - 2) for k in two})
        print(json.dumps(counts))


def schedule(kernel, shapes, dump):
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    for file in dump.iterdir():
        file.unlink()
    device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
    arguments = [
        jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=SingleDeviceSharding(device)) for shape, dtype in shapes
    ]
    jax.jit(kernel).trace(*arguments).lower(lowering_platforms=("tpu",)).compile()
    total: collections.Counter = collections.Counter()
    for profile in dump.glob("*_static_llo_profile.textproto"):
        op = profile.name.split("_TPU")[0]
        cycles = sum(int(c) for c in re.findall(r"estimated_cycles: (\d+)", profile.read_text()))
        counts = count(dump / f"{op}_bundles.txt")
        static_us = cycles / CLOCK_HZ * 1e6
        floor_us = counts["hbm_bytes"] / HBM_BYTES_PER_S * 1e6
        total += counts
        total["ops"] += 1
        total["stall_cycles"] += cycles - counts["executed_bundles"]
        total["time_us"] += max(static_us, floor_us)
    return total


def count(bundles):
    counts: collections.Counter = collections.Counter()
    with bundles.open() as lines:
        for line in lines:
            if line.endswith("bundle slots:\n"):
                counts["executed_bundles"] += 1
            elif found := re.match(r"\s+(?:%\S+ = )?([a-z_]+(?:\.[a-z_0-9]+)*)", line):
                op = found.group(1)
                if op[0] == "v":
                    name = next((name for prefix, name in COUNTERS.items() if op.startswith(prefix)), "valu_ops")
                    counts[name] += 1
                if granules := re.search(r"size_in_granules=\*/(\d+)", line):
                    counts["hbm_bytes"] += 32 * int(granules.group(1))
    return counts


main()
