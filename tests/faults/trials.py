"""Each fault as a function: it does harm once at a drawn point, and says what came of that."""

import fcntl
import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fake_judge import VERSIONS, FakeJudge
from victims import PACKAGE, WRITING, Forked, die_at_line, die_in_sqlite, session

from hawkeye_mcp import calllog, kernels, pool, server, state, workloads
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workload_check import runner as checks

_ROWS = 12
_END_S = 60.0  # the server itself allows its end less


@dataclass(frozen=True)
class Outcome:
    """Violations after one fault.

    struck: whether there was one; a drawn point may never be reached. note: what was seen, where something is wrong.
    """

    lost: int = 0
    doubled: int = 0
    processes: int = 0
    files: int = 0
    next_ok: bool = True
    note: str = ""
    struck: bool = True


Trial = Callable[[random.Random, Path], Outcome]


def arguments(folder: Path, log: str = "calls") -> list[str]:
    """Of a server whose every path is in the folder."""
    (folder / "workspace").mkdir(exist_ok=True)
    paths = ["--workspace", folder / "workspace", "--state", folder / "state"]
    pins = ["--condition", "full", "--tpu", "v5e", "--workload", "8p_GEMM"]
    return [*pins, *map(str, paths), "--call-log", str(folder / "log" / f"{log}.jsonl")]


def serving(folder: Path, log: str = "calls", before: Callable[[], None] = lambda: None) -> Forked:
    """A server with the fake judge. before: what its process does first."""

    def work() -> None:
        before()
        server.main(arguments(folder, log), FakeJudge().open)

    return Forked(work, folder / "stderr")


def texts(rng: random.Random, count: int) -> list[str]:
    return [f"# fake: speedup {k + 1}\n# {rng.getrandbits(64):x}\n" for k in range(count)]


def told(answer: dict[str, Any] | None) -> dict[str, Any]:
    """The evaluation that an answer holds; empty where it holds none."""
    result = (answer or {}).get("result") or {}
    found = result.get("structuredContent") or {}
    return found if found.get("evaluation_id") else {}


def rows(folder: Path) -> list[tuple[str, str]]:
    """Id and text of everything in the pool."""
    path = folder / "state" / "pool.sqlite3"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.OperationalError):
        return db.execute("SELECT id, kernel FROM evaluations").fetchall()
    return []


def lines(folder: Path) -> list[dict[str, Any]]:
    return [line for path in sorted((folder / "log").glob("*.jsonl")) for line in calllog.read(path)]


def lost(folder: Path, acknowledged: dict[str, str]) -> int:
    """How many of the verdicts that a client was told (text: id) are missing in the pool, the log or the kept texts."""
    kept, log = dict(rows(folder)), lines(folder)
    logged = {(line["evaluation_id"], line["kernel_sha256"]) for line in log if calllog.is_verdict(line)}
    missing = 0
    for text, name in acknowledged.items():
        sha = kernels.sha256(text)
        there = folder / "log" / "kernels" / f"{sha}.py"
        missing += kept.get(name) != text or (name, sha) not in logged or there.read_text() != text
    return missing


def doubled(folder: Path) -> int:
    """Texts judged more than once, in the pool and in the log, and ids given twice."""
    new = [line for line in lines(folder) if calllog.is_verdict(line) and not line["cached"]]
    counts = [
        Counter(text for _, text in rows(folder)),
        Counter(line["kernel_sha256"] for line in new),
        Counter(line["call"] for line in lines(folder) if line["event"] == "call_end"),
    ]
    return sum(number - 1 for count in counts for number in count.values())


def left_files(folder: Path) -> list[str]:
    """Temporary files, and locks that somebody holds."""
    found = [path for path in folder.rglob("*") if path.name.endswith((".part", "-wal", "-shm", "-journal"))]
    found += (folder / "tmp").glob("*")
    for path in folder.rglob("*.lock"):
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(path)
    return [str(path.relative_to(folder)) for path in found]


