"""Kernels in Triton and Pallas, their launches, and by what means they are fast; from the syntax tree alone."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Kernel, Launch, Memory, Parameter, Value
from hawkeye_mcp.intake.references.python_tree import Python, assignments, within

_TRITON, _PALLAS = "triton.", "jax.experimental.pallas"
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


@dataclass
class Kernels:
    kernels: list[Kernel] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)


def read(python: Python, found: Found) -> Kernels:
    """What a module holds of Triton and Pallas."""
    kernels = Kernels()
    triton = {name for name, function in python.functions.items() if _is_triton(python, function)}
    pallas: set[str] = set()
    for node in ast.walk(python.tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Subscript) and python.name(node.func.value).rpartition(".")[2] in triton:
                _launch_triton(python, kernels, node)
            elif python.name(node.func).startswith(_PALLAS):
                _pallas(python, kernels, pallas, node)
    for name in sorted(triton | pallas, key=lambda name: python.functions[name].lineno):
        function = python.functions[name]
        kernels.kernels.append(_kernel(python, function, "triton" if name in triton else "pallas"))
    for name in triton:
        _decorators(python, found, python.functions[name])
    if triton:
        _evidence(python, found, _TRITON_CALLS, _TRITON, _kernel_at(python, triton))
    if pallas:
        _evidence(python, found, _PALLAS_CALLS, _PALLAS, _kernel_at(python, pallas))
    return kernels


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


def _is_triton(python: Python, function: ast.FunctionDef) -> bool:
    names = [python.name(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list]
    return any(name.startswith("triton") and name.endswith("jit") for name in names)


def _kernel(python: Python, function: ast.FunctionDef, language: str) -> Kernel:
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    parameters = [Parameter(name=one.arg, type=python.text(one.annotation)) for one in every]
    for star, rest in (("*", function.args.vararg), ("**", function.args.kwarg)):
        if rest is not None:
            parameters.append(Parameter(name=f"{star}{rest.arg}", type=python.text(rest.annotation)))
    listed = ", ".join(f"{p.name}: {p.type}" if p.type else p.name for p in parameters)
    return Kernel(
        name=function.name,
        language="triton" if language == "triton" else "pallas",
        signature=f"def {function.name}({listed})",
        parameters=parameters,
        line=function.lineno,
        end_line=function.end_lineno or function.lineno,
    )


# --- Triton


def _launch_triton(python: Python, kernels: Kernels, node: ast.Call) -> None:
    assert isinstance(node.func, ast.Subscript)
    around = python.around[node.lineno]
    local = dict(assignments(around.body)) if around else {}
    names: dict[str, int | str] = {name: python.text(value) for name, value in local.items()}
    options = {k.arg: python.value(k.value, names) for k in node.keywords if k.arg and not _is_text(k.value)}
    grid = _followed(python, node.func.slice, local)
    known = names | {name: value.value for name, value in options.items() if value.value is not None}
    if isinstance(grid, ast.Lambda):
        meta = grid.args.args[0].arg if grid.args.args else ""
        grid = grid.body
    else:
        meta = ""
    warps = options.get("num_warps")
    threads = (
        [Value(text=f"32 * {warps.text}", value=None if warps.value is None else 32 * warps.value)] if warps else None
    )
    kernels.launches.append(
        Launch(
            kernel=python.text(node.func.value),
            line=node.lineno,
            grid=_dims(python, grid, known, meta),
            block=threads,
            grid_text=python.text(node.func.slice),
            block_text=f"num_warps={warps.text}" if warps else "",
            options=options,
        )
    )


def _dims(python: Python, grid: ast.expr | None, names: dict[str, int | str], meta: str) -> list[Value] | None:
    """The dimensions of a grid; meta: what its lambda calls the launch's options."""
    if isinstance(grid, ast.Tuple | ast.List):
        parts: list[ast.expr] = grid.elts
    elif isinstance(grid, ast.Constant | ast.BinOp | ast.Call):
        parts = [grid]
    else:
        return None
    found = []
    for part in parts:
        text = python.text(part)
        plain = re.sub(rf"""\b{re.escape(meta)}\[\s*["'](\w+)["']\s*\]""", r"\1", text) if meta else text
        found.append(Value(text=text, value=python.scope.inner(names).value(plain)))
    return found


def _followed(python: Python, node: ast.expr, local: dict[str, ast.expr]) -> ast.expr:
    """What a name was set to, if it is one."""
    for _ in range(4):
        if not isinstance(node, ast.Name):
            break
        known = local.get(node.id) or python.assigned.get(node.id)
        if known is None:
            break
        node = known
    return node


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _decorators(python: Python, found: Found, function: ast.FunctionDef) -> None:
    for decorator in function.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and python.name(node.func).endswith("triton.autotune"):
                found.note("autotuned_constants", node.lineno, function.name, python.text(node))
            for keyword in node.keywords if isinstance(node, ast.Call) else []:
                stages = python.value(keyword.value).value if keyword.arg == "num_stages" else None
                if stages and stages > 1:
                    found.note("software_pipelining", keyword.value.lineno, function.name, f"num_stages={stages}")


