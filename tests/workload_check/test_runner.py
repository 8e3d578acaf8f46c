"""Checks run in processes of their own, are kept, and say what stopped them."""

import anyio
import pytest
from small_workloads import write

from hawkeye_mcp.workload_check import runner


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))


def _check(workloads, fresh=False):
    done = []

    async def run():
        return await runner.check(workloads, "check", fresh=fresh, done=lambda found: done.append(found.name))

    return anyio.run(run), done


def test_results_are_kept_until_the_workload_changes(tmp_path):
    workload = write(tmp_path)
    assert runner.known(workload, "check") is None
    (found,), done = _check([workload])
    assert found.ok, found.problems
    assert done == ["mine"]
    assert 0 < found.seconds < 600
    assert 0 < found.peak_bytes < 12e9
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
    assert "code -9" in found[1].problems[0]
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