def after(
    folder: Path, acknowledged: dict[str, str], wanted: list[str], ended: list[Forked], log: str = "next"
) -> Outcome:
    """What is left after a fault, and whether a new server on the same files answers: known verdicts as they were."""
    for process in ended:
        process.end()
    processes = [pid for process in ended for pid in session(process.pid)]
    then = dict(acknowledged)
    following = serving(folder, log)
    answered = following.start()
    for number, text in enumerate(wanted, start=2):
        following.evaluate(number, text)
        found = told(following.answer(number))
        answered &= (
            found.get("status") == "correct" and then.setdefault(text, found["evaluation_id"]) == found["evaluation_id"]
        )
    following.close_stdin()
    answered &= following.wait() == 0
    following.end()
    files = left_files(folder)
    return Outcome(lost(folder, then), doubled(folder), len(processes), len(files), answered, " ".join(files))


# Kills at a point


def server_killed(rng: random.Random, folder: Path, *, most: int = 1200) -> Outcome:
    at, asked = rng.randint(1, most), texts(rng, 3)
    victim = serving(folder, before=lambda: die_at_line(at, WRITING))
    acknowledged = {}
    if victim.start():
        for number, text in enumerate([*asked, asked[0]], start=2):
            victim.evaluate(number, text)
            if found := told(victim.answer(number)):
                acknowledged[text] = found["evaluation_id"]
    victim.close_stdin()
    struck = victim.wait() == -signal.SIGKILL
    return replace(after(folder, acknowledged, asked, [victim], log="calls"), struck=struck)


def lines_of_a_server(folder: Path) -> int:
    """How many lines a server that nothing disturbs takes for what `server_killed` asks."""
    counted, asked = folder / "counted", texts(random.Random(0), 3)
    process = serving(folder, before=lambda: die_at_line(0, WRITING, counted))
    process.start()
    for number, text in enumerate([*asked, asked[0]], start=2):
        process.evaluate(number, text)
        process.answer(number)
    process.close_stdin()
    process.wait()
    process.end()
    return int(counted.read_text())


def evaluation(name: str, text: str) -> Evaluation:
    return Evaluation(
        id=name, status="correct", message="m", next_step="n", workload="8p_GEMM", tpu="v5e",
        kernel_sha256=kernels.sha256(text), isolation="rlimits", versions=VERSIONS, created="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def _writing(path: Path, prefix: str, before: Callable[[], None] = lambda: None) -> Callable[[], None]:
    def work() -> None:
        before()
        store = pool.Pool(path)
        for number in range(_ROWS):
            store.add(f"{prefix} {number}", evaluation(f"{prefix}-{number}", f"{prefix} {number}"), "f")
            os.write(1, f"{prefix}-{number}\n".encode())

    return work


def writer_killed(rng: random.Random, folder: Path) -> Outcome:
    """One of two processes that write into one pool; at a line, inside SQLite, or between two of its answers."""
    path, how = folder / "state" / "pool.sqlite3", rng.choice(["line", "sqlite", "answer"])
    files, at = {str(PACKAGE / "pool.py")}, rng.randint(1, _ROWS * 33)
    deaths = {
        "line": lambda: die_at_line(at, files),
        "sqlite": lambda: die_in_sqlite(at * 5),
        "answer": lambda: None,
    }
    other = Forked(_writing(path, "other"), folder / "stderr")
    victim = Forked(_writing(path, "victim", deaths[how]), folder / "stderr")
    acknowledged = []
    for line in victim.lines():
        acknowledged.append(line.decode())
        if how == "answer" and len(acknowledged) == 1 + at % _ROWS:
            victim.kill()
    acknowledged += [line.decode() for line in other.lines()]
    victim.wait()
    survived = other.wait() == 0
    for process in (victim, other):
        process.end()
    found = [name for name, _ in rows(folder)]
    mine = sum(name.startswith("victim") for name in acknowledged)
    extra = sum(name.startswith("victim") for name in found) - mine
    following = Forked(_writing(path, "next"), folder / "stderr")
    following.wait()
    following.end()
    again = {name for name, _ in rows(folder)}
    files_left = left_files(folder)
    return Outcome(
        lost=len(set(acknowledged) - set(found)),
        # one that was written and not yet told may be there
        doubled=max(0, extra - 1) + len(found) - len(set(found)),
        processes=len(session(victim.pid)),
        files=len(files_left),
        next_ok=survived and {f"next-{n}" for n in range(_ROWS)} <= again,
        struck=victim.code == -signal.SIGKILL,
        note=" ".join(files_left),
    )


# Other faults


def disk_full(rng: random.Random, folder: Path) -> Outcome:
    """No file may grow beyond a drawn size for some calls; then there is room again. The server stays the same."""

    def shut(process: Forked) -> None:
        sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
        limit = max(1, rng.choice(sizes) + rng.randint(-40, 900))
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def opened(process: Forked) -> None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    return _without_room(rng, folder, shut, opened)


def file_system_full(rng: random.Random, folder: Path) -> Outcome:
    """The same on a file system of its own of 2 MiB, in which a drawn number of bytes are free: ENOSPC, as on a disk.

    Mounting needs root; where that is refused there is no such fault.
    """
    small = folder / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True, check=False
    ).returncode:
        return Outcome(struck=False, note="no file system could be mounted")
    filler = small / "filler"

    def shut(process: Forked) -> None:
        free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
        filler.write_bytes(bytes(max(0, free - 4096 * rng.randint(0, 12))))

    try:
        (small / "tmp").mkdir()
        return _without_room(rng, small, shut, lambda process: filler.unlink())
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def _without_room(
    rng: random.Random, folder: Path, shut: Callable[[Forked], None], opened: Callable[[Forked], None]
) -> Outcome:
    """Two calls while there is no room, between others when there is."""
    before, during, later = texts(rng, 3)
    process = serving(folder)
    acknowledged, good = {}, process.start()
    process.evaluate(2, before)
    acknowledged[before] = told(process.answer(2)).get("evaluation_id", "")
    shut(process)
    for number in (3, 4):
        process.evaluate(number, during)
        answer = process.answer(number)
        good &= answer is not None
        if found := told(answer):
            acknowledged[during] = found["evaluation_id"]
    opened(process)
    for number, text in ((5, later), (6, during), (7, before)):
        process.evaluate(number, text)
        found = told(process.answer(number))
        good &= found.get("status") == "correct"
        good &= acknowledged.setdefault(text, found.get("evaluation_id")) == found.get("evaluation_id")
    process.close_stdin()
    good &= process.wait() == 0
    outcome = after(folder, acknowledged, [before, during, later], [process], log="calls")
    return replace(outcome, next_ok=outcome.next_ok and good)


