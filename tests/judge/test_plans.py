"""Plans of kernels that integers among the inputs steer: one public draw of them, or a lower bound with the reason."""

import copy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exporting import DEVICE

from hawkeye_mcp import workloads
from hawkeye_mcp.candidate import tracer
from hawkeye_mcp.judge import compiler, verify
from hawkeye_mcp.judge.plans import plans
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import WorkerTimeout

GROUPED = Path(__file__).parent.parent / "kernels" / "11p_Megablox_GMM.py"
KERNEL = {"name": "k", "steered": True, "lower_bound": True, "notes": ["kernel k: it depends"]}
EXACT = KERNEL | {"lower_bound": False, "notes": []}


class _Profiler:
    def __init__(self, by_values, drawn):
        self.by_values, self.drawn, self.asked = by_values, drawn, []

    async def call(self, method, timeout_s, **params):
        self.asked.append(method + " with values" * ("steering" in params))
        if method == "draw_steering":
            if isinstance(self.drawn, Exception):
                raise self.drawn
            return self.drawn
        return {"kernels": [copy.deepcopy(self.by_values if "steering" in params else KERNEL)]}


async def _plans(by_values, drawn):
    work = Work("", workloads.load("11p_Megablox_GMM"), "v5e", lambda stage: None)
    work.artifacts = {"full": {"tpu": ""}}
    profiler = _Profiler(by_values, drawn)
    (kernel,) = await plans(profiler, work)
    return kernel, profiler.asked


def _drawn(by_draw=True, unknown=()):
    return {"steering": [[None]], "drawn": [by_draw], "unknown": [list(unknown)]}


@pytest.mark.anyio
async def test_a_steered_kernel_is_planned_again_and_says_that_its_time_is_of_one_draw():
    kernel, asked = await _plans(EXACT, _drawn())
    assert asked == ["plan", "draw_steering", "plan with values"]
    assert not kernel["lower_bound"]
    assert len(kernel["notes"]) == 1
    assert "one draw of them with a fixed seed" in kernel["notes"][0]


@pytest.mark.anyio
async def test_what_follows_from_constants_is_of_every_draw():
    assert (await _plans(EXACT, _drawn(by_draw=False)))[0]["notes"] == []


@pytest.mark.anyio
async def test_what_stays_unknown_says_why():
    kernel, _ = await _plans(KERNEL, _drawn(unknown=["operand 0: it depends on a kernel's result"]))
    assert kernel["lower_bound"]
    assert kernel["notes"][-1].endswith("values in SMEM are unknown: operand 0: it depends on a kernel's result")


@pytest.mark.anyio
async def test_a_program_that_does_not_end_leaves_the_plan_without_values():
    kernel, asked = await _plans(EXACT, WorkerTimeout("draw_steering ran longer than 60 s"))
    assert asked == ["plan", "draw_steering"]
    assert kernel["lower_bound"]
    assert "draw_steering ran longer" in kernel["notes"][-1]


def _grouped():
    """A workload and the artifact of its kernel at full size, whose tables come from the sizes of groups."""
    workload, scope = workloads.load("11p_Megablox_GMM"), {}
    exec(compile(GROUPED.read_text(), str(GROUPED), "exec"), scope)
    shapes = workload.shapes(workload.inputs, "full")
    return workload, tracer.artifacts(scope["workload"], shapes, DEVICE, interpreted=False)["tpu"]


def test_the_values_are_those_of_the_workload_at_full_size():
    workload, traced = _grouped()
    found = compiler.draw_steering(traced, workload.name)
    assert (found["drawn"], found["unknown"]) == ([True], [[]])
    (group, tile, starts, ends, count, lhs, rhs) = found["steering"][0]
    assert (lhs, rhs) == (None, None)
    sizes = np.array(ends) - np.array(starts)
    dims = workload.sizes["full"]
    assert (len(sizes), ends[-1], (sizes == 0).sum()) == (dims["G"], dims["M"], dims["G"] // 4)
    # a visit for each tile of rows that a group touches
    touched = [(end - 1) // 256 - start // 256 + 1 for start, end in zip(starts, ends, strict=True) if end > start]
    assert count == [sum(touched)]
    assert group[: count[0]] == [g for g, size in enumerate(sizes) if size for _ in range(_touched(starts, ends, g))]
    assert tile[: count[0]] == sorted(tile[: count[0]])
    assert compiler.draw_steering(traced, workload.name) == found


def _touched(starts, ends, group):
    return (ends[group] - 1) // 256 - starts[group] // 256 + 1


def test_no_float_is_drawn(monkeypatch):
    """A terabyte of floats beside the integers takes neither memory nor time."""

    class Module:
        @staticmethod
        def create_inputs(key, size):
            huge = jnp.ones((1 << 19, 1 << 19)) * jax.random.uniform(key)
            return huge.astype(jnp.bfloat16), huge, jax.random.permutation(key, jnp.arange(128, dtype=jnp.int32))

    workload, traced = _grouped()
    monkeypatch.setattr(verify, "module_of", lambda name: Module)
    _, _, starts, ends, *_ = compiler.draw_steering(traced, workload.name)["steering"][0]
    assert sorted(np.array(ends) - np.array(starts)) == list(range(128))
