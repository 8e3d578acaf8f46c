"""Harm at drawn points, few times here and more in the slow tests; and that what it must show does not go unseen."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from trials import doubled, evaluation, left_files, lost, serving, texts, told

from hawkeye_mcp import pool

RUN = Path(__file__).with_name("run.py")


def counted(*arguments: str) -> list[dict]:
    """Each fault's counts; it runs in a process of its own because it forks."""
    found = subprocess.run(
        [sys.executable, str(RUN), "--json", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    return json.loads(found.stdout)


def without_violation(counts: list[dict]) -> bool:
    return all(not number for count in counts for name, number in count.items() if name not in ("fault", "times"))


def test_kills_and_other_faults_lose_and_double_nothing_and_leave_nothing():
    counts = counted("--times", "6", "--light", "--seed", "1")
    assert without_violation(counts), counts
    assert [count["times"] for count in counts] == [2, 3, 1, 1, 1, 1, 1, 1]


@pytest.mark.slow
def test_more_of_them_with_a_bench_and_the_real_judge():
    counts = counted("--times", "40", "--seed", "2")
    assert without_violation(counts), counts
    assert len(counts) == 14


@pytest.fixture
def judged(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The files of a server that judged two texts, and what it said."""
    process, said = serving(tmp_path), {}
    assert process.start()
    for number, text in enumerate(texts(random.Random(0), 2), start=2):
        process.evaluate(number, text)
        said[text] = told(process.answer(number))["evaluation_id"]
    process.close_stdin()
    assert process.wait() == 0
    process.end()
    return tmp_path, said


def test_what_is_lost_doubled_or_left_is_seen(judged):
    folder, said = judged
    (first, name), (second, _) = said.items()
    assert (lost(folder, said), doubled(folder), left_files(folder)) == (0, 0, [])

    log = folder / "log" / "calls.jsonl"
    whole = log.read_bytes()
    log.write_bytes(
        b"".join(line for line in whole.splitlines(True) if f'"evaluation_id": "{name}"'.encode() not in line)
    )
    assert lost(folder, said) == 1
    log.write_bytes(whole + whole.splitlines(True)[3])  # the verdict on the first text
    assert (lost(folder, said), doubled(folder)) == (0, 1)
    log.write_bytes(whole)
    assert lost(folder, {**said, second: "another"}) == 1

    pool.Pool(folder / "state" / "pool.sqlite3").add(first, evaluation("again", first), "f")
    (folder / "log" / "kernels" / ".k.py.host.1.1.part").touch()
    assert (doubled(folder), left_files(folder)) == (1, ["log/kernels/.k.py.host.1.1.part"])
