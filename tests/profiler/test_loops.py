import jax
import jax.numpy as jnp
import pytest
from compiling import optimised

from hawkeye_mcp.profiler.hlo import ops


def _turns(
    start="constant(0)",
    step="constant(1)",
    end="constant(12)",
    direction="LT",
    change="add",
    carried_end=False,
    kept="%n",
):
    """How often a loop's one operation runs."""
    limit = "get-tuple-element(%arg.1), index=2" if carried_end else end
    text = f"""%body (arg: (s32[], f32[999,128], s32[])) -> (s32[], f32[999,128], s32[]) {{
  %arg = (s32[], f32[999,128], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %i.copy = s32[]{{:S(6)}} copy(%i)
  %x = f32[999,128] get-tuple-element(%arg), index=1
  %n = s32[] get-tuple-element(%arg), index=2
  %one = s32[] {step}
  %next = s32[] {change}(%i.copy, %one)
  %work = f32[999,128] negate(%x)
  ROOT %out = (s32[], f32[999,128], s32[]) tuple(%next, %work, /*index=2*/{kept})
}}

%cond (arg.1: (s32[], f32[999,128], s32[])) -> pred[] {{
  %arg.1 = (s32[], f32[999,128], s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%arg.1), index=0
  %limit = s32[] {limit}
  ROOT %less = pred[] compare(%i.1, %limit), direction={direction}
}}

ENTRY %main (x.1: f32[999,128], k: s32[]) -> f32[999,128] {{
  %x.1 = f32[999,128] parameter(0)
  %k = s32[] parameter(1)
  %start = s32[] {start}
  %start.copy = s32[] copy(%start)
  %end = s32[] {end}
  %first = (s32[], f32[999,128], s32[]) tuple(%start.copy, %x.1, /*index=2*/%end)
  %loop = (s32[], f32[999,128], s32[]) while(%first), condition=%cond, body=%body
  ROOT %result = f32[999,128] get-tuple-element(%loop), index=1
}}
"""
    (calls,) = {op.calls for op in ops(text) if op.opcode == "negate"}
    return calls


def test_a_counter_from_a_constant_to_a_constant_tells_the_turns():
    assert _turns() == 12
    assert _turns(start="constant(2)") == 10
    assert _turns(step="constant(5)") == 3  # 0, 5, 10
    assert _turns(direction="LE") == 13
    assert _turns(end="constant(-3)") == 0
    assert _turns(carried_end=True) == 12


@pytest.mark.parametrize(
    "changed",
    [
        {"end": "add(%k, %k)", "carried_end": True},
        {"carried_end": True, "kept": "%next"},  # an end that moves with the counter
        {"start": "add(%k, %k)"},
        {"step": "constant(0)"},
        {"step": "constant(-1)"},
        {"change": "multiply"},
        {"direction": "NE"},
    ],
)
def test_other_loops_are_of_unknown_length(changed):
    assert _turns(**changed) == 0


@pytest.mark.anyio
async def test_the_real_compilers_counted_loops_are_known():
    def both(x):
        x = jax.lax.fori_loop(0, 7, lambda i, y: jnp.sort(jnp.sin(y) * i, axis=0), x)
        return jax.lax.scan(lambda carry, row: (carry + jnp.sort(row), None), x[0], x)[0]

    found = await optimised(both, [((300, 512), "float32")])
    assert [op["calls"] for op in found if op["opcode"] == "sort"] == [7, 300]

    def until(x):
        return jax.lax.while_loop(lambda y: y[0, 0] < 9, lambda y: jnp.sort(y, axis=0) + 1, x)

    found = await optimised(until, [((300, 512), "float32")])
    assert [op["calls"] for op in found if op["opcode"] == "sort"] == [0]
