"""How good the sanitizer is: false alarms on right kernels, and seeded defects found.

`python -m hawkeye_mcp.sanitizer.score [CORPUS ...] [--out FILE]` in a checkout: fixtures (tests/kernels), cells (the
taxonomy's kernels of all chips, each text once), public (what jax ships), tokamax (where it is installed), families and
defects (tests/sanitizer), and mutants: fixtures and v5e's cells changed by rule at the first place where a rule fits,
written before it was known what is found of them. Some of these are no defect: an axis that carries nothing may be
parallel. It takes an hour; every result is written to FILE as it comes, and those that are there already are not made
again.
"""

import argparse
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from hawkeye_mcp import content, kernels, workloads
from hawkeye_mcp.chips import CHIPS, TPUS
from hawkeye_mcp.sanitizer import public_kernels, tokamax_kernels
from hawkeye_mcp.sanitizer.corpus import Case, case
from hawkeye_mcp.sanitizer.model import Setting
from hawkeye_mcp.sanitizer.replies import Seen
from hawkeye_mcp.sanitizer.run import Sanitizer, open_sanitizer

ROOT = Path(__file__).parents[2]
CORPORA = ("fixtures", "cells", "public", "tokamax", "families", "defects", "mutants")
# What is replaced, by what, and the kinds of finding that are right.
_RULES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "no start": (r"(@pl\.when\([^\n]*) == 0\)", r"\1 == -1)", ("uninitialised_read", "wait_never_ends")),
    "no end": (r"(@pl\.when\([^\n]*num_programs\(\d\)) - 1\)", r"\1)", ("unwritten_output", "out_of_bounds")),
    "parallel": (r'"arbitrary"\)', '"parallel")', ("parallel_carry",)),
    "no wait": (
        r"(\n +)\w+\.wait\(\)",
        r"\1pass",
        ("dma_never_waited", "read_before_wait", "race", "uninitialised_read"),
    ),
}
_ALL: tuple[Setting, ...] = ("static", "one_core", "two_cores")
_ONE: tuple[Setting, ...] = ("static", "one_core")


@dataclass(frozen=True)
class Subject:
    """One kernel text. wanted: the kinds of finding of which one is right; none where it must be silent."""

    corpus: str
    name: str
    source: str
    tpu: str
    settings: tuple[Setting, ...]
    workload: str = ""
    case: Case | None = None
    wanted: tuple[str, ...] = ()
    line: int = 0
    chips: tuple[str, ...] = field(default=())

    @property
    def key(self) -> str:
        return f"{self.corpus}/{self.name}/{self.tpu}/{kernels.sha256(self.source)[:12]}"


def subjects(chosen: Sequence[str], scratch: Path, facts: dict[str, Any]) -> Iterator[Subject]:
    for path in sorted((ROOT / "tests" / "kernels").glob("[0-9]*.py")) if "fixtures" in chosen else []:
        workload = path.stem.removesuffix("_slow")
        yield Subject("fixtures", path.stem, path.read_text("utf-8"), "v5p", _ALL, workload)
    if "cells" in chosen:
        yield from _cells(scratch, facts)
    if "mutants" in chosen:
        right = [*subjects(["fixtures"], scratch, facts), *(s for s in _cells(scratch, facts) if s.tpu == "v5e")]
        yield from _mutants(right)
    for one in public_kernels.cases() if "public" in chosen else []:
        yield Subject("public", one.name, one.source, "v5p", _ALL, case=one)
    for one in tokamax_kernels.cases() if "tokamax" in chosen else []:
        wanted = tokamax_kernels.FOUND.get(one.name, ())
        yield Subject("tokamax", one.name, one.source, "v5p", _ALL, case=one, wanted=wanted)
    folder = ROOT / "tests" / "sanitizer"
    for path in sorted((folder / "families").glob("*.py")) if "families" in chosen else []:
        family = case(path.stem, path.read_text("utf-8"))
        yield Subject("families", path.stem, family.source, "v5p", _ALL, case=family)
    for defect in _module(folder / "defects.py").DEFECTS if "defects" in chosen else []:
        name = f"{defect.family}: {defect.name}"
        seeded = case(defect.family, defect.source())
        wanted = (defect.kind, *defect.also)
        yield Subject("defects", name, seeded.source, "v5e", _ONE, case=seeded, wanted=wanted, line=defect.line)


def _cells(scratch: Path, facts: dict[str, Any]) -> Iterator[Subject]:
    """Kernels of the taxonomy; the same text on the same problem is one subject, of the first chip that has it."""
    from hawkeye_mcp.taxonomy_check import source

    found: dict[tuple[str, str, str], tuple[Subject, list[str]]] = {}
    for row in source.rows():
        for tpu in TPUS:
            folder = scratch / kernels.sha256(json.dumps(source.problem(row, facts[tpu])))[:12] / row
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in source.problem(row, facts[tpu]).items():
                (folder / name).write_text(text, encoding="utf-8")
            for part in ("naive_kernel.py", "optimized_kernel.py"):
                text = (content.folder("taxonomy") / tpu / row / part).read_text("utf-8") + "\n\nworkload = kernel\n"
                settings = _ALL if tpu in ("v5p", "7x") else _ONE
                subject = Subject("cells", f"{row}/{part.split('_')[0]}", text, tpu, settings, f"{folder}/")
                found.setdefault((row, text, str(folder)), (subject, []))[1].append(tpu)
    for subject, _ in found.values():
        yield subject


def _mutants(right: Sequence[Subject]) -> Iterator[Subject]:
    for subject in right:
        for rule, (old, new, wanted) in _RULES.items():
            found = re.search(old, subject.source)
            if found:
                source = re.sub(old, new, subject.source, count=1)
                line = subject.source[: found.end()].count("\n") + 1
                name = f"{subject.name}: {rule}"
                yield Subject("mutants", name, source, "v5e", _ONE, subject.workload, wanted=wanted, line=line)


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


