"""Kernels watched under jax's TPU interpreter: the right ones are silent, seeded defects are told by kind and line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from defects import DEFECTS, FAMILIES

# One of each kind, in families that take a second each; `python -m hawkeye_mcp.sanitizer.score` takes all.
SAMPLE = {
    "uninitialised_read": ("signals", "half of a scratch is written", 16),
    "unwritten_output": ("stencil", "odd blocks are not stored", 14),
    "ragged_edge": ("row_sum", "a mask by multiplication", 22),
    "parallel_carry": ("row_sum", "the reduced axis is parallel", 23),
    "out_of_bounds": ("stream", "writes one chunk too far", 32),
    "read_before_wait": ("stream", "the wrong slot is read", 30),
    "dma_never_waited": ("stream", "the copy out is not waited for", 32),
    "wait_never_ends": ("signals", "waits for more than was sent", 15),
    "semaphore_not_zero": ("stencil", "a wait for fewer rows than were copied", 17),
    "race": ("stream", "what is copied out is overwritten before it has left", 33),
    "input_written": ("stream", "the copy goes back into the input", 32),
    "undeclared_alias": ("signals", "the workload's input is overwritten", 29),
    "block_out_of_bounds": ("row_sum", "the output's map is one block off", 36),
    "revisited_out_of_order": ("row_sum", "the reduced axis comes first", 29),
}
STATIC = ("undeclared_alias", "block_out_of_bounds")
SILENT = ("row_sum", "stream", "edge")


def _number(family, name):
    return next(i for i, defect in enumerate(DEFECTS) if (defect.family, defect.name) == (family, name))


def _run(*names):
    command = [sys.executable, str(Path(__file__).parent / "watched.py"), *names]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"}, check=True
    )
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def seen():
    names = [
        f"{family}:{_number(family, name)}@{'static' if kind in STATIC else 'one_core'}"
        for kind, (family, name, _) in SAMPLE.items()
    ]
    edge = [f"edge:{number}@one_core" for number, defect in enumerate(DEFECTS) if defect.family == "edge"]
    return _run(*(f"{family}@one_core" for family in SILENT), *names, *edge)


@pytest.mark.parametrize("family", SILENT)
def test_a_right_kernel_is_silent_and_every_check_ran(seen, family):
    assert seen[family]["findings"] == []
    assert {"uninitialised", "out_of_bounds", "dma", "semaphores", "revisits", "parallel", "races"} <= set(
        seen[family]["ran"]
    )


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_seeded_defect_is_told_by_its_kind_and_line(seen, kind):
    family, name, line = SAMPLE[kind]
    found = seen[f"{family}:{_number(family, name)}"]
    assert (kind, line) in [(finding["kind"], finding["line"]) for finding in found["findings"]], found


def test_a_copy_may_reach_into_the_tiles_that_hold_an_array_and_no_further(seen):
    unmasked = seen[f"edge:{_number('edge', 'what a copy brings from past the edge is not masked')}"]
    assert [(found["kind"], found["line"]) for found in unmasked["findings"]] == [("ragged_edge", 20)]
    further = seen[f"edge:{_number('edge', 'copies from the tile after the last')}"]
    assert ("out_of_bounds", 17) in [(found["kind"], found["line"]) for found in further["findings"]]


@pytest.mark.slow
def test_two_cores_race_where_they_share_a_block_and_nowhere_else():
    wrong = f"row_sum:{_number('row_sum', 'the reduced axis comes first')}"
    found = _run("row_sum@two_cores", f"{wrong}@two_cores")
    assert found["row_sum"]["ran"] == ["two_cores"]
    assert found["row_sum"]["findings"] == []
    assert "race" in {finding["kind"] for finding in found[wrong]["findings"]}


def test_every_kind_is_seeded_in_several_families():
    families = {}
    for defect in DEFECTS:
        families.setdefault(defect.kind, set()).add(defect.family)
        assert defect.source() != (FAMILIES / f"{defect.family}.py").read_text("utf-8")
    assert set(families) == set(SAMPLE)
    assert len(DEFECTS) >= 40
    assert all(len(names) >= 2 or kind in ("race",) for kind, names in families.items())