def clock_jumps(rng: random.Random, folder: Path) -> Outcome:
    """Every look at the clock is years away from the one before."""

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=rng.randint(-9000, 9000))

    def jump() -> None:
        server.datetime = calllog.datetime = Jumping

    asked = texts(rng, 3)
    process = serving(folder, before=jump)
    acknowledged, good = {}, process.start()
    for number, text in enumerate([*asked, *asked], start=2):
        process.evaluate(number, text)
        name = told(process.answer(number)).get("evaluation_id", "")
        good &= bool(name) and acknowledged.setdefault(text, name) == name
    process.close_stdin()
    good &= process.wait() == 0
    outcome = after(folder, acknowledged, asked, [process], log="calls")
    return replace(outcome, next_ok=outcome.next_ok and good)


def two_servers(rng: random.Random, folder: Path) -> Outcome:
    """Both are asked at once; in half of all times one is killed at a drawn line."""
    at = rng.choice([0, rng.randint(1, 1200)])
    shared, mine, others = texts(rng, 4), texts(rng, 2), texts(rng, 2)
    one = serving(folder, "one", before=(lambda: die_at_line(at, WRITING)) if at else lambda: None)
    two = serving(folder, "two")
    acknowledged: dict[str, str] = {}
    good = two.start()
    begun = one.start()
    asked = {one: rng.sample([*shared, *mine], 6), two: rng.sample([*shared, *others], 6)}
    for process, wanted in asked.items():
        for number, text in enumerate(wanted, start=2):
            process.evaluate(number, text)
    for process, wanted in asked.items():
        if process is two or begun:
            found = dict(_answers(process, wanted))
            good &= process is one or len(found) == len(wanted)
            for text, name in found.items():
                good &= acknowledged.setdefault(text, name) == name
    for process in asked:
        process.close_stdin()
        process.wait()
    outcome = after(folder, acknowledged, [*shared, *mine, *others], list(asked))
    return replace(outcome, next_ok=outcome.next_ok and good)


def _answers(process: Forked, wanted: list[str]) -> Iterator[tuple[str, str]]:
    """Text and id of each answer, in whatever order they come, until all are there or the process ends."""
    left = len(wanted)
    for line in process.lines():
        message = json.loads(line)
        if (number := message.get("id", 0)) >= 2:
            if found := told(message):
                yield wanted[number - 2], found["evaluation_id"]
            left -= 1
            if not left:
                return


