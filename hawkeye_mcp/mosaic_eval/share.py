"""How much of known kernels the evaluator can run, whether it agrees with what they compute, and what a census of their
artifacts says, which of right kernels should be nothing.

Kernels of a folder and cells are held against their workload's oracle, at check size, by its gate; jax's own against
jax's interpreter, or a reference where that cannot run them. All code here is this package's own or jax's: nothing is
sandboxed. `python -m hawkeye_mcp.mosaic_eval.share --kernels tests/kernels`.
"""

import base64
import importlib.util
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args

import jax
import numpy as np
import typer
from jax import export

from hawkeye_mcp import artifact, state, taxonomy, workloads
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.chips import CHIPS, DEFAULT_TPU
from hawkeye_mcp.commands import options
from hawkeye_mcp.evaluation import Model
from hawkeye_mcp.judge import verify
from hawkeye_mcp.judge.same_work import same_work
from hawkeye_mcp.mosaic_eval import census, public
from hawkeye_mcp.mosaic_eval.errors import Ended, Exhausted, Fault
from hawkeye_mcp.mosaic_eval.program import runnable

# jax's own: the norm of the difference over that of the reference. Orders of summation differ, and what bfloat16 results
# are rounded from; a wrong operation gives more.
AGREES_WITHIN = 5e-3


class Tried(Model):
    """One kernel. detail: the operation, the error or the largest difference. census: what comparing its artifacts says,
    which of a right kernel is an alarm; told: what it says beside.
    """

    group: str
    name: str
    outcome: str
    detail: str
    seconds: float
    census: str = ""
    told: str = ""

    def line(self) -> str:
        said = "".join(f"; census: {text}" for text in (self.census, self.told) if text)
        return f"{self.group:8} {self.name:52} {self.outcome:12} {self.seconds:6.1f} s  {self.detail}{said}"


def run(kernels: Path | None, chips: Sequence[str]) -> Iterator[Tried]:
    """Try all, each as it comes. kernels: a folder of kernels named after workloads."""
    if kernels:
        yield from _fixtures(kernels)
    with tempfile.TemporaryDirectory(prefix="hawkeye-share-") as scratch:
        for tpu in chips:
            yield from _cells(tpu, Path(scratch))
    for case in public.CASES:
        yield _tried("public", case.name, partial(_against_interpreter, case))


def table(found: Sequence[Tried]) -> str:
    """Shares by group, and what keeps the rest."""
    lines = [f"{'kernels':10} {'tried':>6} {'run':>6} {'agree':>6} {'share run':>10} {'census alarms':>14} {'told':>5}"]
    for group in dict.fromkeys(one.group for one in found):
        lines.append(_row(group, [one for one in found if one.group == group]))
    lines.append(_row("all", found))
    blocking = Counter(one.detail for one in found if one.outcome not in ("agrees", "rounding"))
    lines += ["", "What keeps the rest:", *(f"{count:4} {what}" for what, count in blocking.most_common())]
    return "\n".join(lines)


def _row(group: str, found: Sequence[Tried]) -> str:
    ran = sum(one.outcome in ("agrees", "rounding", "differs") for one in found)
    agree = sum(one.outcome in ("agrees", "rounding") for one in found)
    alarms, told = sum(bool(one.census) for one in found), sum(bool(one.told) for one in found)
    return f"{group:10} {len(found):6} {ran:6} {agree:6} {ran / len(found):9.0%} {alarms:15} {told:5}"


def _tried(group: str, name: str, attempt: Callable[[dict[str, str]], tuple[str, str]]) -> Tried:
    """attempt: gives outcome and detail, and notes what the census says."""
    start = time.monotonic()
    said: dict[str, str] = {}
    try:
        outcome, detail = attempt(said)
    except tracer.Failed as failed:
        outcome, detail = "not traced", f"{failed.stage}: {type(failed.cause).__name__}: {failed.cause}"
    except Ended as ended:
        known = {Fault: "fault", Exhausted: "exhausted"}
        outcome, detail = known.get(type(ended), "unsupported"), str(ended)
    detail = " ".join(detail.split())[:300]
    return Tried(
        group=group, name=name, outcome=outcome, detail=detail, seconds=round(time.monotonic() - start, 2), **said
    )


