"""`python tests/faults/run.py --times 200 [--seed N] [--json]`: does harm and counts what is lost, doubled or left.

--times is of the kills alone; the other faults come on top, in proportion. Exit 0 without a violation, else 1. Needs
Linux. The kills meet servers with the fake judge, except those of workers and sandboxes and a few of servers.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "bench")]

import heavy_trials  # noqa: E402
import trials  # noqa: E402
from trials import Outcome, Trial  # noqa: E402

# Of 200 kills, and beside them of the other faults.
LIGHT = {
    "kill -9: server": 74,
    "kill -9: writer into the pool": 100,
    "disk full": 20,
    "clock jumps": 10,
    "two servers on one pool": 20,
    "client stops reading": 8,
    "damaged verdict in the pool": 20,
    "damaged baseline and check in the cache": 20,
}
HEAVY = {
    "file system full": 20,
    "kill -9: bench": 12,
    "kill -9: server, real judge": 2,
    "kill -9: worker, real judge": 7,
    "kill -9: sandbox, real judge": 5,
    "libtpu aborts, real judge": 3,
}


@dataclass
class Count:
    """Violations by kind of one fault."""

    fault: str
    times: int = 0
    lost: int = 0
    doubled: int = 0
    left_processes: int = 0
    left_files: int = 0
    next_call_failed: int = 0

    def add(self, found: Outcome) -> None:
        self.times += 1
        self.lost += found.lost
        self.doubled += found.doubled
        self.left_processes += found.processes
        self.left_files += found.files
        self.next_call_failed += not found.next_ok

    @property
    def violations(self) -> int:
        return self.lost + self.doubled + self.left_processes + self.left_files + self.next_call_failed


@contextmanager
def means(root: Path, names: list[str]) -> Iterator[dict[str, Trial]]:
    """How each of the faults is done; what several share is made once, and its end is looked at too."""
    found: dict[str, Trial] = {
        "kill -9: writer into the pool": trials.writer_killed,
        "disk full": trials.disk_full,
        "file system full": trials.file_system_full,
        "clock jumps": trials.clock_jumps,
        "two servers on one pool": trials.two_servers,
        "client stops reading": trials.client_stops_reading,
        "damaged verdict in the pool": trials.corrupted_verdict,
        "damaged baseline and check in the cache": trials.corrupted_file,
        "kill -9: server, real judge": heavy_trials.real_server_killed,
    }
    if "kill -9: server" in names:
        (root / "counting").mkdir()
        most = trials.lines_of_a_server(root / "counting")
        found["kill -9: server"] = partial(trials.server_killed, most=most)
    if "kill -9: bench" in names:
        found["kill -9: bench"] = heavy_trials.Benches(root / "benches").killed
    yield found


def carried_out(faults: dict[str, int], seed: int) -> Iterator[Count]:
    """The faults one after the other. Raises AssertionError where the harm itself cannot be done."""
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    shared = [name for name in faults if name.endswith("real judge") and "server" not in name]
    try:
        with means(root, list(faults)) as how:
            for name in faults:
                if name not in shared:
                    yield _count(name, faults[name], how[name], seed, root)
            if shared:
                yield from _with_real_judge({name: faults[name] for name in shared}, seed, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _count(name: str, times: int, trial: Trial, seed: int, root: Path) -> Count:
    count = Count(name)
    for number in range(3 * times):
        if count.times == times:
            break
        folder = root / f"{len(list(root.iterdir()))}"
        (folder / "tmp").mkdir(parents=True)
        try:
            found = trial(random.Random(f"{seed} {name} {number}"), folder)
        except Exception:
            found = Outcome(next_ok=False, note=traceback.format_exc())
        if found.struck:
            count.add(found)
        # each as it comes: a run that is ended early has told what it found
        print(f"{name}, {number}: {'nothing' if found == Outcome() else found}", file=sys.stderr, flush=True)
    return count


def _with_real_judge(faults: dict[str, int], seed: int, root: Path) -> Iterator[Count]:
    real = heavy_trials.RealServer(root / "real")
    how = {
        "kill -9: worker, real judge": real.worker_killed,
        "kill -9: sandbox, real judge": real.sandbox_killed,
        "libtpu aborts, real judge": real.libtpu_aborts,
    }
    counts = [_count(name, times, how[name], seed, root) for name, times in faults.items()]
    ended = real.close()  # processes and files are looked at when all of them are over
    counts[-1].left_processes += ended.processes
    counts[-1].left_files += ended.files
    yield from counts


def table(counts: list[Count]) -> str:
    heads = [field.name.replace("_", " ") for field in fields(Count)]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for count in counts:
        lines.append(f"| {' | '.join(str(getattr(count, field.name)) for field in fields(Count))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--light", action="store_true", help="without the bench and the real judge")
    parser.add_argument("--only", default="", help="faults whose names hold this text")
    given = parser.parse_args()
    faults = LIGHT if given.light else LIGHT | HEAVY
    share = {name: max(1, round(times * given.times / 200)) for name, times in faults.items() if given.only in name}
    counts = []
    for count in carried_out(share, given.seed):
        counts.append(count)
        print(f"{count.fault}: {count.times} times, {count.violations} violations", file=sys.stderr, flush=True)
    print(json.dumps([vars(count) for count in counts], indent=1) if given.json else table(counts))
    return int(any(count.violations for count in counts))


if __name__ == "__main__":
    sys.exit(main())
