"""By what means kernels in Triton and Pallas are fast: seen in calls and loops of the syntax tree."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.python_tree import Python, assignments, within

TRITON, PALLAS = "triton.", "jax.experimental.pallas"
# By the last part of a called name, in kernels of Triton and in code of Pallas.
_TRITON_CALLS: dict[str, str] = {
    "make_block_ptr": "block_windows",
    "make_tensor_descriptor": "bulk_tensor_copy",
    "associative_scan": "scan",
    "cumsum": "scan",
    "cumprod": "scan",
    "sum": "reduction",
    "max": "reduction",
    "min": "reduction",
    "argmax": "reduction",
    "argmin": "reduction",
    "reduce": "reduction",
    "static_range": "loop_unrolling",
    "swizzle2d": "grid_reordering",
    "rand": "random_numbers",
    "randn": "random_numbers",
    "randint": "random_numbers",
    "debug_barrier": "block_synchronisation",
    "inline_asm_elementwise": "inline_assembly",
}
_PALLAS_CALLS: dict[str, str] = {
    "make_async_copy": "asynchronous_copy",
    "async_copy": "asynchronous_copy",
    "sync_copy": "asynchronous_copy",
    "copy_gmem_to_smem": "bulk_tensor_copy",
    "copy_smem_to_gmem": "bulk_tensor_copy",
    "make_async_remote_copy": "remote_copy",
    "emit_pipeline": "inner_pipeline",
    "PrefetchScalarGridSpec": "scalar_prefetch",
    "Buffered": "software_pipelining",
    "BlockSpec": "block_windows",
    "prng_seed": "random_numbers",
    "prng_random_bits": "random_numbers",
    "atomic_add": "atomics",
    "atomic_max": "atomics",
    "atomic_cas": "atomics",
    "Barrier": "memory_barrier_object",
    "wgmma": "matrix_unit",
    "tcgen05_mma": "matrix_unit",
}
_MATRIX_CALLS = ("dot", "dot_general", "dot_scaled", "matmul", "einsum", "wgmma", "tcgen05_mma")
_MAXIMUM, _EXPONENTIAL = ("maximum", "max", "fmax"), ("exp", "exp2")
_LOOPS_NOTED = 200
_SPLIT_K = re.compile(r"(?i)split_?k\w*|k_?splits?|num_k_splits?")


def of_triton(python: Python, found: Found, kernels: set[str]) -> None:
    for name in kernels:
        _decorators(python, found, python.functions[name])
    _evidence(python, found, _TRITON_CALLS, TRITON, _kernel_at(python, kernels))


def of_pallas(python: Python, found: Found, kernels: set[str]) -> None:
    _evidence(python, found, _PALLAS_CALLS, PALLAS, _kernel_at(python, kernels))


def _kernel_at(python: Python, kernels: set[str]) -> list[str | None]:
    """By line, from line 0: the kernel that it is in, or the function that kernels call."""
    at: list[str | None] = [None] * len(python.around)
    reached, left = set(kernels), sorted(kernels)
    while left:
        for node in ast.walk(python.functions[left.pop()]):
            if isinstance(node, ast.Name) and node.id in python.functions and node.id not in reached:
                reached.add(node.id)
                left.append(node.id)
    for name in [*sorted(reached - kernels), *sorted(kernels)]:
        function = python.functions[name]
        for row in range(function.lineno, (function.end_lineno or function.lineno) + 1):
            at[row] = name
    return at


def _decorators(python: Python, found: Found, function: ast.FunctionDef) -> None:
    for decorator in function.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and python.name(node.func).endswith("triton.autotune"):
                found.note("autotuned_constants", node.lineno, function.name, python.text(node))
            for keyword in node.keywords if isinstance(node, ast.Call) else []:
                stages = python.value(keyword.value).value if keyword.arg == "num_stages" else None
                if stages and stages > 1:
                    found.note("software_pipelining", keyword.value.lineno, function.name, f"num_stages={stages}")


@dataclass
class _Loop:
    maximum: bool = False
    exponential: bool = False
    rescaled: bool = False


def _evidence(python: Python, found: Found, calls: dict[str, str], library: str, kernel_at: list[str | None]) -> None:
    # Steps of a grid run the body of a Pallas kernel again, as a loop does.
    loops_of = (ast.For, ast.While, ast.FunctionDef) if library == PALLAS else (ast.For, ast.While)
    loops: dict[int, tuple[ast.AST, _Loop]] = {}
    set_to = _set_to(python)
    for node, around in within(python.tree, loops_of):
        kernel = kernel_at[getattr(node, "lineno", 0)]
        if isinstance(node, ast.Call):
            _call(python, found, node, kernel, calls, library)
        if kernel is not None:
            _running_softmax(python, node, [loops.setdefault(id(loop), (loop, _Loop()))[1] for loop in around], set_to)
        if kernel is not None and isinstance(node, ast.For) and library == TRITON:
            _persistent(python, found, node, kernel)
        if kernel is not None and isinstance(node, ast.Name | ast.arg):
            text = node.id if isinstance(node, ast.Name) else node.arg
            if _SPLIT_K.fullmatch(text):
                found.note("split_k", node.lineno, kernel, text)
    shown = [loop for loop, one in loops.values() if one.maximum and one.exponential and one.rescaled]
    noted: list[int] = []
    for loop in sorted(shown, key=_lines):  # the innermost loop shows it, not those around it
        line, last = getattr(loop, "lineno", 1), getattr(loop, "end_lineno", 1)
        if not any(line <= inner <= last for inner in noted[:_LOOPS_NOTED]):
            noted.append(line)
            found.note("online_softmax", line, kernel_at[line], python.rows[line - 1].decode("utf-8", "replace"))


def _lines(node: ast.AST) -> int:
    return int(getattr(node, "end_lineno", 1)) - int(getattr(node, "lineno", 1))


def _running_softmax(python: Python, node: ast.AST, loops: list[_Loop], set_to: dict[str, ast.expr]) -> None:
    """What a node shows of a softmax that is rescaled as it goes, for the loops around it."""
    if isinstance(node, ast.Call):
        last = python.name(node.func).rpartition(".")[2]
        if last in _MAXIMUM and not any(isinstance(given, ast.Constant) for given in node.args):  # no clamp
            _mark(loops, "maximum")
        if last in _EXPONENTIAL and node.args and _subtracts(node.args[0], set_to):
            _mark(loops, "exponential")
    elif (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult)) or _rescales(python, node):
        _mark(loops, "rescaled")


def _set_to(python: Python) -> dict[str, ast.expr]:
    """What names are set to somewhere, the last of each."""
    return {
        target.id: node.value
        for node in ast.walk(python.tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _mark(loops: list[_Loop], what: str) -> None:
    for loop in loops:
        setattr(loop, what, True)


def _subtracts(node: ast.expr, set_to: dict[str, ast.expr]) -> bool:
    """Whether it is a difference, by name or as it stands."""
    if isinstance(node, ast.Name):
        node = set_to.get(node.id, node)
    return any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) for part in ast.walk(node))


def _rescales(python: Python, node: ast.AST) -> bool:
    """`acc = acc * alpha + ...`: a product with itself in the sum that it is set to."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = python.text(node.targets[0])
    terms: list[ast.expr] = [node.value]
    for _ in range(8):
        at = terms[0]
        if isinstance(at, ast.BinOp) and isinstance(at.op, ast.Add | ast.Sub):
            terms[:1] = [at.left, at.right]
    products = [term for term in terms if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult)]
    return any(target in (python.text(product.left), python.text(product.right)) for product in products)


