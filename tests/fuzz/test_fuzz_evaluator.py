"""The evaluator of Mosaic kernels: kernels that verify as MLIR and were never written by a compiler.

Where the judge evaluates, in a worker. What is no kernel any more is refused by the readers, which test_fuzz_artifacts.py
feeds; what still is one must end as one of the evaluator's own outcomes.
"""

import base64

import anyio.from_thread
import exporting
import jax
import jax.numpy as jnp
import pytest
from fuzzing import fuzz
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from test_fuzz_artifacts import body_of, with_body

from hawkeye_mcp import artifact, workloads
from hawkeye_mcp.judge.workers import WorkerDied, WorkerPool, WorkerTimeout
from hawkeye_mcp.mosaic_eval.result import Bound
from hawkeye_mcp.profiler import mosaic

EXAMPLES = [pytest.param(6, id="few"), pytest.param(1_000, id="many", marks=pytest.mark.slow)]
LIMIT_S = 20.0  # the judge allows 180
WORKLOAD = workloads.load("8p_GEMM")
INPUTS = WORKLOAD.shapes(WORKLOAD.inputs, "check")


def gemm(x, weight):
    """A grid with an accumulator, a branch, a loop and a reduction: most kinds of operation that a change can break."""

    def kernel(x_ref, w_ref, out_ref, sum_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        def step(at, carried):
            rows = pl.ds(pl.multiple_of(at * 128, 128), 128)
            sum_ref[rows, :] += jnp.dot(x_ref[rows, :], w_ref[...], preferred_element_type=jnp.float32)
            return carried + jnp.max(sum_ref[rows, :])

        jax.lax.fori_loop(0, x_ref.shape[0] // 128, step, jnp.float32(0))
        out_ref[...] = sum_ref[...].astype(out_ref.dtype)

    m, k, n = *x.shape, weight.shape[1]
    bm, bk, bn = 256, 256, 256
    return pl.pallas_call(
        kernel,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, s: (i, s)), pl.BlockSpec((bk, bn), lambda i, j, s: (s, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )(x, weight)


@pytest.fixture(scope="module")
def whole() -> bytes:
    return exporting.tpu_bytes(gemm, INPUTS)


@pytest.fixture(scope="module")
def text(whole) -> str:
    """The kernel as MLIR text in its generic form, in which each change is of one attribute or operand."""
    program = artifact.read(whole)
    with program.context:
        return mosaic.ir.Module.parse(body_of(whole)).operation.get_asm(print_generic_op_form=True)


@pytest.fixture(scope="module")
def evaluated():
    with anyio.from_thread.start_blocking_portal() as portal:
        pool = portal.call(lambda: WorkerPool("verifier"))

        async def ask(data: bytes, limit_s: float):
            encoded = base64.b64encode(data).decode()
            try:
                return await pool.call("bind", limit_s, workload=WORKLOAD.name, size="check", tpu=encoded, seeds=1)
            except (WorkerDied, WorkerTimeout):
                return None  # as the judge has it: too long, or too much memory

        yield lambda data, limit_s=LIMIT_S: portal.call(ask, data, limit_s)
        portal.call(pool.close)


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """The kernel with up to three numbers, operands, types or operations replaced by others that it holds itself."""
    lines = text.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(1, len(lines) - 2))
        words = lines[at].replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split(" ")
        kind = draw(st.sampled_from(["number", "word", "drop", "double", "swap"]))
        if kind == "drop":
            del lines[at]
        elif kind == "double":
            lines.insert(at, lines[at])
        elif kind == "swap":
            other = draw(st.integers(1, len(lines) - 2))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            places = [i for i, word in enumerate(words) if word and (kind == "word" or word.strip("-").isdigit())]
            if not places:
                continue
            giver = lines[draw(st.integers(1, len(lines) - 2))].split(" ")
            numbers = ["0", "1", "-1", "7", "255", "256", "512", "2147483647"]
            words[draw(st.sampled_from(places))] = draw(st.sampled_from(numbers if kind == "number" else giver))
            lines[at] = " ".join(words)
    return "\n".join(lines)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_kernel_of_other_operations_ends_in_one_of_the_outcomes(evaluated, whole, text, examples):
    def feed(kernel: str) -> None:
        reply = evaluated(with_body(whole, kernel.encode()))
        if reply is not None:
            assert len(Bound.model_validate(reply).message) <= 4_000

    fuzz(changed(text), feed, examples, smallest=False)


def test_the_kernel_that_is_changed_is_one_that_agrees(evaluated, whole, text):
    """Else the others would be refused for nothing."""
    found = evaluated(with_body(whole, text.encode()), limit_s=900)  # also where the worker starts slowly
    assert Bound.model_validate(found).outcome == "agrees"
