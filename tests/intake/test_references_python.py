"""Facts of Triton, Pallas and CUDA inside Python, by the syntax tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hawkeye_mcp.intake.references.mechanisms import COUNTERPARTS
from hawkeye_mcp.intake.references.model import Facts
from hawkeye_mcp.intake.references.read import facts
from hawkeye_mcp.intake.references.text import LARGEST_BYTES, ReferenceUnreadable

TRITON = '''\
"""tl.dot and tl.atomic_add in words are no evidence."""
import triton
import triton.language as tl

BLOCK: tl.constexpr = tl.constexpr(64)
WIDE = BLOCK * 2

@triton.autotune(configs=[triton.Config({"BM": 32}, num_stages=3, num_warps=4)], key=["n"])
@triton.jit
def attend(q, k, out, n, BM: tl.constexpr, SPLIT_K: tl.constexpr):
    m = tl.full([BM], -1e30, tl.float32)
    acc = tl.zeros([BM, 64], tl.float32)
    start = tl.program_id(0)
    for tile in range(start, n, tl.num_programs(0)):
        s = tl.dot(tl.load(q + tile, mask=tile < n), tl.load(k))  # not tl.debug_barrier()
        m_new = tl.maximum(m, tl.max(s, 1))
        shift = m - m_new
        alpha = tl.math.exp2(shift)
        acc = acc * alpha[:, None] + tl.exp(s)
        m = m_new
    tl.atomic_add(out, acc)


@triton.jit
def copy(x, y, n):
    for i in range(0, n, 4):
        tl.store(y + i, tl.load(x + i))


def run(q, k, out, n):
    grid = lambda meta: (triton.cdiv(1000, meta["BM"]), WIDE, n)
    attend[grid](q, k, out, n, BM=64, SPLIT_K=1, num_warps=8)
    copy[(4, n)](q, out, n)
'''

PALLAS = """\
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ROWS = 256

def helper(x, y):
    return jnp.dot(x, y)

def outside(x, y):
    return jnp.dot(x, y)

def kernel(x_ref, o_ref, acc_ref, *, steps):
    @pl.when(pl.program_id(1) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)
    copy = pltpu.make_async_copy(x_ref, acc_ref, None)
    lax.fori_loop(0, 4, lambda i, c: c, 0, unroll=True)
    acc_ref[...] += helper(x_ref[...], x_ref[...])

def run(x):
    block = (ROWS, 128)
    return pl.pallas_call(
        functools.partial(kernel, steps=4),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(pl.cdiv(1000, ROWS), x.shape[0]),
            in_specs=[pl.BlockSpec(block, lambda i, j: (i, j))],
            scratch_shapes=[pltpu.VMEM((ROWS, 128), jnp.float32)],
        ),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)
