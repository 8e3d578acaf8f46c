"""What an import will do, told before anything runs."""

import importlib.util
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.intake import gate, signature
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.inside.agreement import FLOAT32_TOLERANCE, OWN_ROUNDINGS
from hawkeye_mcp.intake.job import Job

Place = Literal["here", "capture", "sandbox", "worker"]
PLACES: dict[Place, str] = {
    "here": "this process, which runs nobody's Python",
    "capture": "a process for your program, limited in memory and time, and without the network where bubblewrap works",
    "sandbox": "the judge's sandbox, which only data leaves",
    "worker": "a worker of the judge, which runs what is written here and nobody's Python",
}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class Phase(_Part):
    """One step of an import, in order."""

    name: str
    does: str
    where: Place = Field(description="What kind of process does it: `places` says more.")
    gate: str | None = Field(None, description="What must hold for the import to go on. Null: nothing is decided here.")


class Shaped(_Part):
    """An argument or a result of the program, as it was recorded."""

    name: str
    role: str
    dtype: str
    full: tuple[int, ...]
    check: tuple[int, ...]


class Plan(_Part):
    """What `hawkeye job import` will do with a job."""

    workload: str
    tpu: str
    places: dict[Place, str] = PLACES
    oracle: str = Field(description="What right results are.")
    phases: tuple[Phase, ...]
    writes: tuple[str, ...] = Field(
        description="Files that are there afterwards, in DIR/NAME/; on a failed gate, none."
    )
    signature: str | None = Field(None, description="What a kernel, or a port, must define. Null: not known yet.")
    signature_note: str = Field("", description="Where the signature is from, or why it is not known.")
    shapes: tuple[Shaped, ...] = Field((), description="Arguments, then results. Empty until a program was recorded.")
    needs_torch: bool = Field(description="Whether PyTorch must be installed: the extra [torch].")
    torch_missing: tuple[str, ...] = Field((), description="What is needed of it and not installed here.")
    budget: str = Field(description="What a server with the job lets its clients spend.")
    approval: str | None = Field(None, description="Why a person has to approve the workload before it is scored.")
    executes: tuple[str, ...] = Field((), description="Files whose Python is run.")
    only_read: tuple[str, ...] = Field((), description="Files that are read as text and never run.")


def plan(job: Job) -> Plan:
    """The plan of a valid job, whose files may be missing."""
    written, note = signature.of(job)
    kind, method = job.input.type, job.conversion.method
    references = [reference.path for reference in job.references]
    source = job.input.path
    executed = {"specification": job.made_from, "cuda": job.made_from}.get(kind, source)
    traced = job.conversion.port if kind == "pytorch" and method == "port" else None
    return Plan(
        workload=job.name,
        tpu=job.target.tpu,
        oracle=_oracle(job),
        phases=tuple(_phases(job)),
        writes=_writes(job),
        signature=written,
        signature_note=note,
        shapes=tuple(_of_tensors(job)) if job.needs_approval else (),
        needs_torch=kind == "pytorch",
        torch_missing=_torch_missing(method) if kind == "pytorch" else (),
        budget=_budget(job),
        approval=_approval(job),
        executes=tuple(filter(None, [executed, traced])),
        only_read=tuple(filter(None, [source if kind == "cuda" else None, *references])),
    )


def _of_tensors(job: Job) -> list[Shaped]:
    specification = job.input.specification
    assert specification
    known = {size: {**specification.constants, **job.sizes["full"], **of} for size, of in job.sizes.items()}
    shape = {
        (tensor.name, size): tuple(int(known[size][dim]) if isinstance(dim, str) else dim for dim in tensor.shape)
        for tensor in specification.tensors
        for size in job.sizes
    }
    return [
        Shaped(name=t.name, role=t.role, dtype=t.dtype, full=shape[t.name, "full"], check=shape[t.name, "check"])
        for role in ("input", "parameter", "output")
        for t in specification.tensors
        if t.role == role
    ]


def recorded(found: Plan, capture: Capture) -> Plan:
    """The plan with what a record of the program says of its signature."""
    full, check = capture.sizes["full"], capture.sizes["check"]
    shapes = [
        Shaped(name=one.name, role=one.role, dtype=one.dtype, full=one.shape, check=other.shape)
        for one, other in zip(full.arrays, check.arrays, strict=True)
    ]
    shapes += [
        Shaped(name=f"result {i}", role="output", dtype=one.dtype, full=one.shape, check=other.shape)
        for i, (one, other) in enumerate(zip(full.outputs, check.outputs, strict=True))
    ]
    return found.model_copy(
        update={
            "signature": f"workload({', '.join(array.name for array in full.arrays)})",
            "signature_note": "; ".join(["as the program was recorded", *capture.notes]),
            "shapes": tuple(shapes),
        }
    )


