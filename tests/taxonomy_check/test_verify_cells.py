"""Whether a cell that does not hold is found out: by figures, by time, by results, by size."""

import json
from pathlib import Path
from typing import Any

import pytest
from rows import CELL, KERNEL, TOML, taxonomy_of

from hawkeye_mcp import state, taxonomy
from hawkeye_mcp.evaluation import Timing
from hawkeye_mcp.judge.evaluate import Examined, Judge, Known, open_judge
from hawkeye_mcp.profile import Buffer, Count, Finding, KernelProfile, Profile, Roofline
from hawkeye_mcp.taxonomy import Cell
from hawkeye_mcp.taxonomy_check import render, runner
from hawkeye_mcp.taxonomy_check.runner import _Kernel, figure, value
from hawkeye_mcp.tools.read_taxonomy_cell import listing
from hawkeye_mcp.versions import versions


def profile(
    us: float | None = 100.0, *, steps: int = 8, best_us: float = 80.0, rows: tuple[str, ...] = (), **counts: float
) -> Profile:
    return Profile(
        status="profiled", message="", next_step="", workload="w", tpu="v5e", kernel_sha256="0", isolation="rlimits",
        predicted_us=us, timing=Timing(source="predicted" if us else None, candidate_us=us, baseline_us=None, speedup=None, ops=[]),
        counters={name: Count(total=total, unit="count") for name, total in counts.items()},
        kernels=[
            KernelProfile(name="a", grid=[steps, 2], calls=3, buffers=[
                Buffer(name="x", kind="window", space="vmem", bytes=64, copies=2),
                Buffer(name="s", kind="scratch", space="vmem", bytes=1000),
                Buffer(name="p", kind="window", space="smem", bytes=7),
            ]),
            KernelProfile(name="b", grid=[], calls=1),
        ],
        roofline=Roofline(ceilings=[], binding="hbm", best_us=best_us, best_speedup=None, intensity=None),
        findings=[Finding(text="", taxonomy_row=row) for row in rows], hbm_bytes=4096, vmem_bytes=1064, versions=versions(),
    )  # fmt: skip


def cell(*claims: tuple[str, str, float], speedup: tuple[float, float] = (1.5, 3), applies: bool = True) -> Cell:
    counters = [dict(zip(("name", "direction", "least_ratio"), claim, strict=True)) for claim in claims]
    config = {"predicted_speedup": {"range": list(speedup)}, "counters": counters, "applies": applies}
    return Cell(
        row="01_x", tpu="v5e", title="", one_line="", guide="", naive_kernel="", optimized_kernel="", config=config
    )


def judged(of: Cell, naive: Profile | None, optimized: Profile | None, *problems: str):
    return runner._judged(of, _Kernel(naive, 6), _Kernel(optimized, 6), list(problems), 1.0)


def test_figures_that_a_program_has_beside_its_counters() -> None:
    seen = profile(steps=5, valu_ops=12)
    assert {name: value(seen, name) for name in ("kernels", "grid_steps", "vmem_window_bytes", "vmem_bytes", "hbm_bytes", "valu_ops")} == {
        "kernels": 4, "grid_steps": 3 * 10 + 1, "vmem_window_bytes": 64, "vmem_bytes": 1064, "hbm_bytes": 4096, "valu_ops": 12,
    }  # fmt: skip
    assert value(seen, "mxu_matmuls") is None


@pytest.mark.parametrize(
    ("direction", "naive", "optimized", "ratio", "ok"),
    [
        ("down", 100, 20, 5.0, True),
        ("down", 100, 26, 3.846, False),
        ("down", 20, 100, 0.2, False),
        ("up", 20, 100, 5.0, True),
        ("up", 100, 20, 0.2, False),
        ("up", 0, 7, None, True),
        ("down", 7, 0, None, True),
        ("down", 0, 0, None, False),
        ("up", None, 7, None, False),
    ],
)
def test_a_claim_holds_by_its_direction_and_least_ratio(direction, naive, optimized, ratio, ok) -> None:
    before, after = (profile(**({} if n is None else {"valu_ops": n})) for n in (naive, optimized))
    found = figure({"name": "valu_ops", "direction": direction, "least_ratio": 4}, before, after)
    assert (found.ratio, found.claim_holds) == (ratio, ok)


def test_a_cell_holds_when_all_of_it_does() -> None:
    found = judged(cell(("valu_ops", "down", 4)), profile(200, valu_ops=50, rows=("01_x",)), profile(100, valu_ops=10))
    assert found.ok
    assert (found.predicted_speedup, found.naive_us, found.optimized_us, found.seeds) == (2.0, 200, 100, 6)
    assert found.named_by_profile


@pytest.mark.parametrize(
    ("of", "naive", "optimized", "said"),
    [
        (
            cell(("valu_ops", "down", 4)),
            profile(200, valu_ops=30),
            profile(100, valu_ops=10),
            "from 30 to 10, a ratio of 3;",
        ),
        (cell(("valu_ops", "down", 4)), profile(200, valu_ops=30), profile(100), "not known of both"),
        (cell(), profile(400), profile(100), "speedup is 4, claimed are 1.5 to 3"),
        (cell(speedup=(0.97, 1.03), applies=False), profile(200), profile(100), "speedup is 2, claimed are 0.97"),
        (cell(), profile(200), profile(100, best_us=49), "takes 49 us at least, too little"),
    ],
)
def test_a_cell_that_does_not_hold_says_why(of: Cell, naive: Profile, optimized: Profile, said: str) -> None:
    found = judged(of, naive, optimized)
    assert not found.ok
    assert len(found.problems) == 1
    assert said in found.problems[0]


