"""Verify cells: both kernels through the judge, every claim against the compiler. What is finished is kept."""

import contextlib
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import platformdirs
from pydantic import ValidationError

import hawkeye_mcp
from hawkeye_mcp import state, taxonomy
from hawkeye_mcp.judge.evaluate import SEEDS, Judge, Known, open_judge
from hawkeye_mcp.judge.workers import Worker
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.taxonomy_check import source
from hawkeye_mcp.taxonomy_check.report import Figure, Verified
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Workload, find

AT_ONCE = 2
LEAST_FLOOR_US = 50.0  # below, what a cell shows is launch cost and DMA latency
FACTS_LIMIT_S = 60.0
DRAWS = 2 * SEEDS["check"]  # of each kernel, over both sizes
QUOTED_WITHIN = 0.05  # what a guide quotes is rounded
_JUDGING = ("candidate", "judge", "profiler", "taxonomy_check")  # packages that a result depends on
# A cell's kernel is named as in its guide; the judge takes what is named like this.
_ENTRY = "\n\nworkload = kernel\n"
KERNELS = ("naive", "optimized")


@dataclass
class _Kernel:
    profile: Profile | None = None
    seeds: int = 0
    problems: list[str] = field(default_factory=list)


async def chip_facts(tpus: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Facts of chips by name, from a worker: this process does not import jax."""
    worker = await Worker.start("verifier")
    try:
        return {tpu: await worker.call("chip_facts", {"tpu": tpu}, FACTS_LIMIT_S) for tpu in tpus}
    finally:
        await worker.close()


async def verify(
    wanted: Sequence[tuple[str, str]],
    *,
    fresh: bool,
    done: Callable[[Verified], None],
    progress: Callable[[str], None] = lambda stage: None,
) -> list[Verified]:
    """Verify cells, each a chip and a row, two at a time; the results in the order asked for.

    fresh: do not take results that were kept from the same cell and the same judge.

    Raises:
        source.BrokenSource: a row's source cannot be read.
        taxonomy.UnknownCell: no such cell.
    """
    progress("reading the facts of the chips")
    facts = await chip_facts(list(dict.fromkeys(tpu for tpu, _ in wanted)))
    code = _code_digest()
    paths = {(tpu, row): _path(tpu, row, facts[tpu], code) for tpu, row in wanted}
    found: dict[tuple[str, str], Verified] = {}
    # a row's chips follow each other: what its kernels and their draws have in common is then found once
    left = iter(sorted(wanted, key=lambda pair: pair[1]))
    with tempfile.TemporaryDirectory(prefix="hawkeye-taxonomy-") as scratch:
        async with open_judge() as judge, anyio.create_task_group() as tasks:
            known = Known()

            async def one(judge: Judge, tpu: str, row: str) -> None:
                path = paths[tpu, row]
                kept = None if fresh else _read(path)
                if not kept:
                    progress(f"{row} on {tpu}")
                result = kept or await _verify(judge, tpu, row, facts[tpu], Path(scratch), known)
                if not kept and result.ok:
                    state.write_atomically(path, result.model_dump_json(indent=1) + "\n")
                found[tpu, row] = result
                done(result)

            async def lane() -> None:
                """Cells one after the other; a sandbox is shared by those of one row."""
                async with contextlib.AsyncExitStack() as held:
                    last, own = "", judge
                    for tpu, row in left:
                        if row != last:
                            await held.aclose()
                            last, own = row, await held.enter_async_context(judge.of_one_author())
                        await one(own, tpu, row)

            for _ in range(AT_ONCE):
                tasks.start_soon(lane)
    return [found[pair] for pair in wanted]


async def _verify(judge: Judge, tpu: str, row: str, facts: Mapping[str, Any], scratch: Path, known: Known) -> Verified:
    start = time.monotonic()
    cell = taxonomy.cell(tpu, row)
    problem, second = (_workload(scratch, row, source.problem(row, facts, second=other)) for other in (False, True))
    looked = {name: _Kernel() for name in KERNELS}
    for name, text in zip(KERNELS, (cell.naive_kernel, cell.optimized_kernel), strict=True):
        await _look(judge, looked[name], text + _ENTRY, problem, second, tpu, known)
    problems = [f"{name}: {problem}" for name in KERNELS for problem in looked[name].problems]
    told = source.params(row, tpu)
    problems += [said for name in KERNELS if (seen := looked[name].profile) for said in misquoted(told, name, seen)]
    return _judged(cell, looked["naive"], looked["optimized"], problems, time.monotonic() - start)


async def _look(
    judge: Judge, into: _Kernel, kernel: str, problem: Workload, second: Workload, tpu: str, known: Known
) -> None:
    """A kernel's profile, if its results are right at both sizes."""
    found = await judge.examine(kernel, problem, second, tpu, known)
    into.seeds, profile = found.seeds, found.profile
    if profile.status != "profiled":
        into.problems.append(f"{profile.message} {profile.compiler_message or ''}".strip())
        return
    into.profile = profile
    if profile.predicted_us is None or not profile.timing or profile.timing.lower_bound:
        notes = "; ".join(profile.timing.notes if profile.timing else [])
        into.problems.append(f"its time is not predicted: {notes or 'no reason is known'}")


def _judged(cell: taxonomy.Cell, naive: _Kernel, optimized: _Kernel, problems: list[str], seconds: float) -> Verified:
    claim = cell.config["predicted_speedup"]["range"]
    low, high = float(claim[0]), float(claim[1])
    before, after = naive.profile, optimized.profile
    figures = [figure(each, before, after) for each in cell.config["counters"]]
    if before and after:
        problems += [_unmoved(each) for each in figures if not each.claim_holds]
    naive_us, optimized_us = (profile.predicted_us if profile else None for profile in (before, after))
    speedup = naive_us / optimized_us if naive_us and optimized_us else None
    if speedup is not None and not low <= speedup <= high:
        problems.append(f"the predicted speedup is {speedup:.3g}, claimed are {low:g} to {high:g}")
    floor_us = after.roofline.best_us if after and after.roofline else None
    if floor_us is not None and floor_us < LEAST_FLOOR_US:
        problems.append(
            f"the work takes {floor_us:.3g} us at least, too little beside launch cost: enlarge the full size"
        )
    return Verified(
        row=cell.row,
        tpu=cell.tpu,
        ok=not problems,
        applies=cell.config["applies"],
        naive_us=naive_us,
        optimized_us=optimized_us,
        predicted_speedup=None if speedup is None else float(f"{speedup:.4g}"),
        claimed_speedup=(low, high),
        floor_us=floor_us,
        counters=figures,
        same_result=min(naive.seeds, optimized.seeds) == DRAWS,
        seeds=min(naive.seeds, optimized.seeds),
        named_by_profile=any(finding.taxonomy_row == cell.row for finding in before.findings) if before else None,
        problems=problems,
        seconds=round(seconds, 1),
    )


def figure(claim: Mapping[str, Any], before: Profile | None, after: Profile | None) -> Figure:
    """A claimed figure as both profiles have it."""
    naive, optimized = (None if profile is None else value(profile, claim["name"]) for profile in (before, after))
    ratio, ok = None, False
    if naive is not None and optimized is not None:
        over, under = (naive, optimized) if claim["direction"] == "down" else (optimized, naive)
        ratio = over / under if under else None
        ok = over > 0 and over >= claim["least_ratio"] * under
    return Figure(
        name=claim["name"],
        direction=claim["direction"],
        naive=naive,
        optimized=optimized,
        ratio=None if ratio is None else float(f"{ratio:.4g}"),
        least_ratio=claim["least_ratio"],
        claim_holds=ok,
    )


def value(profile: Profile, name: str) -> float | None:
    """One figure of a profile over the whole program: a counter, or one of those that a program has beside them.

    kernels: runs of kernels. grid_steps: of all runs. hbm_bytes: of the whole program, XLA's operations too.
    vmem_bytes, vmem_window_bytes: the most that one kernel takes, and of that the windows of its blocks.
    """
    if name in profile.counters:
        return profile.counters[name].total
    match name:
        case "kernels":
            return float(sum(kernel.calls for kernel in profile.kernels))
        case "grid_steps":
            return float(sum(kernel.calls * math.prod(kernel.grid) for kernel in profile.kernels))
        case "vmem_window_bytes":
            return float(
                max(
                    (sum(b.bytes for b in kernel.buffers if b.kind == "window" and b.space == "vmem"))
                    for kernel in profile.kernels
                )
            )
        case "vmem_bytes" | "hbm_bytes":
            known = profile.vmem_bytes if name == "vmem_bytes" else profile.hbm_bytes
            return None if known is None else float(known)
    return None


def misquoted(params: Mapping[str, Any], name: str, profile: Profile) -> list[str]:
    """Parameters such as naive_us or optimized_hbm_bytes, which a guide quotes, that are not what the profile says.

    name: of the kernel that the profile is of. A parameter is a number, or a text such as "1,234" or "2.5 million".
    """
    found = []
    for param, quoted in params.items():
        kernel, _, figure = param.partition("_")
        if kernel != name:
            continue
        known = profile.predicted_us if figure == "us" else value(profile, figure)
        if known is not None and not math.isclose(_number(quoted), known, rel_tol=QUOTED_WITHIN, abs_tol=0.5):
            found.append(f"cell.toml quotes {param} = {quoted}; the profile says {known:.4g}")
    return found


def _number(quoted: Any) -> float:
    """Not a number for what no profile could bear out."""
    amount, _, scale = str(quoted).replace(",", "").partition(" ")
    try:
        return float(amount) * {"": 1.0, "million": 1e6}[scale]
    except (ValueError, KeyError):
        return math.nan


def _unmoved(found: Figure) -> str:
    if found.naive is None or found.optimized is None:
        return f"{found.name} is not known of both kernels"
    moved = "nothing above 0" if found.ratio is None else f"a ratio of {found.ratio:g}"
    return (
        f"{found.name} goes from {found.naive:g} to {found.optimized:g}, {moved};"
        f" claimed is {found.direction} by {found.least_ratio:g} at least"
    )


def _workload(scratch: Path, row: str, texts: Mapping[str, str]) -> Workload:
    """A workload folder for a row's problem, the same for all chips on which the problem is the same."""
    digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
    folder = scratch / digest / row
    for name, text in texts.items():
        state.write_atomically(folder / name, text)
    return find(f"{folder}/")


def _code_digest() -> str:
    root = Path(hawkeye_mcp.__file__).parent
    digest = hashlib.sha256(json.dumps(versions().model_dump(), sort_keys=True).encode())
    for package in (".", *_JUDGING):
        for path in sorted([*(root / package).glob("*.py"), *(root / package).glob("*.json")]):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _path(tpu: str, row: str, facts: Mapping[str, Any], code: str) -> Path:
    digest = hashlib.sha256(code.encode())
    cell = taxonomy.cell(tpu, row)
    texts = [*source.problem(row, facts).values(), *source.problem(row, facts, second=True).values()]
    for text in (cell.naive_kernel, cell.optimized_kernel, json.dumps(cell.config), *texts):
        digest.update(text.encode() + b"\0")
    root = Path(os.environ.get("HAWKEYE_CACHE") or platformdirs.user_cache_dir("hawkeye-mcp"))
    return root / "cells" / f"{tpu}-{row}-{digest.hexdigest()[:16]}.json"


def _read(path: Path) -> Verified | None:
    with contextlib.suppress(FileNotFoundError, ValidationError):
        return Verified.model_validate_json(path.read_bytes())
    return None
