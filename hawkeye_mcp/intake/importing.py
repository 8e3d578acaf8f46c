"""From a job to a workload folder, through gates, in this order: the whole of `hawkeye job import`.

Everything is written into a folder beside the place where the workload will be; the rename at the very end is what makes
it. Whatever stops it before, a gate, a fault or a signal, nothing stays.
"""

import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from hawkeye_mcp import state, workloads
from hawkeye_mcp.intake import capture as capturing
from hawkeye_mcp.intake import compare_structure, folder, gate, recording, specification
from hawkeye_mcp.intake.beside import beside, free
from hawkeye_mcp.intake.capture import Capture, CaptureFailed
from hawkeye_mcp.intake.declaration import Declaration
from hawkeye_mcp.intake.imported import Gate, GateFailed, Imported
from hawkeye_mcp.intake.inputs_source import ARRAYS, SIZES, Argument, NotWritten
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.porting import PortFailed, ported
from hawkeye_mcp.intake.trace_port import PortRefused
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.workload_check import runner
from hawkeye_mcp.workload_check.report import Checked
from hawkeye_mcp.workloads import Size, Tolerance, Workload

_RUN_S = 600.0
_PROVISIONAL = Tolerance(metric="R", limit=1, reason="not chosen yet")


async def run(job: Job, into: Path, progress: Callable[[str], None]) -> Imported:
    """Make the folder `into/NAME` from a job whose paths are absolute.

    Raises:
        GateFailed: nothing was written. WorkerUnavailable: this installation is at fault.
    """
    target = into.absolute() / job.name
    free(target)
    with beside(target) as scratch:
        verifiers = WorkerPool("verifier")
        try:
            return await _Import(job, target, scratch, progress, verifiers).run()
        except CaptureFailed as error:
            details = error.output.strip().splitlines()[-20:] if error.output else []
            raise GateFailed("capture", error.message, error.fix, details) from None
        except PortFailed as error:
            raise GateFailed(error.gate, error.message, error.fix, error.details) from None
        except NotWritten as error:
            raise GateFailed("write", error.message, error.fix) from None
        except specification.UnusableSource as error:
            raise GateFailed("baseline", f"{error}", "Mend the file, then import again.") from None
        except PortRefused as error:
            raise GateFailed("baseline", error.message, error.fix, [error.details] if error.details else []) from None
        finally:
            with anyio.CancelScope(shield=True):
                await verifiers.close()


