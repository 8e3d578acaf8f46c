"""Facts of CUDA C++: kernels, launches, constants, shared memory; what makes the kernels fast is in cuda_evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hawkeye_mcp.intake.references.cuda_evidence import Evidence
from hawkeye_mcp.intake.references.cuda_tree import Code, parse, walk
from hawkeye_mcp.intake.references.expressions import Scope, bytes_of
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Constant, ConstantKind, Kernel, Launch, Memory, Parameter, Value

if TYPE_CHECKING:
    from tree_sitter import Node

_DIM3 = ("dim3", "uint3")
_LAUNCH_CALLS = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "hipLaunchKernel", "cuLaunchKernel")
Settled = TypeVar("Settled")

_MACROS_READ = 1_000
_MACRO_HEAD = b"void macro() {\n"


@dataclass
class Function:
    """A function of the text.

    start_byte: with its template's head. locals: names to the text that they are set to, None if to more than one; dims:
    the same of names of type dim3.
    """

    name: str
    node: Node
    start_byte: int
    on_device: bool
    is_kernel: bool
    locals: dict[str, str | None] = field(default_factory=dict)
    dims: dict[str, list[str] | None] = field(default_factory=dict)


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
        _constants(code, cuda, scope, node, function)
        if node.type in ("kernel_call_syntax", "call_expression", "declaration"):
            pending.append((node, parent, function))
        evidence.take(node, parent, function)
    scopes: dict[int, Scope] = {}
    for node, parent, function in pending:  # now every name is known
        inner = scope
        if function is not None:
            if function.node.id not in scopes:
                scopes[function.node.id] = scope.inner(_settled(function))
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
        if node.type == "function_definition" and (made := _function(code, node, parent)):
            functions[node.id] = made
            inside.append(made)
        yield node, parent, inside[-1] if inside else None


def _function(code: Code, node: Node, parent: Node | None) -> Function | None:
    declarator = _inner(node.child_by_field_name("declarator"), "function_declarator")
    if declarator is None or node.child_by_field_name("body") is None:
        return None
    name = code.text(declarator.child_by_field_name("declarator"), 200)
    words = {child.type for child in node.children}
    kernel = "__global__" in words
    start = parent.start_byte if parent is not None and parent.type == "template_declaration" else node.start_byte
    return Function(name, node, start, kernel or "__device__" in words, kernel)


def _inner(node: Node | None, kind: str) -> Node | None:
    """The node of a kind down the declarators of a declarator."""
    for _ in range(8):
        if node is None or node.type == kind:
            return node
        node = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if "declarator" in child.type), None
        )
    return None


def _kernel(code: Code, function: Function) -> Kernel:
    node = function.node
    body = node.child_by_field_name("body")
    declarator = _inner(node.child_by_field_name("declarator"), "function_declarator")
    listed = declarator.child_by_field_name("parameters") if declarator else None
    start = function.start_byte
    signature = code.span(start, min(body.start_byte if body else node.end_byte, start + 2_000))
    parameters = []
    for child in listed.named_children if listed else []:
        if child.type in ("parameter_declaration", "optional_parameter_declaration"):
            named = _identifier(child.child_by_field_name("declarator"))
            whole = code.text(child)
            name = code.text(named)
            kind = code.span(child.start_byte, named.start_byte) if named else whole
            parameters.append(Parameter(name=name, type=kind))
    return Kernel(
        name=function.name,
        language="cuda",
        signature=signature,
        parameters=parameters,
        line=code.line(node),
        end_line=code.end_line(node),
    )


def _identifier(node: Node | None) -> Node | None:
    """The name that a declarator declares."""
    for _ in range(8):
        if node is None or node.type in ("identifier", "field_identifier"):
            return node
        node = node.child_by_field_name("declarator") or next(
            (c for c in node.named_children if c.type == "identifier" or "declarator" in c.type), None
        )
    return None


# --- constants and names


def _constants(code: Code, cuda: Cuda, scope: Scope, node: Node, function: Function | None) -> None:
    """Take in what a node says of a name."""
    if node.type == "preproc_def":
        _define(code, cuda, scope, node)
    elif node.type == "preproc_function_def":
        listed = node.child_by_field_name("parameters")
        names = tuple(code.text(child) for child in listed.named_children) if listed else ()
        body = code.text(node.child_by_field_name("value"))
        scope.functions[code.text(node.child_by_field_name("name"))] = (names, body)
    elif node.type == "enumerator_list":
        value = "-1"
        for child in node.named_children:
            if child.type == "enumerator":
                value = code.text(child.child_by_field_name("value")) or f"{value} + 1"
                _constant(cuda, scope, code, child.child_by_field_name("name"), "enum", value)
    elif node.type in ("declaration", "field_declaration"):
        _declared(code, cuda, scope, node, function)
    elif node.type == "assignment_expression" and function is not None:
        _assigned(code, function, node.child_by_field_name("left"))
    elif node.type == "update_expression" and function is not None:
        _assigned(code, function, node.child_by_field_name("argument"))
    elif node.type == "return_statement" and function is not None:
        _one_line_function(code, scope, node, function)


def _define(code: Code, cuda: Cuda, scope: Scope, node: Node) -> None:
    value = code.text(node.child_by_field_name("value"))
    if value:
        _constant(cuda, scope, code, node.child_by_field_name("name"), "define", value)


def _constant(cuda: Cuda, scope: Scope, code: Code, name: Node | None, kind: ConstantKind, text: str) -> None:
    if name is None:
        return
    known = Constant(name=code.text(name), kind=kind, text=text, value=None, line=code.line(name))
    # Defined twice, under conditions that are not followed: nothing is known of it.
    scope.names[known.name] = text if scope.names.get(known.name, text) == text else "?"
    cuda.constants.append(known)


def _declared(code: Code, cuda: Cuda, scope: Scope, node: Node, function: Function | None) -> None:
    qualifiers = {code.text(child) for child in node.named_children if child.type == "type_qualifier"}
    kind: ConstantKind | None = "constexpr" if "constexpr" in qualifiers else "const" if "const" in qualifiers else None
    type_name = code.text(node.child_by_field_name("type"))
    for child in node.named_children:
        if child.type in ("init_declarator", "identifier", "function_declarator") or (
            node.type == "field_declaration" and child.type == "field_identifier"
        ):
            value = child.child_by_field_name("value")
            if child.type == "field_identifier":
                value = node.child_by_field_name("default_value")
            name = _identifier(child)
            if name is None:
                continue
            if type_name in _DIM3 and function is not None:
                listed = value if value is not None else child.child_by_field_name("parameters")
                _set(function.dims, code.text(name), _listed(code, listed))
            elif value is not None:
                text = code.text(value)
                if function is not None:
                    _set(function.locals, code.text(name), text)
                if kind and value.type not in ("initializer_list", "string_literal"):
                    if function is None or kind == "constexpr":
                        _constant(cuda, scope, code, name, kind, text)


def _set(names: dict[str, Settled | None], name: str, value: Settled | None) -> None:
    names[name] = value if name not in names else None


def _assigned(code: Code, function: Function, target: Node | None) -> None:
    """A name that is set again is not settled."""
    if target is None:
        return
    if target.type == "field_expression":
        target = target.child_by_field_name("argument")
    name = code.text(target)
    if name in function.locals:
        function.locals[name] = None
    if name in function.dims:
        function.dims[name] = None


def _settled(function: Function) -> dict[str, int | str]:
    """Names of a function for a scope; what is not settled hides a constant of the same name."""
    return {name: "?" if text is None else text for name, text in function.locals.items()}


def _one_line_function(code: Code, scope: Scope, node: Node, function: Function) -> None:
    """`int cdiv(int a, int b) { return (a + b - 1) / b; }` is a name for an expression."""
    body = function.node.child_by_field_name("body")
    if body is None or body.named_child_count != 1 or body.named_children[0].id != node.id or not node.named_children:
        return
    names = tuple(parameter.name for parameter in _kernel(code, function).parameters)
    scope.functions.setdefault(function.name, (names, code.text(node.named_children[0])))


# --- launches


def _launch(code: Code, cuda: Cuda, scope: Scope, node: Node, parent: Node | None, function: Function | None) -> None:
    if node.type == "kernel_call_syntax":
        given = _arguments(code, node)
        name = code.text(parent.child_by_field_name("function"), 200) if parent else ""
    else:
        name = code.text(node.child_by_field_name("function"), 60)
        if name not in _LAUNCH_CALLS:
            return
        listed = node.child_by_field_name("arguments")
        arguments = _arguments(code, listed) if listed else []
        if len(arguments) < 5:
            return
        name, grid, block, shared = (
            arguments[0].rpartition(")")[2].strip("& "),
            arguments[1],
            arguments[2],
            arguments[4],
        )
        if name == "" or code.text(node.child_by_field_name("function")) == "cuLaunchKernel":
            return
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


def _arguments(code: Code, node: Node) -> list[str]:
    return [code.text(child) for child in node.named_children if child.type != "comment"]


def _listed(code: Code, node: Node | None) -> list[str] | None:
    """What stands between the brackets of dim3(...) or dim3{...}."""
    if node is None:
        return []
    if node.type == "call_expression" and code.text(node.child_by_field_name("function")) in _DIM3:
        node = node.child_by_field_name("arguments")
    if node is not None and node.type in ("argument_list", "initializer_list", "parameter_list"):
        return _arguments(code, node)
    return [code.text(node)] if node is not None and node.type in ("identifier", "number_literal") else None


def _dims(scope: Scope, known: dict[str, list[str] | None], text: str) -> list[Value] | None:
    """A grid or block: an expression is its first dimension; a dim3 has up to three."""
    listed: list[str] | None
    if text in known:
        listed = known[text]
        if listed == []:
            listed = ["1"]
    elif text.startswith(("dim3(", "dim3{")) and text[-1:] in ")}":
        listed = split(text[5:-1])
    else:
        listed = [text]
    if listed is None:
        return None
    return [Value(text=one, value=scope.value(one)) for one in listed]


def split(text: str) -> list[str]:
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
        name = _identifier(child)
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
