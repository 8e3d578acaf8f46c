"""The builtin optimiser: a fixed procedure behind `--model builtin`. It is not a language model.

It shows that the loop runs with no key and no TPU: it reads the workload, writes a kernel if it knows the
family, and tries block sizes guided by the profile, all through the same MCP tools as any agent. Where the
server shows taxonomy cells it reads them and starts from the design that their headings name; where there are none, or
their headings name none, it starts from a plainer one. That dependence is written down here by hand, so its results under different conditions
test the plumbing and are no evidence that the taxonomy helps an agent.
"""

import re
from dataclasses import dataclass
from math import prod

from hawkeye_bench.agents import Emit, Stop, Task
from hawkeye_bench.agents.kernels import VMEM_BUDGET_BYTES, Blocks, vmem_bytes, write
from hawkeye_bench.agents.reference import Array, Recipe, UnknownFamily, recognise
from hawkeye_bench.agents.session import Answer, Session, connect

BUILTIN_MODEL = "builtin optimiser (not a language model)"

# One try must be this much faster than the best so far to count, and this many in a row that are not end the
# search.
_GAIN = 1.005
_PATIENCE = 2
# Multiply-adds of one grid step: beyond it the compiler's unrolled schedule takes minutes.
_LARGEST_STEP = 2**30
_MAX_TRIES = 24


@dataclass(frozen=True)
class Techniques:
    """What the readable cells teach that this procedure can use."""

    fuse_tail: bool = False
    large_blocks: bool = False


@dataclass(frozen=True)
class Problem:
    """A workload as its statement tells it. shape: (rows, columns, depth) at full size; depth 1 without a
    matmul.
    """

    recipe: Recipe
    shape: tuple[int, int, int]


class BuiltinOptimiser:
    name = "minimal"
    files = False
    model = BUILTIN_MODEL

    async def run(self, task: Task, emit: Emit) -> Stop:
        async with connect(task, emit) as session:
            statement = await session.call("read_workload", {})
            try:
                problem = read_statement(statement.text)
            except UnknownFamily as unknown:
                emit("note", {"text": f"The builtin optimiser does not know this family: {unknown}."})
                return "unknown_family"
            emit("note", {"text": f"Recognised: {problem.recipe.family}."})
            techniques = await _read_cells(session) if "read_taxonomy_cell" in session.tools else Techniques()
            await _search(session, task, problem, techniques, emit)
        return "finished"


def read_statement(text: str) -> Problem:
    """The problem from the text of read_workload.

    Raises:
        UnknownFamily: the text lacks a part, or the reference is of no known family.
    """
    reference = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    arrays: dict[str, list[Array]] = {"Inputs": [], "Outputs": []}
    section = ""
    for line in text.splitlines():
        if heading := re.match(r"## (\w+)", line):
            section = heading[1]
        elif section in arrays and (found := re.match(r"- (\w+): (\w+) \[([\d, ]*)\]", line)):
            shape = tuple(int(size) for size in found[3].split(",") if size.strip())
            arrays[section].append(Array(found[1], shape, found[2]))
    if not reference or not arrays["Inputs"] or not arrays["Outputs"]:
        raise UnknownFamily("the statement has no reference code, inputs or outputs")
    recipe = recognise(reference[1], arrays["Inputs"], arrays["Outputs"])
    out = arrays["Outputs"][0].shape
    depth = next((array.shape[-1] for array in arrays["Inputs"] if array.name == recipe.lhs), 1)
    return Problem(recipe, (prod(out[:-1]), out[-1], depth))


async def _read_cells(session: Session) -> Techniques:
    """List the cells, read each guide, and note what is usable: from what the cells say, not from the rows' names."""
    listing = (await session.call("read_taxonomy_cell", {})).text
    has_parts = "part" in session.tools["read_taxonomy_cell"].input_schema["properties"]
    headings = []
    for row in re.findall(r"^- (\w+):", listing, re.MULTILINE):
        part = {"part": "guide"} if has_parts else {}
        text = (await session.call("read_taxonomy_cell", {"row": row, **part})).text
        headings.append(text.partition("\n")[0].replace(row, "").lower())
    return Techniques(
        fuse_tail=any("epilogue" in heading for heading in headings),
        large_blocks=any("mxu" in heading or "matrix unit" in heading for heading in headings),
    )


def first_design(recipe: Recipe, techniques: Techniques) -> Blocks:
    """The design to start from: as the cells advise, else legal, modest and unfused."""
    m, n, k = (512, 1024, 2048) if techniques.large_blocks else (256, 256, 256)
    fused = techniques.fuse_tail and bool(recipe.tail)
    if fused and recipe.needs_rows:
        m, k = 256, 256
    return Blocks(m=m, n=n, k=k, rows=16, fused=fused)


