"""What an artifact's MLIR shows: real Mosaic kernels, nothing that reaches the host, no heavy work beside them.

The source text plays no part. Both artifacts of a candidate are audited: the one for the TPU as the thing that is
timed, the one for the CPU because the judge is about to run it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from jax._src.lib.mlir import ir

from hawkeye_mcp.artifact import Program, operations
from hawkeye_mcp.evaluation import Audit, Kernel, OutsideOp
from hawkeye_mcp.profiler.mosaic import MosaicCall, body_operations, mosaic_calls, target

Signature = Sequence[tuple[Sequence[int], str]]

ALLOWED_ON_TPU = {"tpu_custom_call", "Sharding"}
ALLOWED_ON_CPU = {"Sharding"}
# Operations that are the work itself; the last segment of the name, in any dialect.
HEAVY = {"dot", "dot_general", "ragged_dot", "convolution", "fft", "triangular_solve", "cholesky"}
# Moves, shapes and bookkeeping: not work.
FREE = {
    "constant",
    "reshape",
    "broadcast_in_dim",
    "return",
    "func",
    "call",
    "tuple",
    "get_tuple_element",
    "iota",
}
# A precomputed answer needs room; an honest program's constants do not.
ARTIFACT_BYTES = 4 << 20
_HOST_WORDS = ("callback", "infeed", "outfeed", "send", "recv", "python")


def audit(
    tpu: Program, cpu: Program | None, inputs: Signature, *, allow_outside: Iterable[str] = (), nbytes: int = 0
) -> Audit:
    """Audit both artifacts of one candidate at one size; `inputs` is the workload's signature, nbytes their length."""
    problems = _signature(tpu, "tpu", inputs) + _custom_calls(tpu, ALLOWED_ON_TPU)
    if cpu:
        problems += _signature(cpu, "cpu", inputs) + _custom_calls(cpu, ALLOWED_ON_CPU)
        if tpu.outputs != cpu.outputs:
            problems.append("The artifact for the TPU and the one for the interpreter have different outputs.")
    if nbytes > ARTIFACT_BYTES:
        problems.append(
            f"The artifact is {nbytes} bytes, above {ARTIFACT_BYTES}: it carries large constants. Compute them in the kernel."
        )
    calls: list[MosaicCall] = []
    if not problems:
        calls = mosaic_calls(tpu)
        problems += _kernels(tpu, calls)
    outside = _outside(tpu)
    allowed = set(allow_outside)
    for op in outside:
        if _is_heavy(op.op) and op.op not in allowed and op.op.rsplit(".", 1)[-1] not in allowed:
            problems.append(
                f"{op.count} {op.op} outside the Pallas kernels: that leaves the work to XLA. Do it inside a pallas_call."
            )
    kernels = [Kernel(name=call.name, grid=list(call.grid), calls=call.calls) for call in calls]
    return Audit(ok=not problems, kernels=kernels, outside=outside, problems=problems)


def plain(program: Program, inputs: Signature) -> list[str]:
    """What keeps a program for the CPU that is no kernel from being run here."""
    how = "it computes with plain operations of jax.numpy and jax.lax"
    return _signature(program, "cpu", inputs) + _custom_calls(program, ALLOWED_ON_CPU, how)


def _signature(program: Program, platform: str, inputs: Signature) -> list[str]:
    exported = program.exported
    found = []
    if tuple(exported.platforms) != (platform,):
        found.append(f"The artifact is for {', '.join(exported.platforms)}, not for {platform}.")
    if program.inputs != [(tuple(shape), dtype) for shape, dtype in inputs]:
        found.append(f"The artifact for {platform} takes {program.inputs}, not the workload's inputs.")
    if exported.ordered_effects or exported.unordered_effects or exported.disabled_safety_checks:
        found.append(
            "The artifact has side effects or disabled safety checks. Remove prints, callbacks and debug calls."
        )
    if exported.nr_devices != 1:
        found.append("The artifact is for several devices; a candidate runs on one.")
    return found


