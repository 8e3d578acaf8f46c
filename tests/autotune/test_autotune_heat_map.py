"""The heat map: which two parameters, what stands in each cell, and that the picture is one."""

import struct

import pytest
from stand_in import SOURCE, StandIn, estimate_us, time_us
from test_autotune_search import run

from hawkeye_mcp.autotune.heat_map import Cell, around, axes_of, cells, png

pytestmark = pytest.mark.anyio
THREE = SOURCE.replace("\n\n", "\nC = 5\n\n", 1)


async def test_each_cell_is_the_best_over_the_other_parameters(tmp_path):
    found = await run(tmp_path, StandIn(), source=THREE, space={"B": [8, 16, 32], "C": [5, 6], "A": [1, 4, 8]})
    assert axes_of(found) == ("B", "A"), "C changes nothing"
    known = cells(found, "B", "A")
    assert known[16, 4] == Cell("timed", 100.0)
    assert known[8, 8] == Cell("timed", time_us(8, 8))
    assert known[32, 4] == known[16, 8] == Cell("refused", None)
    over_a = cells(found, "C", None)
    assert over_a == {(5, None): Cell("timed", 100.0), (6, None): Cell("timed", 100.0)}


async def test_estimates_and_faults_are_told_apart_from_times(tmp_path):
    space = {"A": list(range(1, 11)), "B": [8, 10]}
    found = await run(tmp_path, StandIn(faulty={(9, 8)}), strategy="halving", space=space)
    known = cells(found, "A", "B")
    kinds = {place: cell.kind for place, cell in known.items()}
    assert kinds[4, 10] == "timed"
    assert kinds[9, 8] == "failed"
    left = [place for place, kind in kinds.items() if kind == "estimated"]
    assert left
    assert all(known[place].us == estimate_us(*place) for place in left)
    assert found.counts["estimated"] == len(left)


@pytest.mark.parametrize(("best", "first", "last"), [(None, 1, 24), (1, 1, 24), (13, 1, 24), (20, 8, 31), (40, 17, 40)])
def test_of_many_values_the_best_and_its_neighbours_are_drawn(best, first, last):
    assert around([*range(40, 20, -1), *range(1, 21)], best) == list(range(first, last + 1))
    assert around([8, 4], best) == [4, 8]


@pytest.mark.parametrize(
    ("space", "size"),
    [
        ({"A": [1, 4, 8], "B": [8, 16, 32]}, (840, 455)),
        ({"A": [1, 2, 4]}, (840, 455)),
        ({"A": [9], "B": [32]}, (840, 345)),
    ],
)
async def test_the_picture_is_drawn_whatever_was_found(tmp_path, space, size):
    found = await run(tmp_path, StandIn(), space=space)
    drawn = png(found)
    assert drawn == png(found)
    assert struct.unpack(">II", drawn[16:24]) == size