class _Import:
    """One import as it goes: what the stages pass on."""

    def __init__(
        self, job: Job, target: Path, scratch: Path, progress: Callable[[str], None], verifiers: WorkerPool
    ) -> None:
        self.asked, self.target, self.scratch, self.progress, self.verifiers = job, target, scratch, progress, verifiers
        self.written = scratch / target.name
        self.gates: list[Gate] = []
        self.notes: list[str] = []

    async def run(self) -> Imported:
        self.written.mkdir()
        job = specification.as_jax(self.asked, self.scratch)
        to_record, passed = await recording.of(self.asked, job, self.scratch / "recorded", self.progress)
        self.gates += passed
        self.progress("capture")
        capture = await capturing.capture(to_record, self.written, self.progress)
        if to_record is not job:  # people are shown the file itself, not what was made of it
            capture = recording.of_file(capture, job, self.written)
        self.notes += capture.notes
        self._captured(capture)
        await self._source_runs()
        goldens = self.written / "goldens.npz"
        structures: dict[Size, dict[str, Any] | None]
        if job.conversion.method == "port":
            programs, structures, gates = await ported(job, capture, self.written, self.progress, self.verifiers)
            self.gates += [Gate(name=name, message=message) for name, message in gates]
        else:
            programs = folder.captured(capture, goldens)
            structures = {size: capture.sizes[size].structure for size in SIZES}
        self.progress("write")
        given = folder.arguments(capture, programs, goldens)
        text = folder.python(given, programs, folder.constants(job))
        self.gates.append(
            Gate(name="emit", message=f"{programs['full'].text.count(' = ')} operations, each of a kind that is listed")
        )
        state.write_atomically(self.written / "workload.py", text)
        folder.write_arrays(given, self.written / ARRAYS)
        self._sources(job)
        declared = folder.declared(self.asked, capture, given, capture.sizes["full"].flops, _PROVISIONAL)
        self._declare(declared)
        own = len(given) - len(capture.sizes["full"].arrays)
        declared = await self._same_program(declared, structures, own)
        within = (job.correctness.atol, job.correctness.rtol) if capture.route == "golden" else (None, None)
        oracle = await self._values(within)
        declared, checked = await self._gate(declared, given, capture)
        self._oracle(oracle, declared.tolerance)
        self._rename()
        return self._told(capture, declared, checked)

    def _captured(self, capture: Capture) -> None:
        message = f"{capture.trials} sets of inputs and results recorded"
        figures: dict[str, float | None] = {}
        if capture.eager_check:
            message += f"; the converted program agrees with PyTorch ({capture.eager_check.tolerance})"
            figures = {"worst_abs": capture.eager_check.worst_abs, "worst_rel": capture.eager_check.worst_rel}
        self.gates.append(Gate(name="capture", message=message, figures=figures))

    async def _source_runs(self) -> None:
        """Where it is asked for: the module runs at full size too, as `hawkeye compare` has it run."""
        if not self._compared:
            return
        self.progress("run the module at full size")
        try:
            found = await capturing.timed(self.asked, self.progress)
        except CaptureFailed as error:
            fix = f"{error.fix} Or set evaluation.compare_against_source to false."
            raise GateFailed("source", f"At full size the module cannot be run: {error.message}", fix) from None
        message = (
            f"the module itself takes {found.us:.4g} us at full size, measured: {found.device}, torch {found.torch}"
        )
        self.gates.append(Gate(name="source", message=message, figures={"us": found.us}))

    @property
    def _compared(self) -> bool:
        return self.asked.evaluation.compare_against_source and self.asked.input.type == "pytorch"

    def _sources(self, job: Job) -> None:
        try:
            folder.write_sources(self.asked, self.written)
            if (
                self.asked.needs_approval
            ):  # the job file stays what was asked: importing it again asks for approval again
                shutil.copyfile(str(job.input.path), self.written / "source" / specification.SOURCE)
        except OSError as error:
            raise GateFailed("write", f"{error.filename}: {error.strerror}.", "Make it readable.") from None

    def _declare(self, declared: Declaration) -> None:
        state.write_atomically(self.written / "workload.toml", folder.toml(declared))

    def _workload(self) -> Workload:
        try:
            return workloads.find(f"{self.written}/")
        except workloads.UnknownWorkload as error:
            raise GateFailed("write", f"{error}", "Choose other names for its arrays or sizes.") from None

    async def _ask(self, gate_name: str, step: str, **given: Any) -> dict[str, Any]:
        """One step in a worker that has not loaded this folder before."""
        self._workload()
        try:
            return await self.verifiers.call("of_import", _RUN_S, step=step, workload=f"{self.written}/", **given)
        except (WorkerDied, WorkerTimeout, WorkerError) as error:
            raise GateFailed(
                gate_name,
                f"The written program does not run: {str(error)[:1000]}.",
                "Give `sizes` smaller numbers at `check`, if its memory or time ran out.",
            ) from None

    async def _same_program(
        self, declared: Declaration, structures: Mapping[Size, dict[str, Any] | None], own: int
    ) -> Declaration:
        """The written program is the one that was traced, operation by operation, at both sizes."""
        self.progress("compare the written program with the traced one")
        found = await self._ask("same program", "described_import", own=own)
        verdicts = []
        for size in SIZES:
            reference = structures[size]
            if reference is None:
                continue
            compared = compare_structure.compare(reference, found["structures"][size])
            if compared.verdict == "divergent":
                raise GateFailed(
                    "same program",
                    f"At {size} size the written program is not the traced one: {compared.message}",
                    "This is a fault of the import; write the part that differs otherwise.",
                    compared.differences,
                )
            verdicts.append(f"{compared.verdict} at {size} size")
        self.gates.append(Gate(name="same program", message=", ".join(verdicts)))
        if declared.flops or not found["flops"]:
            return declared
        counted = folder.with_flops(declared, found["flops"])
        self._declare(counted)
        return counted

    async def _values(self, within: tuple[float | None, float | None]) -> dict[str, Any]:
        self.progress("run the written program on what was recorded")
        atol, rtol = within
        found = await self._ask("verify_folder", "recorded_import", capture=str(self.written), atol=atol, rtol=rtol)
        if found["problems"]:
            raise GateFailed(
                "verify_folder",
                f"The written program does not give what was recorded: {found['problems'][0]}.",
                "Mend the port." if atol is not None else "Take the operations that differ out of the program.",
                found["problems"][1:20],
            )
        self.gates.append(
            Gate(
                name="verify_folder",
                message=f"{found['elements']} results as recorded",
                figures={"worst_abs": found["worst_abs"]},
            )
        )
        return found

    async def _gate(
        self, declared: Declaration, given: list[Argument], capture: Capture
    ) -> tuple[Declaration, Checked]:
        """Choose the gate: the first metric by which wrong programs fail and right ones pass, or the one nearest to it."""
        self.progress("measure right programs")
        figures = await self._ask("gate", "figures_of_import")
        narrow = any(
            array.dtype not in ("float32", "int32", "uint32", "bool") for array in (*declared.inputs, *declared.outputs)
        )
        correctness = capture.tolerance or self.asked.correctness
        gates = gate.candidates(figures, narrow, correctness.rtol, correctness.atol)
        if not gates:
            scores = [f"{name}: E {e['E']}, R {e['R']}" for name, e in figures["honest"].items()]
            raise GateFailed(
                "gate",
                f"No gate below {gate.WIDEST:g} lets right programs pass: rounding alone changes the results by more.",
                "Give inputs on which the program is not so sensitive.",
                scores,
            )
        tried: list[tuple[Declaration, Checked]] = []
        for tolerance in gates:
            if any(one.tolerance.metric == tolerance.metric and not _worth(found, tolerance) for one, found in tried):
                continue
            declared = declared.with_tolerance(tolerance)
            self._declare(declared)
            self.progress(f"check with wrong programs ({tolerance.gate})")
            (checked,) = await runner.check([self._workload()], "check", fresh=True, done=lambda _: None)
            tried.append((declared, checked))
            if checked.ok:
                break
        declared, checked = min(tried, key=lambda one: (_fatal(one[1]), len(one[1].problems)))
        self._declare(declared)
        if checked.broken:
            raise GateFailed("check", checked.problems[0], "Give `sizes` smaller numbers at `check`, or import again.")
        if _fatal(checked):
            raise GateFailed(
                "check",
                "The workload's test cannot tell right from wrong on such inputs.",
                "Give inputs on which more of the results differ from their mean, or hang on every input.",
                checked.problems[:20],
            )
        caught, survived = len(checked.mutants.caught), len(checked.mutants.survived)
        self.gates.append(
            Gate(
                name="check",
                message=f"{caught} of {caught + survived} wrong programs fail {declared.tolerance.gate}, right ones pass",
                figures={"power": checked.power} | {f"honest, {one.name}": one.error for one in checked.honest},
            )
        )
        return declared, checked

    def _oracle(self, found: Mapping[str, Any], tolerance: Tolerance) -> None:
        """The oracle is far nearer to float64 than the gate is wide."""
        error = gate.far(found["oracle"], tolerance)
        if error is None:
            self.notes.append("There were no results in float64 to hold the oracle against.")
            return
        most = gate.ORACLE_SHARE * tolerance.limit
        if error > most:
            raise GateFailed(
                "oracle",
                f"The oracle, in float32, is {error:.2g} ({tolerance.metric}) from float64, more than {most:.2g}.",
                "Give inputs on which the program is not so sensitive to rounding.",
            )
        message = f"{error:.2g} from the results in float64 ({tolerance.metric}), at most {most:.2g}"
        self.gates.append(Gate(name="oracle", message=message, figures={tolerance.metric: error}))

    def _rename(self) -> None:
        self.progress("rename")
        for cache in self.written.rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)
        free(self.target)
        self.written.rename(self.target)

    def _told(self, capture: Capture, declared: Declaration, checked: Checked) -> Imported:
        steps, place = [], shlex.quote(f"{self.target}/")
        if self.asked.needs_approval:
            steps.append(f"hawkeye job approve {place}")
        if checked.mutants.survived:
            steps.append(
                f"for each wrong program that is not told apart, other inputs, or an entry [[survives]] with the reason in "
                f"{self.target / 'workload.toml'}; then hawkeye workloads check {place}"
            )
        steps.append(f"hawkeye evaluate --workload {place} --kernel KERNEL.py")
        if self._compared:
            steps.append(f"hawkeye compare --job JOB.json --workload {place} --kernel KERNEL.py")
        return Imported(
            workload=self.target.name,
            folder=str(self.target),
            route=capture.route,
            gate=declared.tolerance.gate,
            gates=self.gates,
            survivors=[f"{mutant.name} (line {mutant.line})" for mutant in checked.mutants.survived],
            notes=[*self.notes, *checked.notes],
            next_steps=steps,
        )


def _worth(checked: Checked, closer: Tolerance) -> bool:
    """Whether a closer gate of the same metric may tell more than this check did."""
    return _fatal(checked) or any((mutant.error or 0) > closer.limit for mutant in checked.mutants.survived)


def _fatal(checked: Checked) -> bool:
    """Whether anything is wrong but that some wrong programs pass."""
    return checked.broken or len(checked.problems) > len(checked.mutants.survived)