def client_stops_reading(rng: random.Random, folder: Path) -> Outcome:
    """It asks until the pipe is full and never reads; another server on the same files works on; then an end comes."""
    text, other = texts(rng, 2)
    stuck = serving(folder, "stuck")
    good = stuck.start()
    stuck.evaluate(2, text)
    acknowledged = {text: told(stuck.answer(2)).get("evaluation_id", "")}
    os.set_blocking(stuck.stdin, False)
    with suppress(BlockingIOError):
        for number in range(3, 600):
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "read_workload"}}
            os.write(stuck.stdin, json.dumps(request).encode() + b"\n")
    beside = serving(folder, "beside")
    good &= beside.start()
    beside.evaluate(2, other)
    acknowledged[other] = told(beside.answer(2)).get("evaluation_id", "")
    good &= bool(acknowledged[other])
    beside.close_stdin()
    good &= beside.wait() == 0
    how = rng.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None])
    if how is None:
        stuck.close_stdin()
        os.close(stuck.stdout)  # the client is gone
        stuck.stdout = -1
        ended = stuck.wait(_END_S) is not None
    else:
        stuck.kill(how)
        ended = stuck.wait(_END_S) == 128 + how
    left = 0 if ended else 1
    outcome = after(folder, acknowledged, [text, other], [stuck, beside])
    return replace(outcome, next_ok=outcome.next_ok and good, processes=outcome.processes + left)


def _damage(rng: random.Random, whole: bytes) -> bytes:
    """Some harm that a disk, a crash or a hand may do to a file."""
    at = rng.randrange(len(whole))
    return rng.choice([
        b"", whole[:at], rng.randbytes(64), b"[]", b"null", b"[" * 100_000, whole + whole[:at], b"{}",
        whole[:at] + b"\0\xff" + whole[at + 2 :],
    ])  # fmt: skip


def corrupted_verdict(rng: random.Random, folder: Path) -> Outcome:
    """A row's verdict is damaged: it is judged again, once, and then known; others are as they were."""
    harmed, other = texts(rng, 2)
    process = serving(folder)
    acknowledged, good = {}, process.start()
    for number, text in enumerate((harmed, other), start=2):
        process.evaluate(number, text)
        acknowledged[text] = told(process.answer(number)).get("evaluation_id", "")
    with closing(sqlite3.connect(folder / "state" / "pool.sqlite3")) as db, db:
        db.execute("DROP TRIGGER no_update")
        (whole,) = db.execute("SELECT evaluation FROM evaluations WHERE kernel = ?", (harmed,)).fetchone()
        db.execute(
            "UPDATE evaluations SET evaluation = CAST(? AS TEXT) WHERE kernel = ?",
            (_damage(rng, whole.encode()), harmed),
        )
    process.evaluate(4, harmed)
    again = told(process.answer(4))
    good &= again.get("status") == "correct"
    good &= again.get("evaluation_id") in {name for name, _ in rows(folder)}
    process.close_stdin()
    good &= process.wait() == 0
    acknowledged[harmed] = again.get("evaluation_id", "")
    outcome = after(folder, acknowledged, [harmed, other], [process])
    fresh = int(again.get("cached") is False)  # judged a second time for a reason, once in the pool and once in the log
    return replace(outcome, doubled=outcome.doubled - 2 * fresh, next_ok=outcome.next_ok and good)


def corrupted_file(rng: random.Random, folder: Path) -> Outcome:
    """A cached baseline or a cached check is damaged: it counts as none, and can be written again."""
    os.environ["HAWKEYE_CACHE"] = str(folder / "cache")
    workload = workloads.find("12p_RMSNorm")
    entry = baseline.shipped(workload, "v5e", versions())
    assert entry
    mark = baseline.fingerprint(workload, "v5e", versions())
    path = baseline._cache_path(workload.name, "v5e", mark)
    check = checks._path(workload, "check")
    whole = json.dumps(entry.kept()).encode()
    for target in (path, check):
        state.write_atomically(target, _damage(rng, whole))
    good = baseline.known(workload, "v5e", versions()) == entry
    good &= checks.known(workload, "check") is None
    baseline.write_json(path, entry.kept())
    good &= json.loads(path.read_text()) == entry.kept()
    files = left_files(folder)
    return Outcome(files=len(files), next_ok=good, note=" ".join(files))