def _phases(job: Job) -> list[Phase]:
    kind, port = job.input.type, job.conversion.method == "port"
    phases = []
    if job.needs_approval:
        phases.append(_baseline(job))
    phases.append(_capture(job))
    if job.evaluation.compare_against_source and kind == "pytorch":
        phases.append(
            Phase(name="source", does="runs PyTorch at full size, as `hawkeye compare` will, and says how long it takes.",
                  where="capture", gate="it runs there")
        )  # fmt: skip
    if kind == "pytorch" and port:
        allowed = f"|difference| <= {job.correctness.atol:g} + {job.correctness.rtol:g} * |result|"
        phases += [
            Phase(name="trace_port", does=f"traces {job.conversion.port} at both sizes.", where="sandbox",
                  gate="it is traced, with the signature of the program"),
            Phase(name="verify_port", does="runs the traced port on the recorded inputs.", where="worker",
                  gate=f"shapes, dtypes and places of NaN and infinity are equal, and {allowed}, for each element"),
            Phase(name="compare_structure", does="compares the port's jaxpr with the program's, where it has one.",
                  where="worker", gate="the verdict is not divergent, or, where PyTorch cannot be converted, the port is one program at "
                  "both sizes but for lengths"),
        ]  # fmt: skip
    return [
        *phases,
        Phase(name="emit", where="here", gate="every line is of a kind that is listed",
              does="puts the program together of jax.lax calls that were written from what was traced; nothing of it is anyone's text."),
        Phase(name="same program", where="worker", gate="it is the traced one, operation by operation, at both sizes",
              does="traces the written program."),
        Phase(name="verify_folder", where="worker", gate="they are those that were recorded",
              does="computes the results of the written program on the recorded inputs."),
        Phase(name="check", where="worker",
              does="chooses the metric and the limit that kernels will be held to, from what right programs score, and makes wrong "
              "programs from the workload's own.",
              gate=f"right programs pass with a margin of {gate.MARGIN:g} at a limit of at most {gate.WIDEST:g}; wrong programs "
              "that are not told apart are named"),
        Phase(name="oracle", where="worker", does="holds the oracle, which is the program in float32, against results in float64.",
              gate=f"it is off by at most {gate.ORACLE_SHARE:g} of the limit"),
        Phase(name="rename", where="here", does="gives the folder, which was written beside its place, its name."),
    ]  # fmt: skip


def _baseline(job: Job) -> Phase:
    if job.made_from is None:
        return Phase(name="baseline", does="makes a JAX source of its formula and its tensors.", where="here")
    return Phase(name="baseline", where="sandbox", gate="it is traced, and traced again it is the same program",
                 does=f"makes a JAX source of {job.made_from} and its tensors, traces it at both sizes and takes the inputs that it "
                 "gives, if it gives any.")  # fmt: skip


def _capture(job: Job) -> Phase:
    trials, seed = job.correctness.trials, job.correctness.seed
    recorded = (
        f"records inputs and results at the check size ({trials} sets from seed {seed}), in float64 too where possible"
    )
    if job.needs_approval and job.made_from:
        return Phase(name="capture", does=f"runs what was traced, and nothing else of the file, and {recorded}.", where="capture",
                     gate="two runs give the same bits")  # fmt: skip
    if job.input.type != "pytorch":
        return Phase(name="capture", does=f"traces the JAX program at both sizes and {recorded}.", where="capture",
                     gate="it can be traced, and two runs give the same bits")  # fmt: skip
    if job.conversion.method == "torchax":
        return Phase(name="capture", does=f"runs PyTorch, {recorded}, and converts the module with torchax.", where="capture",
                     gate="two runs give the same bits, torchax can convert it, and the converted program agrees with PyTorch's "
                     f"own run: within {FLOAT32_TOLERANCE:g} of the usual and of each result, or {OWN_ROUNDINGS} times PyTorch's "
                     "own rounding where that is more")  # fmt: skip
    return Phase(name="capture", does=f"runs PyTorch and {recorded}.", where="capture",
                 gate="two runs give the same bits")  # fmt: skip


def _oracle(job: Job) -> str:
    after = "with half-precision types widened to float32 and products at the highest precision"
    if job.input.type == "pytorch" and job.conversion.method == "port":
        return f"the port, once it agrees with PyTorch's recorded results, {after}"
    if job.input.type == "pytorch":
        return f"what torchax makes of the module, once it agrees with PyTorch's own run, {after}"
    if job.input.type == "jax":
        return f"the function itself, {after}"
    return f"the baseline that is made, {after}: nothing but a person's approval says that it is what was meant"


def _writes(job: Job) -> tuple[str, ...]:
    files = ["workload.py", "workload.toml", "job.json", "capture.json", "goldens.npz", "source/"]
    return tuple(files)


def _budget(job: Job) -> str:
    def most(number: int | None, what: str) -> str:
        return f"any number of {what}s" if number is None else f"{number} {what}{'s' if number > 1 else ''}"

    judged, points = job.budget.evaluations, job.budget.autotune_points
    return (
        f"hawkeye-mcp --job JOB.json judges {most(judged, 'kernel')} on {job.target.tpu}; with --run its autotune looks at "
        f"{most(points, 'point')}"
    )


def _approval(job: Job) -> str | None:
    if not job.needs_approval:
        return None
    why = "a CUDA kernel is not run here" if job.input.type == "cuda" else "a description is no program"
    return (
        f"{why}, so no gate can hold its baseline against anything. Next, after the import: hawkeye job approve FOLDER"
    )


def _torch_missing(method: str) -> tuple[str, ...]:
    wanted = ("torch", "torchax") if method == "torchax" else ("torch",)
    return tuple(name for name in wanted if importlib.util.find_spec(name) is None)
