"""Inside a worker: one workload's mutants, honest variants and power, judged by the judge's own comparison."""

import random
import re
import resource
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hawkeye_mcp import workloads
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.judge import correctness, drawing
from hawkeye_mcp.judge.verify import module_of
from hawkeye_mcp.profiler import static_profile
from hawkeye_mcp.workload_check import declaration, mutants
from hawkeye_mcp.workload_check.power import power
from hawkeye_mcp.workload_check.program import flatten
from hawkeye_mcp.workload_check.report import Checked, Honest, Mutant, Mutants, Roof
from hawkeye_mcp.workloads import Workload

SEEDS = (1, 2, 3)
LEAST_POWER = 0.5
MOST = 120  # mutants of one program: more are chosen from
# A difference below this share of the honest program's own rounding error is no fault.
_EQUIVALENT = 0.1
# Nor is one below this, in the gate's metric: an order of float32 operations makes as much.
_ORDER = 1e-6

Outputs = list[NDArray[Any]]


def check(workload: str, size: workloads.Size, memory_bytes: int) -> dict[str, Any]:
    """The audit of one workload: `Checked`, with mutants at the check size only.

    Allocations beyond memory_bytes of address space fail; the process stays limited.
    """
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    declared = workloads.find(workload)
    found = Audit(declared, size).run()
    used = resource.getrusage(resource.RUSAGE_SELF)
    taken = {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_bytes": _peak_bytes(),
    }
    return found.model_copy(update=taken).model_dump(mode="json")


def _peak_bytes() -> int | None:
    """The most memory that this program held; getrusage counts what its parent held when it started this process, too."""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


