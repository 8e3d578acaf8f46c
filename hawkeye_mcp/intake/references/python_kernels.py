"""Kernels in Triton and Pallas and their launches, from the syntax tree alone."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from hawkeye_mcp.intake.references import python_evidence
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Kernel, Launch, Memory, Parameter, Value
from hawkeye_mcp.intake.references.python_tree import Python, assignments


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
            elif python.name(node.func).startswith(python_evidence.PALLAS):
                _pallas(python, kernels, pallas, node)
    for name in sorted(triton | pallas, key=lambda name: python.functions[name].lineno):
        function = python.functions[name]
        kernels.kernels.append(_kernel(python, function, "triton" if name in triton else "pallas"))
    if triton:
        python_evidence.of_triton(python, found, triton)
    if pallas:
        python_evidence.of_pallas(python, found, pallas)
    return kernels


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
