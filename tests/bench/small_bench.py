"""A whole bench with recorded kernels and the fake judge: OUT KERNELS SLOTS. Prints each step. What it makes is no
agent's result.
"""

import sys
from functools import partial
from pathlib import Path

import anyio
from bench_fixtures import FAKE_SERVER, plan
from hawkeye_bench import journal, runs, schedule
from hawkeye_bench.agents.choose import AgentSpec
from hawkeye_bench.executors import local

FAKE = {"judge": "fake_judge:open_fake", "server": FAKE_SERVER}
WORKLOAD = "8p_GEMM"


def small_plan():
    return plan(agent="replay", model="", workloads=[WORKLOAD], conditions=["none", "taxonomy"])


def main(out: Path, kernels: Path, slots: int) -> None:
    the_plan = small_plan()
    do = local.doing(the_plan, AgentSpec(agent="replay", kernels=str(kernels)), out, **FAKE)
    with journal.held(out):
        runs.keep_plan(out, the_plan)

        def say(key, text):
            print(key, text, flush=True)

        def ended(key, run, text):
            print(key, "ended", text, flush=True)

        anyio.run(partial(schedule.run_all, the_plan, out, do, slots=slots, progress=say, on_run=ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
