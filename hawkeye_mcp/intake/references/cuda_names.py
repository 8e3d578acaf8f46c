"""Names in CUDA C++: functions with what their names are set to, and constants of the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from hawkeye_mcp.intake.references.cuda_tree import Code
from hawkeye_mcp.intake.references.expressions import Scope
from hawkeye_mcp.intake.references.model import Constant, ConstantKind, Parameter

if TYPE_CHECKING:
    from tree_sitter import Node

DIM3 = ("dim3", "uint3")
Settled = TypeVar("Settled")


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


def function_of(code: Code, node: Node, parent: Node | None) -> Function | None:
    declarator = inner(node.child_by_field_name("declarator"), "function_declarator")
    if declarator is None or node.child_by_field_name("body") is None:
        return None
    name = code.text(declarator.child_by_field_name("declarator"), 200)
    words = {child.type for child in node.children}
    kernel = "__global__" in words
    start = parent.start_byte if parent is not None and parent.type == "template_declaration" else node.start_byte
    found = Function(name, node, start, kernel or "__device__" in words, kernel)
    found.locals = {parameter.name: None for parameter in parameters(code, found)}  # they hide constants of their name
    return found


def inner(node: Node | None, kind: str) -> Node | None:
    """The node of a kind down the declarators of a declarator."""
    for _ in range(8):
        if node is None or node.type == kind:
            return node
        node = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if "declarator" in child.type), None
        )
    return None


def parameters(code: Code, function: Function) -> list[Parameter]:
    declarator = inner(function.node.child_by_field_name("declarator"), "function_declarator")
    listed = declarator.child_by_field_name("parameters") if declarator else None
    found = []
    for child in listed.named_children if listed else []:
        if child.type in ("parameter_declaration", "optional_parameter_declaration"):
            named = identifier(child.child_by_field_name("declarator"))
            kind = code.span(child.start_byte, named.start_byte) if named else code.text(child)
            found.append(Parameter(name=code.text(named), type=kind))
    return found


def identifier(node: Node | None) -> Node | None:
    """The name that a declarator declares."""
    for _ in range(8):
        if node is None or node.type in ("identifier", "field_identifier"):
            return node
        node = node.child_by_field_name("declarator") or next(
            (c for c in node.named_children if c.type == "identifier" or "declarator" in c.type), None
        )
    return None


def take_name(code: Code, constants: list[Constant], scope: Scope, node: Node, function: Function | None) -> None:
    """Take in what a node says of a name."""
    if node.type == "preproc_def":
        _define(code, constants, scope, node)
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
                _constant(constants, scope, code, child.child_by_field_name("name"), "enum", value)
    elif node.type in ("declaration", "field_declaration"):
        _declared(code, constants, scope, node, function)
    elif node.type == "assignment_expression" and function is not None:
        _assigned(code, function, node.child_by_field_name("left"))
    elif node.type == "update_expression" and function is not None:
        _assigned(code, function, node.child_by_field_name("argument"))
    elif node.type == "return_statement" and function is not None:
        _one_line_function(code, scope, node, function)


def _define(code: Code, constants: list[Constant], scope: Scope, node: Node) -> None:
    value = code.text(node.child_by_field_name("value"))
    if value:
        _constant(constants, scope, code, node.child_by_field_name("name"), "define", value)


def _constant(
    constants: list[Constant], scope: Scope, code: Code, name: Node | None, kind: ConstantKind, text: str
) -> None:
    if name is None:
        return
    known = Constant(name=code.text(name), kind=kind, text=text, value=None, line=code.line(name))
    # Defined twice, under conditions that are not followed: nothing is known of it.
    scope.names[known.name] = text if scope.names.get(known.name, text) == text else "?"
    constants.append(known)


def _declared(code: Code, constants: list[Constant], scope: Scope, node: Node, function: Function | None) -> None:
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
            name = identifier(child)
            if name is None:
                continue
            if type_name in DIM3 and function is not None:
                listed = value if value is not None else child.child_by_field_name("parameters")
                _set(function.dims, code.text(name), listed_in(code, listed))
            elif value is not None:
                text = code.text(value)
                if function is not None:
                    _set(function.locals, code.text(name), text)
                if kind and value.type not in ("initializer_list", "string_literal"):
                    if function is None or kind == "constexpr":
                        _constant(constants, scope, code, name, kind, text)


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


def settled(function: Function) -> dict[str, int | str]:
    """Names of a function for a scope; what is not settled hides a constant of the same name."""
    return {name: "?" if text is None else text for name, text in function.locals.items()}


def _one_line_function(code: Code, scope: Scope, node: Node, function: Function) -> None:
    """`int cdiv(int a, int b) { return (a + b - 1) / b; }` is a name for an expression."""
    body = function.node.child_by_field_name("body")
    if body is None or body.named_child_count != 1 or body.named_children[0].id != node.id or not node.named_children:
        return
    names = tuple(parameter.name for parameter in parameters(code, function))
    scope.functions.setdefault(function.name, (names, code.text(node.named_children[0])))


def arguments(code: Code, node: Node) -> list[str]:
    return [code.text(child) for child in node.named_children if child.type != "comment"]


def listed_in(code: Code, node: Node | None) -> list[str] | None:
    """What stands between the brackets of dim3(...) or dim3{...}."""
    if node is None:
        return []
    if node.type == "call_expression" and code.text(node.child_by_field_name("function")) in DIM3:
        node = node.child_by_field_name("arguments")
    if node is not None and node.type in ("argument_list", "initializer_list", "parameter_list"):
        return arguments(code, node)
    return [code.text(node)] if node is not None and node.type in ("identifier", "number_literal") else None
