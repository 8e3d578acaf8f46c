"""By what means CUDA kernels are fast: seen in calls, types, loops and the instructions of inline assembly."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hawkeye_mcp.intake.references.cuda_tree import Code
from hawkeye_mcp.intake.references.expressions import Scope
from hawkeye_mcp.intake.references.mechanisms import Found
from hawkeye_mcp.intake.references.model import Memory

if TYPE_CHECKING:
    from tree_sitter import Node

    from hawkeye_mcp.intake.references.cuda_names import Function

# The last part of a called name, namespaces and template arguments aside.
_CALLS: list[tuple[str, re.Pattern[str]]] = [
    ("warp_shuffle", re.compile(r"__shfl_(?:down_|up_|xor_)?sync|__shfl(?:_down|_up|_xor)?|__reduce_\w+_sync|shfl(?:_down|_up|_xor)?")),
    ("warp_vote", re.compile(r"__(?:ballot|any|all)(?:_sync)?|__activemask|__match_(?:any|all)_sync")),
    ("atomics", re.compile(r"atomic(?:Add|Sub|Max|Min|CAS|Exch|And|Or|Xor|Inc|Dec)(?:_block|_system)?|gpuAtomicAdd\w*|fetch_(?:add|max|min)")),
    ("asynchronous_copy", re.compile(r"__pipeline_memcpy_async|memcpy_async|cp_async\w*|__pipeline_(?:commit|wait_prior)")),
    ("bulk_tensor_copy", re.compile(r"cp_async_bulk\w*|cuTensorMapEncode\w*|tma_(?:load|store)\w*|make_tma_\w+")),
    ("grid_synchronisation", re.compile(r"this_grid|this_multi_grid|cudaLaunchCooperativeKernel")),
    ("thread_block_cluster", re.compile(r"this_cluster|map_shared_rank|cluster_(?:sync|arrive|wait)\w*|__cluster_dims__")),
    ("block_synchronisation", re.compile(r"__syncthreads(?:_and|_or|_count)?|__syncwarp")),
    ("memory_barrier_object", re.compile(r"mbarrier_\w+|arrive_and_wait")),
    ("memory_fence", re.compile(r"__threadfence(?:_block|_system)?")),
    ("read_only_cache", re.compile(r"__ldg|tex[123]D(?:fetch|Lod|Layered)?|tex1Dfetch")),
    ("cache_hint", re.compile(r"__ld(?:cg|cs|ca|lu|cv)|__st(?:cg|cs|wb|wt)|__prefetch_\w+")),
    ("fast_math", re.compile(r"__(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|fdividef|frcp_r[nz]|frsqrt_rn)|h2?exp2?|h2?rsqrt")),
    ("random_numbers", re.compile(r"curand\w*")),
]  # fmt: skip
# An instruction of PTX, by how it begins.
_PTX: list[tuple[str, re.Pattern[str]]] = [
    ("bulk_tensor_copy", re.compile(r"cp\.(?:async|reduce\.async)\.bulk[\w.:]*")),
    ("asynchronous_copy", re.compile(r"cp\.async\.[\w.:]+")),
    ("warp_shuffle", re.compile(r"(?:shfl|redux)\.sync[\w.]*")),
    ("warp_vote", re.compile(r"(?:vote|match)\.[\w.]+")),
    ("atomics", re.compile(r"(?:atom|red)\.[\w.:]+")),
    ("memory_barrier_object", re.compile(r"mbarrier\.[\w.:]+")),
    ("block_synchronisation", re.compile(r"(?:bar|barrier)\.(?:sync|arrive)[\w.]*")),
    ("thread_block_cluster", re.compile(r"(?:mapa|barrier\.cluster|ld\.shared::cluster)[\w.:]*")),
    ("warp_specialisation", re.compile(r"setmaxnreg[\w.]*")),
    ("vectorised_access", re.compile(r"(?:ld|st)\.[\w.:]*\.v[248]\.[\w.]+")),
    ("read_only_cache", re.compile(r"ld\.global\.nc[\w.:]*")),
    ("memory_fence", re.compile(r"(?:fence|membar)\.[\w.:]+")),
    ("fast_math", re.compile(r"(?:ex2|lg2|rsqrt|rcp|tanh|sin|cos)\.approx[\w.]*")),
]
_PTX_MATRIX = re.compile(r"(?:wgmma\.mma_async|mma|wmma\.mma|tcgen05\.mma)\b[\w.:]*")
_PTX_SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)\b")
_ATOM_SHAPE = re.compile(r"SM\d+_(?:GMMA_|MMA_)?(?:\w*?_)?(\d+)x(\d+)x(\d+)_\w+")
_WIDE = re.compile(
    r"\b(?:float[24]|int[24]|uint[24]|double2|u?short[48]|char4|u?longlong2|AlignedVector|aligned_vector\w*)\b"
)
_SPLIT_K = re.compile(r"(?i)split_?k\w*|k_?split\w*|k_slices?|num_k_partitions?")
_MAXIMUM = re.compile(r"fmaxf?|max|__hmax2?")
_EXPONENTIAL = re.compile(r"(?:__)?exp2?f?|exp2f|__expf|h2?exp2?")
_LIBRARIES = ("cub", "cute", "cutlass", "thrust")
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_LOOPS_KEPT = 1_000
_LOOPS_LOOKED_AT = 3  # the innermost ones around a place


@dataclass
class _Loop:
    """What one loop shows of a running softmax."""

    node: Node
    kernel: str | None
    maximum: bool = False
    exponential: bool = False
    rescaled: bool = False


@dataclass
class Evidence:
    """Takes in the nodes of one text in order, and notes what they show."""

    code: Code
    found: Found
    _loops: list[_Loop] = field(default_factory=list)
    _toggles: dict[str | None, Node] = field(default_factory=dict)
    _halved: list[tuple[Node, str | None]] = field(default_factory=list)
    _indexed: dict[tuple[str | None, str], list[int]] = field(default_factory=dict)
    _shuffled: list[tuple[Node, str, str | None]] = field(default_factory=list)

    def take(self, node: Node, parent: Node | None, function: Function | None) -> None:
        while self._loops and node.start_byte >= self._loops[-1].node.end_byte:
            self._close(self._loops.pop())
        kernel = function.name if function and function.on_device else None
        handler = getattr(self, f"_on_{node.type}", None)
        if handler is not None:
            handler(node, parent, kernel)
        elif node.type in _LOOPS:
            self._loop(node, kernel, function)

    def finish(self, memory: list[Memory], scope: Scope) -> None:
        """After the last node: what only the shared arrays and the rest together show. scope: of the file."""
        while self._loops:
            self._close(self._loops.pop())
        for array in memory:
            self._array(array)
        shared = {(array.kernel, array.name) for array in memory}
        indexed: dict[str | None, list[int]] = {}
        for kernel, name in sorted(shared, key=str):
            indexed.setdefault(kernel, []).extend(self._indexed.get((kernel, name), []))
        for places in indexed.values():
            places.sort()
        for node, kernel in self._halved[:_LOOPS_KEPT]:
            places = indexed.get(kernel, [])
            at = bisect_left(places, node.start_byte)
            if at < len(places) and places[at] < node.end_byte:
                self._note("block_reduction", node, kernel)
        for use in self.found.matrix:
            if use.shape and not re.fullmatch(r"\d+x\d+x\d+", use.shape):
                sizes = [scope.value(part) for part in use.shape.split("x")]
                use.shape = None if None in sizes else "x".join(map(str, sizes))
        for node, name, kernel in self._shuffled:
            if (kernel, name) in shared:
                self._note("swizzled_layout", node, kernel)

    def _array(self, array: Memory) -> None:
        code = f"{array.type} {array.name}{''.join(f'[{dim.text}]' for dim in array.dims)}"
        if array.kind == "extern":
            self.found.note("dynamic_shared_memory", array.line, array.kernel, code)
        if (array.kernel, array.name) in self._indexed:
            self.found.note("shared_memory_tiling", array.line, array.kernel, code)
        if len(array.dims) > 1 and re.fullmatch(r"[^+]+\+\s*\w+", array.dims[-1].text):
            self.found.note("bank_conflict_padding", array.line, array.kernel, code)
        stages = array.dims[0].value if len(array.dims) > 1 else None
        if stages and 2 <= stages <= 8 and array.kernel in self._toggles:
            toggle = self._toggles[array.kernel]
            self.found.note("double_buffering", array.line, array.kernel, code)
            self._note("double_buffering", toggle, array.kernel)

    def _note(self, name: str, node: Node, kernel: str | None) -> None:
        self.found.note(name, self.code.line(node), kernel, self.code.text(node, 200))

    # --- calls and names

    def _on_call_expression(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        called = self.code.text(node.child_by_field_name("function"), 200)
        plain = re.sub(r"<.*", "", called)
        last = re.split(r"::|\.|->", plain)[-1].strip()
        for name, pattern in _CALLS:
            if pattern.fullmatch(last):
                # A bulk copy is asynchronous too: it is one thing, by its own name.
                if not (name == "asynchronous_copy" and "bulk" in last):
                    self._note(name, node, kernel)
        if plain.split("::")[0].strip() in _LIBRARIES:
            self._note("library_primitives", node, kernel)
        if last == "mma_sync" or re.fullmatch(r"(?:mma|wgmma|gemm)_?(?:sync|async|m\d+n\d+k\d+)\w*", last):
            shape = _PTX_SHAPE.search(f".{last[last.find('m') :]}") if "n" in last else None
            self.found.note_matrix(
                plain, "x".join(shape.groups()) if shape else None, self.code.line(node), kernel, self.code.text(node)
            )
        if last == "reinterpret_cast" and _WIDE.search(called):
            self._note("vectorised_access", node, kernel)
        if last == "sync" and re.search(r"grid", plain.split(".")[0]):
            self._note("grid_synchronisation", node, kernel)
        for loop in self._loops[-_LOOPS_LOOKED_AT:]:
            loop.maximum |= bool(_MAXIMUM.fullmatch(last)) and not self._clamps(node)
            loop.exponential |= bool(_EXPONENTIAL.fullmatch(last)) and self._subtracts(node)

    def _clamps(self, node: Node) -> bool:
        """Whether a maximum is with a number."""
        listed = node.child_by_field_name("arguments")
        return bool(listed and any(given.type == "number_literal" for given in listed.named_children))

    def _subtracts(self, node: Node) -> bool:
        arguments = node.child_by_field_name("arguments")
        return bool(arguments and re.search(r"[\w)\]]\s*-\s*[\w(]", self.code.text(arguments)))

    def _on_kernel_call_syntax(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        if kernel is not None:
            self._note("dynamic_parallelism", parent or node, kernel)

    def _on_cast_expression(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        kind = self.code.text(node.child_by_field_name("type"), 100)
        if "*" in kind and _WIDE.search(kind):
            self._note("vectorised_access", node, kernel)

    def _on_identifier(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        name = self.code.text(node, 100)
        if _SPLIT_K.fullmatch(name):
            self._note("split_k", node, kernel)

    def _on_type_identifier(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        name = self.code.text(node, 200)
        if shape := _ATOM_SHAPE.fullmatch(name):
            self.found.note_matrix(name, "x".join(shape.groups()), self.code.line(node), kernel, name)
        elif name == "CUtensorMap":
            self._note("bulk_tensor_copy", node, kernel)

    def _on_template_type(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        if self.code.text(node.child_by_field_name("name"), 40) != "fragment":
            return
        sizes = re.findall(r",\s*([\w:]+)\s*(?=,)", self.code.text(node, 200))[:3]
        shape = "x".join(sizes) if len(sizes) == 3 else None  # of names, which `finish` settles
        self.found.note_matrix("wmma::fragment", shape, self.code.line(node), kernel, self.code.text(node, 200))

    def _on_type_qualifier(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        if node.text == b"__constant__":
            self.found.note("constant_memory", self.code.line(node), kernel, self.code.text(parent, 100))

    def _on_preproc_call(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        if re.fullmatch(r"#\s*pragma unroll\b.*", self.code.text(node, 60)):
            self._note("loop_unrolling", node, kernel)

    def _on_gnu_asm_expression(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        """The text of an assembly statement is code: its instructions, without comments."""
        template = node.child_by_field_name("assembly_code")
        text = self.code.text(template, 4_000)
        text = re.sub(r"/\*.*?\*/|//.*?(?=\\n|$)", " ", text)
        known = False
        for part in re.split(r'\\n|\\t|;|"|\{|\}|\s', text):
            word = re.sub(r"^@!?[%\w]+$", "", part)
            if _PTX_MATRIX.fullmatch(word):
                shape = _PTX_SHAPE.search(word)
                given = "x".join(shape.groups()) if shape else None
                self.found.note_matrix(word, given, self.code.line(node), kernel, word)
                known = True
                continue
            for name, pattern in _PTX:
                if pattern.fullmatch(word):
                    self.found.note(name, self.code.line(node), kernel, word)
                    known = True
                    break
        if not known:
            self._note("inline_assembly", node, kernel)

    # --- loops, indices, values

    def _loop(self, node: Node, kernel: str | None, function: Function | None) -> None:
        self._loops.append(_Loop(node, kernel))
        update = self.code.text(node.child_by_field_name("update"), 200)
        if function is not None:  # a stride by its name
            update = re.sub(r"[A-Za-z_]\w*", lambda found: function.locals.get(found[0]) or found[0], update)
        if "gridDim" in update:
            self._note("grid_stride_loop" if "blockDim" in update else "persistent_kernel", self._head(node), kernel)
        if re.search(r">>=\s*1|/=\s*2|=\s*\w+\s*(?:>>\s*1|/\s*2)$", update):
            self._halved.append((node, kernel))
        begins = self.code.text(node.child_by_field_name("initializer"), 200)
        if re.search(r"blockIdx\.[yz]", begins) and "gridDim.x" not in update and re.search(r"\bk\w*\s*=", begins):
            self._note("split_k", self._head(node), kernel)

    def _head(self, node: Node) -> Node:
        return node.child_by_field_name("update") or node

    def _close(self, loop: _Loop) -> None:
        if loop.maximum and loop.exponential and loop.rescaled:
            self.found.note("online_softmax", self.code.line(loop.node), loop.kernel, self.code.text(loop.node, 200))
            for outer in self._loops[-_LOOPS_LOOKED_AT:]:  # it is the innermost loop that shows it
                outer.rescaled = False

    def _on_assignment_expression(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        left = self.code.text(node.child_by_field_name("left"), 100)
        sign = self.code.text(node.child_by_field_name("operator"), 4)
        right = self.code.text(node.child_by_field_name("right"), 200)
        if (sign == "^=" and right == "1") or (sign == "=" and _toggles(left, right)):
            self._toggles.setdefault(kernel, node)
        scaled = sign == "*=" or (sign == "=" and re.match(rf"(?:fmaf?\(\s*)?{re.escape(left)}\s*[*,]", right))
        if scaled and not re.fullmatch(r"[\d.]+f?", right):
            for loop in self._loops[-_LOOPS_LOOKED_AT:]:
                loop.rescaled = True

    def _on_init_declarator(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        right = self.code.text(node.child_by_field_name("value"), 200)
        if re.fullmatch(r"1\s*-\s*\w+|\w+\s*\^\s*1|\(?\s*\w+\s*\+\s*1\s*\)?\s*%\s*\w+|\w+\s*[%&]\s*[\w]+", right):
            self._toggles.setdefault(kernel, node)

    def _on_declaration(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        """An array of two dimensions that a thread has for itself."""
        if kernel is None or {child.text for child in node.children[:6]} & {b"__shared__", b"__constant__", b"static"}:
            return
        for child in node.named_children[:20]:
            array = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            inner = array.child_by_field_name("declarator") if array and array.type == "array_declarator" else None
            if inner is not None and inner.type == "array_declarator":
                self._note("register_tiling", node, kernel)

    def _on_subscript_expression(self, node: Node, parent: Node | None, kernel: str | None) -> None:
        at = node.child_by_field_name("argument")
        for _ in range(4):
            if at is not None and at.type == "subscript_expression":
                at = at.child_by_field_name("argument")
        if at is None or at.type != "identifier":
            return
        name = self.code.text(at, 100)
        self._indexed.setdefault((kernel, name), []).append(node.start_byte)
        index = node.child_by_field_name("indices")
        if index is not None and "^" in self.code.text(index, 200):
            self._shuffled.append((node, name, kernel))


def _toggles(left: str, right: str) -> bool:
    name = re.escape(left)
    return bool(re.fullmatch(rf"1\s*-\s*{name}|{name}\s*\^\s*1|\(?\s*{name}\s*\+\s*1\s*\)?\s*[%&]\s*\w+", right))