def _custom_calls(
    program: Program, allowed: set[str], how: str = "a candidate computes with Pallas and plain operations"
) -> list[str]:
    found: Counter[str] = Counter()
    with program.context:
        for op in operations(program.module.operation):
            last = op.name.rsplit(".", 1)[-1]
            if last == "custom_call" and (name := target(op)) not in allowed:
                found[name] += 1
            elif last in ("infeed", "outfeed", "send", "recv"):
                found[op.name] += 1
    return [
        f"{count} call(s) to {name!r}, which the judge does not allow: {how} only, without"
        " callbacks, foreign functions or host transfers."
        for name, count in sorted(found.items())
    ]


def _kernels(tpu: Program, calls: list[MosaicCall]) -> list[str]:
    if not calls:
        return [
            "There is no Mosaic kernel in the artifact: it is plain XLA (or was traced with interpret=True)."
            " Compute the result with pl.pallas_call, without interpret."
        ]
    problems = []
    with tpu.context:
        for call in calls:
            host = sorted(
                op for op in body_operations(call) if any(word in op for word in _HOST_WORDS) or op == "tpu.log"
            )
            if host:
                problems.append(
                    f"Kernel {call.name} calls the host ({', '.join(host)}). Remove debug prints and callbacks."
                )
            if call.config["custom_call_config"].get("has_communication"):
                problems.append(f"Kernel {call.name} communicates between devices; a candidate runs on one.")
        if not _kernel_reaches_output(tpu):
            problems.append(
                "No Mosaic kernel's result reaches an output: the kernels compute nothing that is returned."
            )
    return problems


def _kernel_reaches_output(program: Program) -> bool:
    """Walk back from the entry point's results; calls count if their callee's results depend on a kernel."""
    functions = {
        str(ir.StringAttr(op.operation.attributes["sym_name"]).value): op.operation
        for op in program.module.body.operations
        if "sym_name" in op.operation.attributes
    }
    known: dict[str, bool] = {}

    def depends(name: str) -> bool:
        if name not in known:
            known[name] = False  # a cycle cannot occur in a valid module; stay finite on an invalid one
            known[name] = any(is_kernel(op) for op in _live(functions[name]))
        return known[name]

    def is_kernel(op: ir.Operation) -> bool:
        if op.name == "stablehlo.custom_call":
            return target(op) == "tpu_custom_call"
        if op.name in ("func.call", "call"):
            callee = str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            return callee in functions and depends(callee)
        return False

    return depends("main")


def _live(function: ir.Operation) -> list[ir.Operation]:
    """Operations of a function, at any depth, on which its results depend."""
    seen: set[int] = set()
    live: list[ir.Operation] = []
    block = function.regions[0].blocks[0]
    todo = [value for op in list(block)[-1:] for value in op.operation.operands]
    while todo:
        owner = todo.pop().owner
        if not isinstance(owner, ir.Operation) and not hasattr(owner, "operation"):
            continue  # a block argument
        op = owner.operation if hasattr(owner, "operation") else owner
        if not isinstance(op, ir.Operation) or hash(op) in seen:
            continue
        seen.add(hash(op))
        for each in (op, *operations(op)):
            live.append(each)
            todo.extend(each.operands)
    return live


def _is_heavy(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in HEAVY


def _outside(program: Program) -> list[OutsideOp]:
    with program.context:
        count = Counter(
            op.name
            for op in operations(program.module.operation)
            if op.name.rsplit(".", 1)[-1] not in FREE
            and not (op.name.endswith("custom_call") and target(op) in ALLOWED_ON_TPU)
        )
    ordered = sorted(count.items(), key=lambda item: (not _is_heavy(item[0]), -item[1], item[0]))
    return [OutsideOp(op=name, count=n) for name, n in ordered]