class Audit:
    """One workload at one size, with the draws and the right answers that every step needs."""

    def __init__(self, declared: Workload, size: workloads.Size) -> None:
        self.declared, self.size = declared, size
        self.notes: list[str] = []
        module = module_of(declared.reference)
        self.misdeclared = list(declaration.problems(declared, module))
        if self.misdeclared:
            return
        dims = dict(declared.sizes[size])
        self.seeds = SEEDS if size == "check" else SEEDS[:1]
        self.workload = module.workload
        draw = drawing.draw(module, dims)
        oracle = jax.jit(module.oracle)
        self.draws = [draw(jax.random.key(seed)) for seed in self.seeds]
        self.expected = [_arrays(oracle(*inputs)) for inputs in self.draws]

    def run(self) -> Checked:
        if self.misdeclared:
            return self._told([], Mutants(caught=[], survived=[], allowed=[], equivalent=[]), None, self.misdeclared)
        honest = [Honest(name="jitted", **self._worst(jax.jit(self.workload)))]
        carried = None
        told = Mutants(caught=[], survived=[], allowed=[], equivalent=[])
        if self.size == "check":
            honest += self._variants()
            carried = power(self.expected[0], self.expected[1], self.declared.tolerance)
            told = self._mutants(honest[0])
        return self._told(honest, told, carried, list(self._problems(honest, told, carried)))

    def _told(self, honest: list[Honest], told: Mutants, carried: float | None, problems: list[str]) -> Checked:
        return Checked(
            name=self.declared.name,
            ok=not problems,
            size=self.size,
            gate=self.declared.tolerance.gate,
            seeds=[] if self.misdeclared else list(self.seeds),
            roofline={tpu: _roof(self.declared, tpu) for tpu in TPUS},
            power=carried,
            honest=honest,
            mutants=told,
            seconds=None,
            notes=self.notes,
            problems=problems,
        )

    def _variants(self) -> list[Honest]:
        """Right programs that round otherwise, on the first draw."""
        program = flatten(self.workload, self.draws[0])
        found = [Honest(name="in float32", **self._worst(lambda *inputs: self.workload(*_widened(inputs)), 1))]
        if any(step.primitive in mutants.SPLIT for step in program.steps):
            halves = jax.jit(lambda *inputs: mutants.split(program, inputs))
            found.append(Honest(name="contractions in two halves", **self._worst(halves, 1)))
        return found

    def _worst(self, function: Any, draws: int | None = None) -> dict[str, Any]:
        """The largest error over the first draws, or all."""
        pairs = list(zip(self.draws, self.expected, strict=True))[:draws]
        errors = [self._error(_arrays(function(*inputs)), ref) for inputs, ref in pairs]
        known = [error for error, _, _ in errors if error is not None]
        return {"error": max(known) if len(known) == len(errors) else None, "ok": not any(e[2] for e in errors)}

    def _mutants(self, honest: Honest) -> Mutants:
        wide = _widened(self.draws[0])
        program = flatten(self.workload, wide)
        values = program.run(wide)
        right = [np.asarray(values[number]) for number in program.outputs]
        names = [array.name for array in self.declared.inputs]
        generated = [
            *mutants.of_outputs(
                {name: np.asarray(array) for name, array in zip(names, self.draws[0], strict=True)},
                self._cast(right),
                self.expected[0],
                self.expected[1],
                self.declared.tolerance,
            ),
            *mutants.of_inputs(program, values, names, self.draws[0], self.draws[1]),
            *self._some(list(mutants.of_program(program, values))),
        ]
        told = Mutants(caught=[], survived=[], allowed=[], equivalent=[])
        gate = self.declared.tolerance.gate
        for mutant in generated:
            outputs = mutant.run()
            if outputs is None:
                told.equivalent.append(mutant.name)
                continue
            error, failing, problem = self._error(self._cast(outputs), self.expected[0])
            found = Mutant(
                name=mutant.name,
                error=error,
                gate=gate,
                failing=failing,
                line=mutant.line,
                reason=self._reason(mutant.name),
            )
            if problem:
                told.caught.append(found)
            elif self._equivalent(outputs, right, honest):
                told.equivalent.append(mutant.name)
            elif found.reason:
                told.allowed.append(found)
            else:
                told.survived.append(found)
        return told

    def _some(self, generated: list[mutants.Mutant]) -> list[mutants.Mutant]:
        """All of them, or MOST chosen by a fixed seed, in their order; the notes say so."""
        if len(generated) <= MOST:
            return generated
        self.notes.append(f"of {len(generated)} mutants of operations {MOST} were run, chosen by a fixed seed")
        chosen = sorted(random.Random(0).sample(range(len(generated)), MOST))
        return [generated[index] for index in chosen]

    def _reason(self, mutant: str) -> str:
        """Why workload.toml says that a mutant may survive, or nothing."""
        fitting = (entry.reason for entry in self.declared.survives if fnmatchcase(mutant, entry.mutant))
        return next(fitting, "")

    def _equivalent(self, outputs: Outputs, right: Outputs, honest: Honest) -> bool:
        difference = self._error([np.asarray(out, np.float32) for out in outputs], right)[0]
        return (
            difference is not None
            and honest.error is not None
            and difference <= max(_EQUIVALENT * honest.error, _ORDER)
        )

    def _cast(self, outputs: Sequence[NDArray[Any]]) -> Outputs:
        dtypes = [dtype for _, dtype in self.declared.shapes(self.declared.outputs, self.size)]
        return [np.asarray(out).astype(jnp.dtype(dtype)) for out, dtype in zip(outputs, dtypes, strict=True)]

    def _error(self, actual: Outputs, expected: Outputs) -> tuple[float | None, float | None, str | None]:
        """The worst error in the gate's metric, the worst failing share and what the judge says (None: it passes)."""
        tolerance = self.declared.tolerance
        declared = [(out.shape, str(out.dtype)) for out in expected]
        declared = [(shape, str(out.dtype)) for (shape, _), out in zip(declared, actual, strict=True)]
        errors, problem = correctness.compare(actual, expected, declared, tolerance)
        decisive = [error.error_e if tolerance.metric == "E" else error.error_r for error in errors]
        known = [value for value in decisive if value is not None]
        shares = [error.failing_fraction for error in errors if error.failing_fraction is not None]
        return max(known) if len(known) == len(errors) else None, max(shares, default=None), problem

    def _problems(self, honest: Sequence[Honest], told: Mutants, carried: float | None) -> Iterator[str]:
        limit = self.declared.tolerance.gate
        for variant in honest:
            if not variant.ok:
                yield f"the honest program {variant.name} fails the gate {limit}: widen the gate or change the inputs"
        if self.declared.no_power:
            return
        if carried is not None and carried < LEAST_POWER:
            yield (
                f"power is {carried:.0%}: fewer than half of the outputs differ from what a mean predicts by more than "
                "the gate; change the inputs or narrow the gate"
            )
        for mutant in told.survived:
            yield f"{mutant.name} passes ({mutant.error} within {limit}): change the inputs or narrow the gate"
        if self.size == "check":
            for entry in self.declared.survives:
                if not any(fnmatchcase(mutant.name, entry.mutant) for mutant in told.allowed):
                    yield f"[[survives]] names {entry.mutant!r}, which does not survive or does not exist: remove it"


def _roof(declared: Workload, tpu: str) -> Roof:
    peaks = static_profile.peaks(tpu)
    flops_us = declared.flops / peaks["bf16_flops_per_s"] * 1e6
    bytes_us = declared.least_bytes / peaks["hbm_bytes_per_s"] * 1e6
    return Roof(bound="FLOPs" if flops_us > bytes_us else "bytes", least_us=max(flops_us, bytes_us))


def _widened(inputs: Sequence[Any]) -> list[Any]:
    return [array.astype(jnp.float32) if jnp.issubdtype(array.dtype, jnp.floating) else array for array in inputs]


def _arrays(outputs: Any) -> Outputs:
    return [np.asarray(out) for out in jax.tree.leaves(outputs)]