async def results(sanitizer: Sanitizer, chosen: Sequence[Subject]) -> AsyncIterator[dict[str, Any]]:
    for number, subject in enumerate(chosen):
        if number + 1 < len(chosen):
            sanitizer.warm(chosen[number + 1].tpu)
        start = time.monotonic()
        seen = await _examined(sanitizer, subject)
        kinds = [[finding.kind, finding.line] for finding in seen.findings]
        yield {
            "key": subject.key,
            "corpus": subject.corpus,
            "name": subject.name,
            "tpu": subject.tpu,
            "wanted": list(subject.wanted),
            "found": kinds,
            "right": _right(subject, seen),
            "first_kind": bool(subject.wanted) and subject.wanted[0] in {kind for kind, _ in kinds},
            "line_off": _off(subject, seen),
            "ran": "uninitialised" in seen.checks,
            "failed": seen.failed,
            "checks": seen.checks,
            "not_checked": [f"{skip.check}: {skip.reason}" for skip in seen.not_checked],
            "messages": [finding.message for finding in seen.findings][:5],
            "seconds": round(time.monotonic() - start, 2),
            "stages_s": seen.seconds,
        }


async def _examined(sanitizer: Sanitizer, subject: Subject) -> Seen:
    if subject.case:
        full, inputs = subject.case.full, subject.case.inputs
    else:
        workload = workloads.find(subject.workload)
        full, inputs = workload.shapes(workload.inputs, "full"), await sanitizer.draw(workload)
    return await sanitizer.examine(subject.source, full, inputs, subject.tpu, subject.settings)


def _right(subject: Subject, seen: Seen) -> bool:
    if not subject.wanted:
        return not seen.findings and not seen.failed
    return any(finding.kind in subject.wanted for finding in seen.findings)


def _off(subject: Subject, seen: Seen) -> int | None:
    """Lines between the change and the nearest finding of a right kind."""
    lines = [finding.line for finding in seen.findings if finding.kind in subject.wanted and finding.line]
    return min((abs(line - subject.line) for line in lines), default=None) if subject.line else None


def _alarm(row: dict[str, Any]) -> bool:
    return not {kind for kind, _ in row["found"]} <= set(row["wanted"])


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for name in CORPORA:
        of = [row for row in rows if row["corpus"] == name]
        if not of:
            continue
        took = sorted(row["seconds"] for row in of)
        if name in ("defects", "mutants"):
            hit = sum(row["right"] for row in of)
            lines.append(f"{name}: {hit} of {len(of)} found ({hit / len(of):.1%}); ")
            lines[-1] += f"as the kind they were seeded as {sum(row['first_kind'] for row in of)}; "
            near = [row["line_off"] for row in of if row["line_off"] is not None]
            lines[-1] += f"within 3 lines of the change {sum(off <= 3 for off in near)} of {len(near)} that have a line"
            for row in of:
                if not row["right"]:
                    lines.append(f"  missed: {row['name']} ({row['wanted'][0]}): found {row['found']} {row['failed']}")
        else:
            ran = [row for row in of if row["ran"]]
            alarms = [row for row in of if _alarm(row)]
            lines.append(f"{name}: {len(of)} kernels, {len(ran)} run, {len(alarms)} false alarms")
            for row in of:
                if row["wanted"] and not _alarm(row):
                    lines.append(f"  a defect of its own: {row['name']}: {row['wanted']}, found {row['found']}")
                elif row["found"]:
                    lines.append(f"  false alarm: {row['name']} ({row['tpu']}): {row['found']} {row['messages'][:1]}")
                elif not row["ran"]:
                    why = row["failed"] or next((r for r in row["not_checked"] if r.startswith("uninit")), "")
                    lines.append(f"  not run: {row['name']} ({row['tpu']}): {why}")
        lines.append(f"  seconds each: median {took[len(took) // 2]:.1f}, longest {took[-1]:.1f}")
    return "\n".join(lines)


async def scored(chosen: Sequence[str], out: Path | None) -> list[dict[str, Any]]:
    from hawkeye_mcp.taxonomy_check.runner import chip_facts

    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    facts = await chip_facts(list(CHIPS)) if {"cells", "mutants"} & set(chosen) else {}
    with tempfile.TemporaryDirectory(prefix="hawkeye-sanitizer-score-") as scratch:
        wanted = list(subjects(chosen, Path(scratch), facts))
        keys = {subject.key for subject in wanted}
        rows = [row for row in rows if row["key"] in keys]
        done = {row["key"] for row in rows}
        async with open_sanitizer() as sanitizer:
            async for row in results(sanitizer, [subject for subject in wanted if subject.key not in done]):
                rows.append(row)
                mark = "right" if row["right"] else "WRONG"
                print(
                    mark,
                    row["corpus"],
                    row["name"],
                    row["tpu"],
                    row["found"],
                    row["seconds"],
                    file=sys.stderr,
                    flush=True,
                )
                if out:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help=f"of {', '.join(CORPORA)}; default: all")
    parser.add_argument("--out", type=Path, help="JSON Lines file that keeps the results")
    given = parser.parse_args()
    if unknown := set(given.corpora) - set(CORPORA):
        parser.error(f"there is no corpus {', '.join(sorted(unknown))}")
    chosen = given.corpora or CORPORA
    print(table(anyio.run(scored, chosen, given.out)))
    if "tokamax" in chosen and not tokamax_kernels.cases():
        print(tokamax_kernels.MISSING)


if __name__ == "__main__":
    main()
