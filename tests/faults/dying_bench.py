"""The small bench, ended by SIGKILL at a line: LINE COUNTED OUT KERNELS SLOTS (see victims.die_at_line)."""

import sys
from pathlib import Path

import hawkeye_bench
import small_bench
from victims import PACKAGE, die_at_line

BENCH = Path(hawkeye_bench.__file__).parent
FILES = [BENCH / f"{name}.py" for name in ("journal", "schedule", "runs", "order", "executors/local")]

if __name__ == "__main__":
    line, counted, out, kernels, slots = sys.argv[1:]
    die_at_line(int(line), {*map(str, FILES), str(PACKAGE / "state.py")}, Path(counted) if counted else None)
    small_bench.main(Path(out), Path(kernels), int(slots))