def _artifacts(function: Any, inputs: Sequence[Any], tpu: str, *, interpreted: bool) -> dict[str, bytes]:
    chip = CHIPS[tpu]
    device = {"device_kind": chip.device_kind, "cores": chip.cores}
    pair = tracer.artifacts(function, list(inputs), device, interpreted=interpreted)
    return {platform: base64.b64decode(text) for platform, text in pair.items()}


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"share_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fixtures(folder: Path) -> Iterator[Tried]:
    for path in sorted(folder.glob("*.py")):
        name = path.stem.removesuffix("_slow")
        if name in workloads.names():
            gated = partial(_gated, path, "workload", name, DEFAULT_TPU)
            yield _tried("fixture", path.stem, gated)


def _cells(tpu: str, scratch: Path) -> Iterator[Tried]:
    from hawkeye_mcp.taxonomy_check import facts, source

    known = facts.facts(tpu)
    for row in [cell.row for cell in taxonomy.rows(tpu)]:
        folder = scratch / tpu / row
        for name, text in source.problem(row, known).items():
            state.write_atomically(folder / name, text)
        cell = taxonomy.cell(tpu, row)
        for kind, text in (("naive", cell.naive_kernel), ("optimized", cell.optimized_kernel)):
            path = folder / f"{kind}.py"
            state.write_atomically(path, text)
            reference = f"{folder}{os.sep}"
            yield _tried(tpu, f"{row} {kind}", partial(_gated, path, "kernel", reference, tpu))


def _gated(path: Path, entry: str, reference: str, tpu: str, said: dict[str, str]) -> tuple[str, str]:
    workload = workloads.find(reference)
    function, sizes = getattr(_module(path), entry), get_args(workloads.Size)
    made = {
        size: {
            platform: base64.b64encode(data).decode()
            for platform, data in _artifacts(
                function, workload.shapes(workload.inputs, size), tpu, interpreted=True
            ).items()
        }
        for size in sizes
    }
    work = same_work(reference, made)
    said.update(census=work["problem"] or "", told=work["note"] or "")
    found = verify.bind(reference, "check", made["check"]["tpu"], 1)
    errors = [each[f"error_{workload.tolerance.metric.lower()}"] for each in found["outputs"]]
    shown = ", ".join(f"{error:.2g}" if error is not None else "none" for error in errors)
    if found["outcome"] == "agrees":
        return "agrees", f"{workload.tolerance.metric} {shown}"
    return found["outcome"], found["operation"] or found["message"]


def _against_interpreter(case: public.Case, said: dict[str, str]) -> tuple[str, str]:
    function, inputs = case.build()
    shapes = [(x.shape, str(x.dtype)) for x in inputs]
    made = _artifacts(function, shapes, DEFAULT_TPU, interpreted=case.reference is None)
    if made["cpu"]:
        taken = [census.census(artifact.read(made[platform])) for platform in ("tpu", "cpu")]
        said["census"] = ", ".join(census.apart(*taken))
    right = case.reference or jax.jit(export.deserialize(bytearray(made["cpu"])).call)
    expected = [np.asarray(x) for x in jax.tree.leaves(right(*inputs))]
    worst = 0.0
    for out, want in zip(runnable(artifact.read(made["tpu"]), exact=True)(inputs), expected, strict=True):
        worst = max(worst, difference(out, want))
    return ("agrees" if worst <= AGREES_WITHIN else "differs"), f"differs by {worst:.2g}"


def difference(out: Any, want: Any) -> float:
    """The norm of the difference over that of `want`; infinite where one of the two is not finite alone."""
    a, b = np.asarray(out).astype(np.float64), np.asarray(want).astype(np.float64)
    if a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
        return np.inf
    a, b = np.where(np.isfinite(a), a, 0), np.where(np.isfinite(b), b, 0)
    scale = float(np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / scale if scale else float(np.linalg.norm(a))


def main(
    kernels: Annotated[Path | None, typer.Option("--kernels", help="Folder of kernels named after workloads.")] = None,
    chips: Annotated[
        list[str] | None, typer.Option("--tpu", callback=options.tpus, help="Chips of the cells; again for more.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Try all, print each as it comes and then the table.

    Exit code: 0 nothing differs and no census gives an alarm, 1 something does.
    """
    found = []
    for one in run(kernels, chips or []):
        found.append(one)
        typer.echo(one.model_dump_json() if as_json else one.line())
    if not as_json:
        typer.echo("\n" + table(found))
    raise typer.Exit(any(one.outcome in ("differs", "fault") or one.census for one in found))


if __name__ == "__main__":
    typer.run(main)
