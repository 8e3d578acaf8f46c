"""What the structure of a program says: operations counted, reductions, contractions, constants and casts in words."""

from collections import Counter

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.intake.graph import Graph, Node, dtype_and_shape, integers, pairs, walk

LAYOUT = {"transpose", "reshape", "squeeze", "expand_dims", "broadcast_in_dim", "rev"}
REDUCTIONS = {
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin",
}  # fmt: skip
CUMULATIVE = {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"}
_CONVOLUTION = "conv_general_dilated"


class Facts(BaseModel):
    """Facts on one program. Operations in a loop are counted once, under the loop's name and its number of steps."""

    model_config = ConfigDict(extra="forbid")

    inputs: list[str] = Field(description="Types, such as bf16[8,128].")
    outputs: list[str]
    operations: dict[str, int] = Field(description="How often each is in the program, most first, calls inlined.")
    layout: dict[str, int] = Field(description="Of these, the ones that only move or name elements anew.")
    reductions: list[str] = Field(description="Operation, axes and operand.")
    contractions: list[str] = Field(description="Operands, contracted and batch axes, type of the accumulation.")
    constants: list[str] = Field(description="Scalars, in their own dtype, and where they go.")
    casts: list[str]
    dtypes: list[str]
    loops: list[str] = Field(description="Each with its steps; unknown where only a run can tell.")


def facts(graph: Graph) -> Facts:
    counts: Counter[str] = Counter()
    found: dict[str, list[str]] = {kind: [] for kind in ("reductions", "contractions", "constants", "casts", "loops")}
    dtypes = {dtype_and_shape(kind)[0] for kind in (*graph.inputs, *graph.types)}
    for path, around, node in walk(graph):
        counts[path + node.op] += 1
        dtypes |= {dtype_and_shape(kind)[0] for kind in node.out}
        line = path + describe(around, node)
        if node.op in REDUCTIONS | CUMULATIVE:
            found["reductions"].append(line)
        elif node.op in ("dot_general", _CONVOLUTION):
            found["contractions"].append(line)
        elif node.op == "convert_element_type":
            found["casts"].append(line)
        elif node.bodies and node.op != "cond":
            found["loops"].append(f"{path}{node.op} of {'an unknown number' if node.times is None else node.times}")
        found["constants"] += [f"{path}{shown_constant(ref)} in {node.op}" for ref in node.operands if ref[0] in "ck"]
    layout = {name: count for name, count in counts.most_common() if name.rpartition(": ")[2] in LAYOUT}
    return Facts(
        inputs=graph.inputs,
        outputs=graph.types,
        operations=dict(counts.most_common()),
        layout=layout,
        dtypes=sorted(dtypes),
        **{kind: sorted(lines) for kind, lines in found.items()},
    )


def describe(graph: Graph, node: Node) -> str:
    """One operation in a line: `reduce_sum axes=(1,) of f32[8,128]`."""
    types = [shown(graph, ref) for ref in node.operands]
    if node.op in REDUCTIONS:
        return f"{node.op} axes={integers(node.params.get('axes'))} of {', '.join(types)} -> {', '.join(node.out)}"
    if node.op in CUMULATIVE:
        return f"{node.op} axis={node.params.get('axis')} of {', '.join(types)}"
    if node.op == "dot_general" and (found := pairs(node)):
        (left, right), (batch_left, batch_right) = found
        batch = f", batch {batch_left} x {batch_right}" if batch_left else ""
        precision = f", precision {node.params['precision']}" if "precision" in node.params else ""
        return f"dot_general of {' x '.join(types)} over {left} x {right}{batch}{precision} -> {', '.join(node.out)}"
    if node.op == "convert_element_type":
        return f"convert {', '.join(types)} -> {', '.join(node.out)}"
    params = ", ".join(f"{name}={value}" for name, value in node.params.items())
    text = f"{node.op}({', '.join(types)}) -> {', '.join(node.out)}"
    return f"{text} [{params[:300]}]" if params else text


def shown(graph: Graph, ref: str) -> str:
    """What a reference stands for: a type, or a constant."""
    return shown_constant(ref) if ref[0] in "ck" else graph.type_of(ref)


def shown_constant(ref: str) -> str:
    kind, dtype, value = ref.split(":", 2)
    return f"{dtype} {value}" if kind == "c" else f"{dtype} of hash {value}"
