import dataclasses
import json

import pytest

from hawkeye_mcp.accuracy import collect
from hawkeye_mcp.accuracy.rows import Row
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError

ROW = Row(
    id="a", chip="v5e", kernel="matmul", implementation="mosaic", file="measured.csv", spec="{}", config="{}", measured_us=100.0,
    timing="device", source="here", group="g",
)  # fmt: skip
OTHER = dataclasses.replace(ROW, id="b")
pytestmark = pytest.mark.anyio


class Stopped(Exception):
    pass


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Answers of imagined workers by method; `asked` holds what they were asked."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path))
    jobs = [{"taken": [], "count": 4, "points": [[2], [4]], "keys": ["two", "four"]}]
    answers = {
        "accuracy_prepare": {"artifact_b64": "xyz", "kernels": [{"name": "k", "branches": [], "jobs": jobs}]},
        "accuracy_point": lambda grid, **_: {"cycles": 100 * grid[0], "vmem_bytes": 0},
        "accuracy_surroundings": {"ops": [], "peaks": {}},
    }
    asked = []

    class Workers:
        async def call(self, kind, method, **params):
            asked.append((method, params))
            answer = answers[method]
            answer = answer(**params) if callable(answer) else json.loads(json.dumps(answer))
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def close(self):
            pass

    monkeypatch.setattr(collect, "_Workers", Workers)
    return answers, asked


def methods(asked):
    return [method.removeprefix("accuracy_") for method, _ in asked]


async def test_every_grid_is_profiled_once_whatever_rows_share_it(worker):
    _, asked = worker
    found = await collect.collect([ROW, OTHER], lambda line: None)
    assert [job["cycles"] for job in found["b"]["kernels"][0]["jobs"]] == [[200, 400]]
    assert methods(asked) == ["prepare", "point", "point", "surroundings", "prepare", "surroundings"]


async def test_a_second_run_asks_nothing(worker):
    _, asked = worker
    first = await collect.collect([ROW], lambda line: None)
    asked.clear()
    lines = []
    assert await collect.collect([ROW], lines.append) == first
    assert asked == lines == []


async def test_what_was_found_before_a_stop_is_kept(worker):
    answers, asked = worker
    answers["accuracy_surroundings"] = lambda **_: Stopped()
    with pytest.raises(Stopped):
        await collect.collect([ROW], lambda line: None)
    asked.clear()
    answers["accuracy_surroundings"] = {"ops": [], "peaks": {}}
    await collect.collect([ROW], lambda line: None)
    assert methods(asked) == ["prepare", "surroundings"]  # the points were kept


async def test_a_row_that_fails_says_why_and_the_next_goes_on(worker):
    answers, _ = worker
    answers["accuracy_prepare"] = lambda row: (
        WorkerError("ValueError", "ValueError: no such shape", "")
        if row["id"] == "a"
        else {"artifact_b64": "", "kernels": []}
    )
    found = await collect.collect([ROW, OTHER], lambda line: None)
    assert "no such shape" in found["a"]["reason"]
    assert "reason" not in found["b"]


async def test_a_profile_that_fails_on_a_type_is_tried_without_masks(worker):
    answers, asked = worker
    answers["accuracy_point"] = lambda without_masks, **_: (
        {"cycles": 7, "vmem_bytes": 0} if without_masks else WorkerDied("LLO_CHECK failure type_check_result.ok()")
    )
    found = await collect.collect([ROW], lambda line: None)
    assert found["a"]["kernels"][0]["jobs"][0]["cycles"] == [7, 7]
    assert [params["without_masks"] for method, params in asked if method == "accuracy_point"] == [False, True] * 2


async def test_a_profile_that_ends_its_worker_otherwise_is_not_tried_again(worker):
    answers, asked = worker
    answers["accuracy_point"] = lambda **_: WorkerDied("Unsupported DMA direction")
    found = await collect.collect([ROW], lambda line: None)
    assert "Unsupported DMA direction" in found["a"]["reason"]
    assert methods(asked) == ["prepare", "point"]


async def test_what_depends_on_data_is_not_asked_for(worker):
    _, asked = worker
    found = await collect.collect(
        [dataclasses.replace(ROW, kernel="ragged_dot", implementation="xla")], lambda line: None
    )
    assert found["a"]["reason"].startswith("data_dependent")
    assert asked == []