def _persistent(python: Python, found: Found, node: ast.For, kernel: str | None) -> None:
    """`for tile in range(tl.program_id(0), tiles, programs)`: one program works off several blocks."""
    if not isinstance(node.iter, ast.Call) or len(node.iter.args) != 3:
        return
    if python.name(node.iter.func).rpartition(".")[2] not in ("range", "static_range"):
        return
    first = python.text(node.iter.args[0])
    set_to = (
        [python.text(value) for name, value in assignments(python.functions[kernel].body) if name == first]
        if kernel
        else []
    )
    if any("program_id" in text for text in [first, *set_to]):
        found.note("persistent_kernel", node.lineno, kernel, python.text(node.iter))


def _call(
    python: Python, found: Found, node: ast.Call, kernel: str | None, calls: dict[str, str], library: str
) -> None:
    full = python.name(node.func)
    last = full.rpartition(".")[2]
    code = python.text(node)
    own = full.startswith(library)
    none_prefetched = "num_scalar_prefetch=0" in code.replace(" ", "")
    if own and last in calls and not (calls[last] == "scalar_prefetch" and none_prefetched):
        found.note(calls[last], node.lineno, kernel, code)
    if own and last.startswith("atomic_") and library == TRITON:
        found.note("atomics", node.lineno, kernel, code)
    if last in _MATRIX_CALLS and kernel and (own or full.startswith(("jax.numpy", "jax.lax"))):
        found.note_matrix(full, None, node.lineno, kernel, code)
    given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if own and last in ("load", "store") and ("mask" in given or "boundary_check" in given):
        found.note("masked_access", node.lineno, kernel, code)
    if own and {"eviction_policy", "cache_modifier"} & given.keys():
        found.note("cache_hint", node.lineno, kernel, code)
    if own and "num_stages" in given:
        found.note("software_pipelining", node.lineno, kernel, code)
    if library == PALLAS:
        if own and last == "when" and node.args and "==" in python.text(node.args[0]):
            found.note("revisited_output", node.lineno, kernel, code)
        if "dimension_semantics" in given:
            found.note("dimension_semantics", node.lineno, kernel, code)
        if full == "jax.lax.fori_loop" and "unroll" in given:
            found.note("loop_unrolling", node.lineno, kernel, code)
