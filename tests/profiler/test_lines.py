"""Operations that jax lowers once and inlines again have the line of their own."""

import re

import jax
import jax.numpy as jnp
import pytest
from exporting import kernels
from jax.experimental import pallas as pl

from hawkeye_mcp.candidate.tracer import KERNEL_FILE
from hawkeye_mcp.profiler import lines

SOURCE = """\
def twice(x):
    return jnp.exp(x)
def body(x_ref, out_ref):
    x = jnp.exp(x_ref[...])
    y = jnp.exp(x * 2.0)
    with jax.named_scope("late"):
        z = jnp.exp(y)
    out_ref[...] = twice(z)
def workload(x):
    return pl.pallas_call(body, out_shape=x)(x)
"""


def lines_of(operation: str, text: str) -> list[int]:
    """Of each such operation the line that libtpu would name: that of the innermost callee."""
    places = dict(re.findall(r"^(#loc\d*) = (.*)$", text, re.MULTILINE))

    def line(name: str) -> int:
        if found := re.search(r'"kernel\.py":(\d+)', places[name]):
            return int(found[1])
        inner = re.search(r"callsite\((#loc\d*) at|\((#loc\d*)\)", places[name])
        return line(inner[1] or inner[2])

    return [line(name) for name in re.findall(rf'"stable_mosaic\.{operation}".* loc\((#loc\d*)\)', text)]


@pytest.fixture
def text() -> str:
    known = {"jax": jax, "jnp": jnp, "pl": pl}
    exec(compile(SOURCE, KERNEL_FILE, "exec"), known)
    program, (call,) = kernels(known["workload"], [((8, 128), "float32")])
    with program.context:
        return call.body.operation.get_asm(enable_debug_info=True)


def test_inlined_operations_are_of_the_line_that_they_are_inlined_to(text):
    assert lines_of("math.exp", lines.of_callers(text)) == [4, 5, 7, 2]
    assert lines_of("math.exp", text) != [4, 5, 7, 2]  # else jax says so itself, and nothing has to be mended


def test_nothing_but_places_changes(text):
    def without_places(module: str) -> str:
        return re.sub(r"^#loc.*$", "", module, flags=re.MULTILINE)

    assert without_places(lines.of_callers(text)) == without_places(text)