def neighbours(problem: Problem, blocks: Blocks, bound: str) -> list[Blocks]:
    """Designs to try next, most promising first.

    bound: what the profile says limits the slowest operation: "hbm" or "static_schedule".
    """
    recipe = problem.recipe
    if recipe.lhs is None:
        larger = [blocks.scaled(rows=4), blocks.scaled(rows=2)]
        if bound == "hbm":  # it reads and writes everything once already: only very many steps still cost something
            return larger if blocks.rows < 64 else []
        return [*larger, blocks.scaled(rows=0.5)]
    if blocks.fused and recipe.needs_rows:
        apart = Blocks(m=512, n=1024, k=2048, rows=64, fused=False)
        return [apart, blocks.scaled(k=2), blocks.scaled(m=0.5)]
    wider = [blocks.scaled(m=2, n=2), blocks.scaled(m=2), blocks.scaled(n=2)]
    traded = [blocks.scaled(m=2, k=0.5), blocks.scaled(n=2, k=0.5)]
    deeper = [blocks.scaled(k=2)]
    more_rows = [] if blocks.fused or not recipe.tail else [blocks.scaled(rows=8)]
    if max(blocks.m, blocks.n, blocks.k) < 1024:
        return [blocks.scaled(m=2, n=2, k=2, rows=4), *wider, *deeper]
    # Wider blocks move less from HBM; deeper ones leave the MXU idle less often.
    return [*wider, *traded, *more_rows, *deeper] if bound == "hbm" else [*deeper, *wider, *traded, *more_rows]


def feasible(problem: Problem, blocks: Blocks, tpu: str) -> bool:
    """Whether the design can fit the chip and compile in reasonable time."""
    rows, columns, depth = problem.shape
    if min(blocks.m, blocks.n, blocks.k) < 128 or blocks.rows < 16:
        return False
    if problem.recipe.lhs is not None:
        n = columns if blocks.fused and problem.recipe.needs_rows else min(blocks.n, columns)
        if min(blocks.m, rows) * n * min(blocks.k, depth) > _LARGEST_STEP:
            return False
    return vmem_bytes(problem.recipe, blocks, problem.shape) <= VMEM_BUDGET_BYTES[tpu]


async def _search(session: Session, task: Task, problem: Problem, techniques: Techniques, emit: Emit) -> None:
    """Hill-climb over block sizes until nothing is left to try, nothing helps, or no evaluations are left."""
    waiting = [first_design(problem.recipe, techniques)]
    tried: set[Blocks] = set()
    best_us: float | None = None
    unhelpful = 0
    while waiting and unhelpful < _PATIENCE and len(tried) < _MAX_TRIES:
        blocks = _clamped(problem, waiting.pop(0))
        if blocks in tried or not feasible(problem, blocks, task.tpu):
            continue
        tried.add(blocks)
        path = f"kernel_{len(tried)}.py"
        verdict = await _evaluate(session, task, problem, blocks, path)
        time_us = verdict.fields.get("candidate_us")
        status = verdict.fields.get("status", "error")
        emit("note", {"text": f"{path}: {blocks.describe(problem.recipe)}: {status}, {time_us} us"})
        if verdict.is_error:
            return
        if status == "correct" and time_us and (best_us is None or time_us * _GAIN < best_us):
            best_us, unhelpful = time_us, 0
            if verdict.fields.get("evaluations_left") != 0:
                waiting = neighbours(problem, blocks, await _bound(session, path))
        elif best_us is None:
            # Nothing has worked yet: try the same design in smaller blocks.
            waiting = [blocks.scaled(m=0.5, n=0.5, k=0.5, rows=0.5)]
        else:
            unhelpful += 1
        if verdict.fields.get("evaluations_left") == 0:
            return


async def _evaluate(session: Session, task: Task, problem: Problem, blocks: Blocks, path: str) -> Answer:
    need = vmem_bytes(problem.recipe, blocks, problem.shape)
    # The compiler's own temporaries come on top of the windows; 16 MiB is what every kernel gets anyway.
    limit = max(16 << 20, -(-need * 5 // 4 // (1 << 20)) << 20)
    (task.workspace / path).write_text(write(problem.recipe, blocks, limit), encoding="utf-8")
    return await session.call("evaluate_kernel", {"path": path})


async def _bound(session: Session, path: str) -> str:
    """What bounds the slowest operation of the kernel, from its profile; "static_schedule" if that says
    nothing.
    """
    answer = await session.call("profile", {"path": path})
    slowest, bound = 0.0, "static_schedule"
    for line in answer.fields.get("ops", []):
        found = re.search(r": ([\d.e+-]+) us x(\d+), .* bound by (\w+)", line)
        if found and float(found[1]) * int(found[2]) > slowest:
            slowest, bound = float(found[1]) * int(found[2]), found[3]
    return bound


def _clamped(problem: Problem, blocks: Blocks) -> Blocks:
    """With no block above its axis, so that two designs that make the same kernel are the same."""
    rows, columns, depth = problem.shape
    return Blocks(
        m=min(blocks.m, rows),
        n=min(blocks.n, columns),
        k=min(blocks.k, depth) if problem.recipe.lhs else blocks.k,
        rows=min(blocks.rows, rows),
        fused=blocks.fused,
    )