def test_without_a_profile_nothing_is_claimed() -> None:
    found = judged(cell(("valu_ops", "down", 4)), profile(200, valu_ops=30), None, "optimized: refused")
    assert found.problems == ["optimized: refused"]
    assert (found.predicted_speedup, found.optimized_us, found.counters[0].claim_holds) == (None, None, False)


@pytest.mark.parametrize(
    ("quoted", "said"),
    [
        ({"naive_us": 104}, []),
        ({"naive_us": "1,200"}, ["cell.toml quotes naive_us = 1,200; the profile says 1000"]),
        ({"naive_valu_ops": "2.5 million"}, []),
        ({"naive_valu_ops": "2.5"}, ["cell.toml quotes naive_valu_ops = 2.5; the profile says 2.5e+06"]),
        ({"naive_us": "?"}, ["cell.toml quotes naive_us = ?; the profile says 1000"]),
        ({"optimized_us": 7, "naive_block": 8}, []),
    ],
)
def test_what_a_guide_quotes_is_what_the_profile_says(quoted: dict[str, Any], said: list[str]) -> None:
    us = 1000.0 if said and "naive_us" in quoted else 100.0
    assert runner.misquoted(quoted, "naive", profile(us, valu_ops=2.5e6)) == said


class Told:
    """A judge that finds what it is told to."""

    def __init__(self, seen: Profile) -> None:
        self.seen = seen

    async def examine(self, *asked: Any) -> Examined:
        return Examined(self.seen, 6)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (profile(), []),
        (profile(None), ["its time is not predicted: no reason is known"]),
        (profile().model_copy(update={"status": "compile_error", "message": "No."}), ["No."]),
        (
            profile().model_copy(
                update={"timing": profile().timing.model_copy(update={"lower_bound": True, "notes": ["data"]})}
            ),
            ["its time is not predicted: data"],
        ),
    ],
)
async def test_a_kernel_is_right_and_has_a_time(seen: Profile, said: list[str]) -> None:
    into = _Kernel()
    await runner._look(Told(seen), into, "text", "first", "second", "v5e", Known())  # type: ignore[arg-type]
    assert into.problems == said
    assert into.seeds == 6


# --- the whole way, with the real judge and compiler

LARGE = TOML.replace("full = { M = 64 }", "full = { M = 4194304 }").replace(
    "least_bytes = 8192", "least_bytes = 4294967296"
)
BLOCKS = {"naive": "1024", "optimized": "8192"}


def kernels(wrong: str = "") -> dict[str, str]:
    """Blocks of 1024 and 8192 rows; at the check sizes one block. wrong: the kernel that computes something else."""
    return {
        f"{name}_kernel.py.j2": KERNEL.replace("{{ BLOCK }}", rows)
        .replace("{{ EXPRESSION }}", "3" if name == wrong else "2")
        .replace("BLOCK, 128", "min(BLOCK, x.shape[0]), 128")
        .replace("// BLOCK", "// min(BLOCK, x.shape[0])")
        for name, rows in BLOCKS.items()
    }


CLAIMS = CELL.replace("[2, 4]", "[1.01, 3]").replace("least_ratio = 4", "least_ratio = 8")


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_wrong_kernel_is_found_and_a_right_one_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(render, "TPUS", ("v5e",))
    found = {}
    for wrong in ("", "optimized"):
        with monkeypatch.context() as patch:
            taxonomy_of(
                tmp_path / f"of {wrong}", patch, **{"workload.toml": LARGE, "cell.toml": CLAIMS}, **kernels(wrong)
            )
            for path, text in (await render.cells(["01_copy"])).items():
                state.write_atomically(path, text)
            told: list[Any] = []
            (found[wrong],) = await runner.verify([("v5e", "01_copy")], fresh=False, done=told.append)
            assert told == [found[wrong]]
    assert found[""].problems == []
    assert (found[""].seeds, found[""].same_result, found["optimized"].same_result) == (6, True, False)
    assert [(f.naive, f.optimized, f.ratio) for f in found[""].counters] == [(4096, 512, 8.0)]
    assert [problem.split(" at ")[0] for problem in found["optimized"].problems] == ["optimized: Wrong"]
    kept = list((tmp_path / "cache" / "cells").iterdir())
    assert [json.loads(path.read_text())["ok"] for path in kept] == [True]


class AsV5e:
    """The real judge, whose compiler takes a chip that there is none of for a v5e."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    async def examine(self, kernel: str, problem: Any, second: Any, tpu: str, known: Any) -> Examined:
        return await self.judge.examine(kernel, problem, second, "v5e", known)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_new_generation_is_a_table_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = CLAIMS + "\n[v9]\npredicted_speedup = [1.01, 3]\nparams = { block = 16384 }\n"
    taxonomy_of(tmp_path, monkeypatch, **{"workload.toml": LARGE, "cell.toml": claims}, **kernels())
    facts = {"name": "v9", "mxu_side": 512}

    async def chip_facts(tpus: Any) -> dict[str, Any]:
        return {tpu: facts for tpu in tpus}

    monkeypatch.setattr(render, "TPUS", ("v9",))
    monkeypatch.setattr(render, "chip_facts", chip_facts)
    for path, text in (await render.cells(["01_copy"])).items():
        state.write_atomically(path, text)
    assert taxonomy.tpus() == ["v9"]
    assert "An MXU here has a side of 512" in taxonomy.cell("v9", "01_copy").guide
    assert "- 01_copy: Copy in large blocks. When steps" in listing("v9", "real")
    async with open_judge() as judge:
        found = await runner._verify(AsV5e(judge), "v9", "01_copy", facts, tmp_path / "scratch", Known())  # type: ignore[arg-type]
    assert (found.tpu, found.problems, found.same_result) == ("v9", [], True)
    assert found.counters[0].ratio == 8