# --- Pallas


def _pallas(python: Python, kernels: Kernels, pallas: set[str], node: ast.Call) -> None:
    """A call of Pallas: a launch, or a block or scratch array of one."""
    last = python.name(node.func).rpartition(".")[2]
    around = python.around[node.lineno]
    local = dict(assignments(around.body)) if around else {}
    names: dict[str, int | str] = {name: python.text(value) for name, value in local.items()}
    if last in ("pallas_call", "kernel", "emit_pipeline", "core_map"):
        body = (
            node.args[0] if node.args else next((k.value for k in node.keywords if k.arg in ("kernel", "body")), None)
        )
        called = _function_of(python, body, local)
        if called in python.functions:
            pallas.add(called)
        grid = _given(node, "grid")
        spec = _given(node, "grid_spec")
        if grid is None and spec is not None:
            followed = _followed(python, spec, local)
            grid = _given(followed, "grid") if isinstance(followed, ast.Call) else None
        shown = _followed(python, grid, local) if grid is not None else None
        kernels.launches.append(
            Launch(
                kernel=called or python.text(body, 80),
                line=node.lineno,
                grid=_dims(python, shown, names, ""),
                block=None,
                grid_text=python.text(grid),
            )
        )
    elif last in ("BlockSpec", "VMEM", "SMEM"):
        shape = node.args[0] if node.args else _given(node, "block_shape")
        listed = _followed(python, shape, local) if shape is not None else None
        if not isinstance(listed, ast.Tuple | ast.List):
            return
        dtype = python.text(node.args[1]) if last != "BlockSpec" and len(node.args) > 1 else ""
        kernels.memory.append(
            Memory(
                name="",
                kind="window" if last == "BlockSpec" else "scratch",
                type=dtype,
                dims=[python.value(one, names) for one in listed.elts],
                bytes=_bytes(dtype, [python.value(one, names).value for one in listed.elts]),
                kernel=None,
                line=node.lineno,
            )
        )


def _given(node: ast.expr, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None) if isinstance(node, ast.Call) else None


def _function_of(python: Python, node: ast.expr | None, local: dict[str, ast.expr]) -> str:
    """The name of the function that an expression calls in the end."""
    for _ in range(4):
        if isinstance(node, ast.Call) and node.args:  # functools.partial(kernel, ...)
            node = node.args[0]
        elif isinstance(node, ast.Name) and node.id not in python.functions and node.id in local:
            node = local[node.id]
        else:
            break
    return node.id if isinstance(node, ast.Name) else ""


def _bytes(dtype: str, dims: list[int | None]) -> int | None:
    bits = re.search(r"(\d+)(?:_?t)?$|float8|int4", dtype.rpartition(".")[2])
    if bits is None or None in dims or not dims:
        return None
    size = int(bits[1]) if bits[1] else {"float8": 8, "int4": 4}[bits[0]]
    for dim in dims:
        size *= dim or 0
    return size // 8


# --- mechanisms


@dataclass
class _Loop:
    maximum: bool = False
    exponential: bool = False
    rescaled: bool = False


def _evidence(python: Python, found: Found, calls: dict[str, str], library: str, kernel_at: list[str | None]) -> None:
    # Steps of a grid run the body of a Pallas kernel again, as a loop does.
    loops_of = (ast.For, ast.While, ast.FunctionDef) if library == _PALLAS else (ast.For, ast.While)
    loops: dict[int, tuple[ast.AST, _Loop]] = {}
    set_to = _set_to(python)
    for node, around in within(python.tree, loops_of):
        kernel = kernel_at[getattr(node, "lineno", 0)]
        if isinstance(node, ast.Call):
            _call(python, found, node, kernel, calls, library)
        if kernel is not None:
            _running_softmax(python, node, [loops.setdefault(id(loop), (loop, _Loop()))[1] for loop in around], set_to)
        if kernel is not None and isinstance(node, ast.For) and library == _TRITON:
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
        if last in _MAXIMUM:
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
    if own and last.startswith("atomic_") and library == _TRITON:
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
    if library == _PALLAS:
        if own and last == "when" and node.args and "==" in python.text(node.args[0]):
            found.note("revisited_output", node.lineno, kernel, code)
        if "dimension_semantics" in given:
            found.note("dimension_semantics", node.lineno, kernel, code)
        if full == "jax.lax.fori_loop" and "unroll" in given:
            found.note("loop_unrolling", node.lineno, kernel, code)
