"""Facts of CUDA C++: kernels, launches, constants, shared memory; what makes the kernels fast is in cuda_evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawkeye_mcp.intake.references.cuda_evidence import Evidence
from hawkeye_mcp.intake.references.cuda_names import (
    Function,
    arguments,
    function_of,
    identifier,
    parameters,
    settled,
    take_name,
)
from hawkeye_mcp.intake.references.cuda_tree import Code, parse, walk
from hawkeye_mcp.intake.references.expressions import Scope, bytes_of
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Constant, Kernel, Launch, Memory, Value

if TYPE_CHECKING:
    from tree_sitter import Node

_LAUNCH_CALLS = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel")
_MACROS_READ = 1_000
_MACRO_HEAD = b"void macro() {\n"


@dataclass
class Cuda:
    """What is collected of one text."""

    kernels: list[Kernel] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)

    def add(self, other: Cuda) -> None:
        self.kernels += other.kernels
        self.launches += other.launches
        self.constants += other.constants
        self.memory += other.memory


def read(source: str, found: Found, first_line: int = 1) -> Cuda:
    """The facts of a CUDA text; mechanisms go to `found`.

    Raises:
        ReferenceUnreadable: see cuda_tree.parse.
    """
    code = parse(source.encode("utf-8", "replace"), first_line)
    cuda, scope = Cuda(), Scope()
    functions: dict[int, Function] = {}
    pending: list[tuple[Node, Node | None, Function | None]] = []
    evidence = Evidence(code, found)
    for node, parent, function in _with_function(code, functions):
        take_name(code, cuda.constants, scope, node, function)
        if node.type in ("kernel_call_syntax", "call_expression", "declaration"):
            pending.append((node, parent, function))
        evidence.take(node, parent, function)
    scopes: dict[int, Scope] = {}
    for node, parent, function in pending:  # now every name is known
        inner = scope
        if function is not None:
            if function.node.id not in scopes:
                scopes[function.node.id] = scope.inner(settled(function))
            inner = scopes[function.node.id]
        if node.type == "declaration":
            _shared(code, cuda, inner, node, function)
        else:
            _launch(code, cuda, inner, node, parent, function)
    for constant in cuda.constants:
        constant.value = scope.value(constant.text)
    cuda.kernels = [_kernel(code, function) for function in functions.values() if function.is_kernel]
    evidence.finish(cuda.memory, scope)
    _macros(code, cuda, found)
    return cuda


def _with_function(code: Code, functions: dict[int, Function]) -> Iterator[tuple[Node, Node | None, Function | None]]:
    """Every node with its parent and the function that it stands in."""
    inside: list[Function] = []
    for node, parent in walk(code.root):
        while inside and node.start_byte >= inside[-1].node.end_byte:
            inside.pop()
        if node.type == "function_definition" and (made := function_of(code, node, parent)):
            functions[node.id] = made
            inside.append(made)
        yield node, parent, inside[-1] if inside else None


def _kernel(code: Code, function: Function) -> Kernel:
    node = function.node
    body = node.child_by_field_name("body")
    until = min(body.start_byte if body else node.end_byte, function.start_byte + 2_000)
    return Kernel(
        name=function.name,
        language="cuda",
        signature=code.span(function.start_byte, until),
        parameters=parameters(code, function),
        line=code.line(node),
        end_line=code.end_line(node),
    )


# --- launches


def _launch(code: Code, cuda: Cuda, scope: Scope, node: Node, parent: Node | None, function: Function | None) -> None:
    if node.type == "kernel_call_syntax":
        given = arguments(code, node)
        name = code.text(parent.child_by_field_name("function"), 200) if parent else ""
    else:
        name = code.text(node.child_by_field_name("function"), 60)
        if name not in _LAUNCH_CALLS:
            return
        listed = node.child_by_field_name("arguments")
        passed = arguments(code, listed) if listed else []
        if len(passed) < 5:
            return
        name, grid, block, shared = (
            passed[0].rpartition(")")[2].strip("& "),
            passed[1],
            passed[2],
            passed[4],
        )
        given = [grid, block, shared]
    if len(given) < 2:
        return
    shared_text = given[2] if len(given) > 2 else "0"
    dims = {} if function is None else function.dims
    cuda.launches.append(
        Launch(
            kernel=name,
            line=code.line(node),
            grid=_dims(scope, dims, given[0]),
            block=_dims(scope, dims, given[1]),
            grid_text=given[0],
            block_text=given[1],
            shared_bytes=Value(text=shared_text, value=scope.value(shared_text)),
        )
    )


def _dims(scope: Scope, known: dict[str, list[str] | None], text: str) -> list[Value] | None:
    """A grid or block: an expression is its first dimension; a dim3 has up to three."""
    listed: list[str] | None
    if text in known:
        listed = known[text]
        if listed == []:
            listed = ["1"]
    elif text.startswith(("dim3(", "dim3{")) and text[-1:] in ")}":
        listed = _split(text[5:-1])
    else:
        listed = [text]
    if listed is None:
        return None
    return [Value(text=one, value=scope.value(one)) for one in listed]


def _split(text: str) -> list[str]:
    """The arguments of a list, at its own commas."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [part for part in [*parts, current.strip()] if part]


# --- shared memory


def _shared(code: Code, cuda: Cuda, scope: Scope, node: Node, function: Function | None) -> None:
    words = {code.text(child, 40) for child in node.children if "qualifier" in child.type or "specifier" in child.type}
    if "__shared__" not in words:
        return
    kind = code.text(node.child_by_field_name("type"))
    for child in node.named_children:
        if "declarator" not in child.type and child.type != "identifier":
            continue
        dims: list[Value] = []
        at: Node | None = child
        while at is not None and at.type in ("array_declarator", "init_declarator"):
            if at.type == "array_declarator":
                size = code.text(at.child_by_field_name("size"))
                dims.insert(0, Value(text=size, value=scope.value(size) if size else None))
            at = at.child_by_field_name("declarator")
        name = identifier(child)
        cuda.memory.append(
            Memory(
                name=code.text(name),
                kind="extern" if "extern" in words else "static",
                type=kind,
                dims=dims,
                bytes=None if "extern" in words else bytes_of(kind, [dim.value for dim in dims]),
                kernel=function.name if function else None,
                line=code.line(node),
            )
        )


def _macros(code: Code, cuda: Cuda, found: Found) -> None:
    """What the bodies of macros show: they are code, which the tree holds as text."""
    bodies = [
        body
        for node, _ in walk(code.root)
        if node.type == "preproc_function_def"
        and (body := node.child_by_field_name("value")) is not None
        and b"(" in code.source[body.start_byte : body.end_byte]
    ]
    for body in bodies[:_MACROS_READ]:
        text = code.source[body.start_byte : body.end_byte].replace(b"\\\n", b" \n")
        inner = parse(_MACRO_HEAD + text + b"\n;}", code.line(body) - 1)
        evidence = Evidence(inner, found)
        for part, parent in walk(inner.root):
            evidence.take(part, parent, None)
            if part.type == "kernel_call_syntax":
                _launch(inner, cuda, Scope(), part, parent, None)
