"""Checks run in processes of their own, are kept, and say what stopped them."""

import anyio
import pytest
from small_workloads import write

from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout
from hawkeye_mcp.workload_check import runner, show


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))


def _check(workloads, size="check"):
    done = []

    async def run():
        return await runner.check(workloads, size, fresh=False, done=lambda found: done.append(found.name))

    return anyio.run(run), done


def test_results_are_kept_until_the_workload_changes(tmp_path):
    workload = write(tmp_path)
    assert runner.known(workload, "check") is None
    held = bytearray(b"1") * 1_000_000_000  # by this process, from which the check's is forked
    (found,), done = _check([workload])
    del held
    assert found.ok, found.problems
    assert done == ["mine"]
    assert 0 < found.seconds < 600
    assert 0 < found.cpu_seconds
    assert 1e8 < found.peak_bytes < 9e8
    assert found.roofline["v5e"].bound == "FLOPs"
    assert found.roofline["v5e"].least_us == pytest.approx(34359738368 / 197e12 * 1e6)
    assert runner.known(workload, "check") == found
    assert runner.known(workload, "full") is None
    code = workload.folder / "workload.py"
    code.write_text(code.read_text() + "\n# changed\n")
    assert runner.known(workload, "check") is None


def test_a_workload_that_raises_or_dies_loses_only_itself_and_is_not_kept(tmp_path):
    raising = write(tmp_path, "raising", code={"return jax.nn.relu(": "return jax.nn.no_such_function("})
    dying = write(
        tmp_path,
        "dying",
        code={'"""The same in float32': 'import os\n    os.kill(os.getpid(), 9)\n    """The same in float32'},
    )
    found, done = _check([raising, dying])
    assert sorted(done) == ["dying", "raising"]
    assert [(check.name, check.ok, check.broken) for check in found] == [
        ("raising", False, True),
        ("dying", False, True),
    ]
    assert "no_such_function" in found[0].problems[0]
    assert "mend the workload's code" in found[0].problems[0]
    assert "code -9 is a kill from outside" in found[1].problems[0]
    assert [check.seconds for check in found] == [None, None]
    assert runner.known(raising, "check") is runner.known(dying, "check") is None


def test_what_does_not_fit_and_what_is_said_of_it_must_agree(tmp_path):
    said = {"# [outside]": '[does_not_fit]\nv5e = "17.56G of 15.75G hbm"\n\n# [outside]'}
    silent, says = write(tmp_path, "silent"), write(tmp_path, "says", toml=said)
    fits, not_fits = (
        runner.Fit(tpu="v5e", fits=True),
        runner.Fit(tpu="v5e", fits=False, words="Used 17.56G of 15.75G hbm"),
    )
    assert runner.undeclared(silent, fits) == runner.undeclared(says, not_fits) == ""
    assert "remove the entry" in runner.undeclared(says, fits)
    assert "Used 17.56G of 15.75G hbm" in runner.undeclared(silent, not_fits)


def test_what_needs_more_memory_than_a_check_may_take_is_compiled_but_not_run_at_full_size(tmp_path, monkeypatch):
    async def fit(workload, tpu):
        return runner.Fit(tpu=tpu, fits=True)

    monkeypatch.setattr(runner, "_fit", fit)
    monkeypatch.setattr(runner, "MEMORY_BYTES", 1_200_000_000)  # x alone takes 1.07 GB as it is drawn
    large = {"full = { M = 4096, K = 2048, N = 2048 }": "full = { M = 32768, K = 8192, N = 128 }"}
    large |= {"flops = 34359738368": "flops = 68719476736", "least_bytes = 41947136": "least_bytes = 547356928"}
    workload = write(tmp_path, toml=large)
    (found,), _ = _check([workload], "full")
    assert found.ok, found.problems
    assert (found.seconds, found.peak_bytes, found.honest) == (None, None, [])
    assert "nothing was run at full size: it needs more than the 1.2 GB" in found.notes[0]
    assert [fit.fits for fit in found.fits] == [True, True]
    assert show.line(found) == "mine: ok, not run"
    assert runner.known(workload, "full") == found
    monkeypatch.setattr(runner, "MEMORY_BYTES", 4_000_000_000)
    assert runner.known(workload, "full") is None


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (WorkerError("MemoryError", "MemoryError: Unable to allocate 8.00 GiB", ""), True),
        (
            WorkerError(
                "JaxRuntimeError", "INTERNAL: Error dispatching computation: Out of memory allocating 8 bytes", ""
            ),
            True,
        ),
        (WorkerDied("ended with code -6. terminate called after throwing an instance of 'std::bad_alloc'"), True),
        (WorkerDied("ended with code -6. F1130 raw_buffer.h:106] Check failed: buffer_.IsConcrete()"), True),
        (WorkerError("JaxRuntimeError", "INTERNAL: YNNPACK operation failed: error", ""), True),
        (WorkerDied("ended with code -6. F1130 layout.cc:7] Check failed: rank == 2"), False),
        (WorkerDied("ended with code -9. "), False),
        (WorkerDied("ended with code -11. "), False),
        (WorkerError("ValueError", "ValueError: shapes", ""), False),
        (WorkerTimeout("check_workload ran longer than 1800 s"), False),
    ],
)
def test_a_death_is_of_memory_only_where_an_allocation_is_said_to_have_failed(error, memory):
    assert runner.out_of_memory(error) is memory