"""

INLINE = '''\
"""__global__ void in_words() {}"""
from torch.utils.cpp_extension import load_inline as compile_it
HEAD = "#define T 128\\n"
SOURCE = """
// __global__ void commented() {}
__global__ void add(float *x) { atomicAdd(x, 1.f); }
void run(float *x) { add<<<4, T>>>(x); }
"""
other = "__global__ void not_compiled() {}"
module = compile_it(name="m", cpp_sources="void run(float *x);", cuda_sources=[HEAD + SOURCE], functions=["run"])
'''


def read(folder: Path, source: str, name: str = "reference.py") -> Facts:
    (folder / name).write_text(source, encoding="utf-8")
    return facts(folder / name)


def lines(found: Facts) -> dict[str, list[int]]:
    return {one.name: [place.line for place in one.places] for one in found.mechanisms}


def test_triton(tmp_path):
    found = read(tmp_path, TRITON)
    assert found.languages == ["triton"]
    assert [(one.name, one.line, one.end_line) for one in found.kernels] == [("attend", 10, 21), ("copy", 25, 27)]
    assert found.kernels[0].parameters[4].model_dump() == {"name": "BM", "type": "tl.constexpr"}
    first, second = found.launches
    assert (first.kernel, first.line) == ("attend", 32)
    assert [one.value for one in first.grid] == [16, 128, None]
    assert ([one.value for one in first.block], first.options["BM"].value) == ([256], 64)
    assert [(one.text, one.value) for one in second.grid] == [("4", 4), ("n", None)]
    assert {one.name: one.value for one in found.constants} == {"BLOCK": 64, "WIDE": 128}
    assert lines(found) == {
        "reduction": [16],
        "software_pipelining": [8],
        "autotuned_constants": [8],
        "online_softmax": [14],
        "persistent_kernel": [14],
        "split_k": [10],
        "atomics": [21],
        "masked_access": [15],
        "matrix_unit": [15],
    }
    assert [(one.instruction, one.kernel) for one in found.matrix_unit] == [("triton.language.dot", "attend")]


def test_pallas(tmp_path):
    found = read(tmp_path, PALLAS)
    assert found.languages == ["pallas"]
    (kernel,) = found.kernels
    assert (kernel.name, kernel.line, kernel.end_line) == ("kernel", 16, 22)
    (launch,) = found.launches
    assert (launch.kernel, launch.line, launch.block) == ("kernel", 26, None)
    assert [(one.text, one.value) for one in launch.grid] == [("pl.cdiv(1000, ROWS)", 4), ("x.shape[0]", None)]
    assert {(one.kind, one.bytes, one.line) for one in found.memory} == {("window", None, 31), ("scratch", 131072, 32)}
    assert [(one.line, one.kernel) for one in found.matrix_unit] == [(11, "helper")]
    assert lines(found) == {
        "block_windows": [31],
        "asynchronous_copy": [20],
        "scalar_prefetch": [28],
        "loop_unrolling": [21],
        "revisited_output": [17],
        "dimension_semantics": [34],
        "matrix_unit": [11],
    }


def test_a_running_softmax_over_grid_steps(tmp_path):
    body = (
        "    new = jnp.maximum(m_ref[...], s.max(-1))\n    alpha = jnp.exp(m_ref[...] - new)\n"
        "    o_ref[...] = o_ref[...] * alpha + s\n"
    )
    found = read(tmp_path, PALLAS.replace("    copy = ", f"{body}    copy = "))
    assert lines(found)["online_softmax"] == [16]
    clamp = body.replace("s.max(-1)", "1.0")
    assert "online_softmax" not in lines(read(tmp_path, PALLAS.replace("    copy = ", f"{clamp}    copy = ")))


def test_cuda_that_python_compiles(tmp_path):
    found = read(tmp_path, INLINE)
    assert found.languages == ["python_with_cuda"]
    assert [(one.name, one.line) for one in found.kernels] == [("add", 6)]
    (launch,) = found.launches
    assert (launch.line, [one.value for one in launch.grid]) == (7, [4])
    assert lines(found) == {"atomics": [6]}


def test_lines_of_a_text_with_escapes_are_said_to_be_its_own(tmp_path):
    source = 'import cupy\nk = cupy.RawKernel("extern \\"C\\"\\n__global__ void k() { __syncthreads(); }\\n", "k")\n'
    found = read(tmp_path, source)
    assert [one.line for one in found.kernels] == [3]
    assert "counted from there" in found.notes[0]


@pytest.mark.parametrize(
    "source",
    [
        "def jit(f): return f\n@jit\ndef k(x): pass\n",
        "import jax\n@jax.jit\ndef k(x): return x\n",
        "# @triton.jit\ndef k(x): pass\n",
        's = "pl.pallas_call(kernel, grid=(1,))"\n',
        "",
    ],
)
def test_what_is_no_kernel(tmp_path, source):
    found = read(tmp_path, source)
    assert (found.kernels, found.launches, found.mechanisms) == ([], [], [])


def test_names_are_what_they_were_imported_as(tmp_path):
    source = "from triton import jit as compiled\nfrom triton.language import dot, load\n"
    source += "@compiled\ndef k(x):\n    dot(load(x), load(x))\n"
    found = read(tmp_path, source)
    assert ([one.name for one in found.kernels], lines(found)) == (["k"], {"matrix_unit": [5]})


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("missing.py", None, "missing"),
        ("a.txt", b"x", "unknown_type"),
        ("a.cu", b"\xff\xfe", "not_text"),
        ("a.cu", b"int\0", "not_text"),
        ("a.py", b"def (", "syntax"),
        ("a.py", b"(" * 10_000, "syntax"),
        ("a.py", b"x = " + b"-" * 200_000 + b"1", "too_complex"),
        ("a.cu", b" " * (LARGEST_BYTES + 1), "too_big"),
        ("folder.cu", "folder", "unreadable"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(tmp_path, name, data, kind):
    if data == "folder":
        (tmp_path / name).mkdir()
    elif data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ReferenceUnreadable) as refused:
        facts(tmp_path / name)
    assert refused.value.kind == kind
    assert str(refused.value).startswith(str(tmp_path / name))


def test_a_long_line_is_read(tmp_path):
    source = TRITON + "x = [" + "f(1, 2), " * 15_000 + "]\n"
    assert len(read(tmp_path, source).kernels) == 2


def test_counterparts_are_names_that_there_are():
    """Every pl., pltpu., jnp. and lax. in the table is there in the installed jax."""
    named = sorted(
        {
            found[0]
            for words in COUNTERPARTS.values()
            for text in words
            if text
            for found in re.finditer(r"\b(?:pl|pltpu|jnp|lax)\.[A-Za-z_]\w*(?:\.[A-Z]\w*)*", text)
        }
    )
    assert len(named) > 15
    code = "import jax.numpy as jnp\nfrom jax import lax\nfrom jax.experimental import pallas as pl\n"
    code += "from jax.experimental.pallas import tpu as pltpu\n" + "\n".join(named)
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_every_mechanism_has_one_sentence():
    for counterpart, sentence in COUNTERPARTS.values():
        assert counterpart != ""
        assert sentence.endswith(".")
        assert ". " not in sentence
