"""Faults of whole programs: a bench, and the real judge with its workers and sandboxes."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hawkeye_bench.processes import tree
from raw_server import PATIENCE_S, REAL, Raw
from trials import Outcome, doubled, left_files, lost, rows, told
from victims import gone

from hawkeye_mcp import calllog

HERE = Path(__file__).parent
GOOD = (HERE.parent / "kernels" / "12p_RMSNorm.py").read_text()
# Who may be at work at a stage; a kill there may also meet one that waits.
STAGES = {
    "audit": ["verifier"],
    "verify": ["verifier", "compiler", "profiler"],
    "bind": ["verifier"],
    "predict": ["compiler", "profiler"],
}
_PASSING = {"started", "seconds"}
_TRIES = 8


class Benches:
    """The small bench, undisturbed once for what comes out of it."""

    def __init__(self, folder: Path) -> None:
        (folder / "kernels" / "8p_GEMM").mkdir(parents=True)
        for number, speedup in ((1, 2), (2, 3)):
            (folder / "kernels" / "8p_GEMM" / f"{number}.py").write_text(f"# fake: speedup {speedup}\n")
        self.kernels, counted = folder / "kernels", folder / "counted"
        self._run(folder / "out", 0, str(counted))
        self.lines, self.undisturbed = int(counted.read_text()), _records(folder / "out")

    def _run(self, out: Path, line: int, counted: str = "") -> tuple[int, set[int]]:
        """Its return code, and the processes that it has left behind."""
        command = [sys.executable, str(HERE / "dying_bench.py"), str(line), counted, str(out), str(self.kernels), "2"]
        paths = os.pathsep.join(map(str, (HERE.parent, HERE.parent / "bench", HERE)))
        environment = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(out / "tmp")}
        (out / "tmp").mkdir(parents=True, exist_ok=True)
        with (out / "stderr").open("ab") as stderr:
            code = subprocess.run(command, env=environment, stdout=stderr, stderr=stderr, check=False).returncode
        return code, _with_folder(out)

    def killed(self, rng: random.Random, folder: Path) -> Outcome:
        out = folder / "out"
        ended, left = self._run(out, rng.randint(1, self.lines))
        still = gone(left)
        before = {path: path.read_bytes() for path in out.rglob("run.json")}
        judged = [line for path in out.rglob("calls.jsonl") for line in calllog.read(path) if calllog.is_verdict(line)]
        code, left = self._run(out, 0)
        still |= gone(left)
        kept = [line for path in out.rglob("calls.jsonl") for line in calllog.read(path) if calllog.is_verdict(line)]
        found = _records(out)
        again = sum(path.read_bytes() != data for path, data in before.items())
        files = left_files(out)
        return Outcome(
            lost=sum(line not in kept for line in judged),
            doubled=again + max(0, sum(map(len, found.values())) - sum(map(len, self.undisturbed.values()))),
            processes=len(still),
            files=len(files),
            next_ok=code == 0 and found == self.undisturbed,
            note=" ".join(files),
            struck=ended == -signal.SIGKILL,
        )


def _records(out: Path) -> dict[str, dict[str, Any]]:
    """What counts of every run, without what differs from one time to another."""
    found = {str(path.relative_to(out)): json.loads(path.read_text()) for path in out.rglob("run.json")}
    return {name: {k: v for k, v in run.items() if k not in _PASSING} for name, run in found.items()}


def _with_folder(folder: Path) -> set[int]:
    """Other processes that know of a folder, by their command or environment."""
    found, name = set(), str(folder).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name in (entry / "cmdline").read_bytes() or name in (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}


class RealServer:
    """A server with the real judge; every fault meets a text of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._number, self._told = folder, 1, {}
        (folder / "tmp").mkdir(parents=True)
        arguments = ("--workload", "12p_RMSNorm")
        self.server = Raw(folder, *arguments, program=REAL, TMPDIR=str(folder / "tmp"))
        self.server.initialize()
        assert self._judged(GOOD).get("status") == "correct"

    def _send(self, text: str) -> int:
        self._number += 1
        self.server.call(self._number, "evaluate_kernel", source=text)
        return self._number

    def _judged(self, text: str) -> dict[str, Any]:
        return self._answer(self._send(text), text)

    def _answer(self, call: int, text: str) -> dict[str, Any]:
        """What the client is told of a text that it sent; empty where that is nothing within some minutes."""
        for _ in range(_TRIES):
            with suppress(TimeoutError):
                if found := told(self.server.answer(call)):
                    self._told[text] = found["evaluation_id"]
                    return found
                call = self._send(text)  # it says that it is still running
        return {}

    def _harmed(self, rng: random.Random, stage: str, words: str, number: int) -> Outcome:
        """One evaluation in which a process with these words in its command gets a signal at a stage."""
        text = f"{GOOD}\n# {rng.getrandbits(64):x}\n"
        call = self._send(text)
        reached = self.server.until(lambda m: m.get("id") == call or _stage(m) == (call, stage))
        if reached.get("id") == call:  # it was too fast to be seen at that stage
            self._told[text] = told(reached)["evaluation_id"]
            return Outcome(struck=False)
        victims = sorted(pid for pid in tree(self.server.process.pid) if words in _command(pid))
        struck = False
        with suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(victims), number)
            struck = True
        found = self._answer(call, text)
        following = self._judged(text)  # from the pool: the verdict must be the kernel's own
        aborted = number == signal.SIGABRT  # which a kernel may cause: the next one must be judged all the same
        if aborted:
            following = self._judged(f"{text}#\n")
        return Outcome(
            lost=lost(self.folder, self._told),
            doubled=doubled(self.folder),
            struck=struck,
            next_ok=bool(found) and following.get("status") == "correct" and (aborted or following["cached"]),
            note=""
            if found.get("status") == "correct"
            else f"{stage} {words}: {found.get('status')} {found.get('message')}",
        )

    def worker_killed(self, rng: random.Random, folder: Path) -> Outcome:
        stage = rng.choice(sorted(STAGES))
        return self._harmed(rng, stage, f"hawkeye_mcp.judge.service {rng.choice(STAGES[stage])}", signal.SIGKILL)

    def sandbox_killed(self, rng: random.Random, folder: Path) -> Outcome:
        return self._harmed(rng, "trace", rng.choice(["supervisor.py", "tracer.py"]), signal.SIGKILL)

    def libtpu_aborts(self, rng: random.Random, folder: Path) -> Outcome:
        stage = rng.choice(["verify", "predict"])
        return self._harmed(
            rng, stage, f"hawkeye_mcp.judge.service {rng.choice(['compiler', 'profiler'])}", signal.SIGABRT
        )

    def close(self, number: int = signal.SIGTERM) -> Outcome:
        """End it, in the middle of an evaluation if by SIGKILL, and see what it leaves."""
        if number == signal.SIGKILL:
            call = self._send(f"{GOOD}\n# the last\n")
            self.server.until(lambda m: _stage(m) == (call, "verify"))
        alive = set(tree(self.server.process.pid)) - {self.server.process.pid}
        self.server.process.send_signal(number)
        self.server.process.wait(PATIENCE_S)
        self.server.process.stdout.close()
        left, files = gone(alive), left_files(self.folder)
        if number == signal.SIGKILL:  # the pool is tidied by whoever opens it next
            rows(self.folder)
            files = left_files(self.folder)
        return Outcome(
            lost(self.folder, self._told), doubled(self.folder), len(left), len(files), True, " ".join(files)
        )


def real_server_killed(rng: random.Random, folder: Path) -> Outcome:
    """In the middle of an evaluation; the next one on the same files has the earlier verdict and judges on."""
    first = RealServer(folder / "first").close(signal.SIGKILL)
    second = RealServer(folder / "second")
    ended = second.close()
    return Outcome(
        first.lost + ended.lost, first.doubled + ended.doubled, first.processes + ended.processes,
        first.files + ended.files, True, f"{first.note} {ended.note}".strip(),
    )  # fmt: skip


def _stage(message: dict[str, Any]) -> tuple[int, str] | None:
    if message.get("method") != "notifications/progress":
        return None
    return message["params"]["progressToken"], message["params"].get("message")


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""
