"""The whole measurement, on the CPU backend: candidates are artifacts for the CPU, and times are not judged."""

import base64
import runpy
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from exporting import cpu_bytes, tpu_bytes

from hawkeye_mcp import workloads
from hawkeye_mcp.evaluation import Measurement
from hawkeye_mcp.judge import device, rounds, verify
from hawkeye_mcp.judge.workers import Worker, WorkerError
from hawkeye_mcp.judge.xplane import LINES, Busy

NAME = "12p_RMSNorm"
NORM = workloads.load(NAME)
INPUTS = NORM.shapes(NORM.inputs, "check")
PLAIN = verify.module_of(NAME).workload


def _artifact(function) -> str:
    return base64.b64encode(cpu_bytes(function, INPUTS)).decode()


def _measured(function, least_us=0.0, repeats=3):
    reply = device.measure(NAME, "check", _artifact(function), "cpu", least_us, "its FLOPs at peak", repeats)
    return Measurement.model_validate(reply["measurement"])


@pytest.fixture
def short(monkeypatch):
    """Blocks of a few calls."""
    monkeypatch.setattr(device, "BLOCK_US", 2000.0)


@pytest.fixture
def invented(monkeypatch):
    """Device times by program instead of real ones: the first that is compiled is the candidate. Gives the sets of
    inputs of each block."""
    monkeypatch.setattr(device, "_calls", lambda run, inputs: 7 if run is candidates[0] else 5)
    candidates, blocks = [], []
    compiled = device._compiled

    def remember(exported):
        timed = compiled(exported)
        if not candidates:
            candidates.append(timed.run)
        return timed

    monkeypatch.setattr(device, "_compiled", remember)
    drift = iter(range(1, 100))  # every block is slower than the one before

    def block(run, inputs, calls, lines):
        slow = 1 + next(drift) / 10_000
        blocks.append(inputs)
        return (100.0 if run is candidates[0] else 250.0) * slow, 1000.0

    monkeypatch.setattr(device, "block", block)
    return blocks


def test_a_real_session_keeps_every_sample_and_says_what_ran(short):
    found = _measured(PLAIN)
    assert found.device == "cpu"
    for side in (found.candidate, found.baseline, found.control):
        assert len(side.samples_us) == len(side.wall_us) == len(side.started_s) == 3
        assert all(0 < us <= wall for us, wall in zip(side.samples_us, side.wall_us, strict=True))
        assert side.us.low <= side.us.median == sorted(side.samples_us)[1] <= side.us.high
    assert found.order == rounds.order(found.seed, 3)
    begun = sorted((at, name) for name in rounds.SIDES for at in getattr(found, name).started_s)
    assert [name for _, name in begun] == sum(found.order, [])
    assert found.control.calls == found.baseline.calls
    assert found.candidate.compile_s > 0
    assert found.control.compile_s is None
    assert found.dispatch_us > 0
    assert len(set(found.input_seeds)) == device.INPUT_SETS


def test_a_pallas_kernel_is_measured_interpreted_and_no_session_repeats_anothers_seeds(short):
    path = Path(__file__).parents[1] / "kernels" / f"{NAME}.py"
    kernel = runpy.run_path(str(path))["workload"]
    first, second = _measured(kernel, repeats=1), _measured(kernel, repeats=1)
    assert not set(first.input_seeds) & set(second.input_seeds)
    assert first.seed != second.seed


def test_each_time_goes_to_its_own_side_and_drift_cancels(invented):
    found = _measured(lambda x, scale: PLAIN(x, scale), repeats=8)
    assert found.candidate.us.median == pytest.approx(100, rel=0.01)
    assert found.baseline.us.median == pytest.approx(250, rel=0.01)
    assert found.control.us.median == pytest.approx(250, rel=0.01)
    assert (found.candidate.calls, found.baseline.calls) == (7, 5)
    assert found.speedup.median == pytest.approx(2.5, rel=0.001)
    assert found.control_ratio.median == pytest.approx(1, rel=0.001)
    assert (found.verdict, found.noise) == ("faster", 0.01)
    assert len(invented) == 8 * 3
    draw = jax.jit(lambda key: verify.module_of(NAME).create_inputs(key, NORM.sizes["check"]))
    for seed, (x, _) in zip(found.input_seeds, invented[-1], strict=True):
        assert jnp.array_equal(x, draw(jax.random.key(seed))[0])


@pytest.mark.usefixtures("invented")
def test_a_candidate_faster_than_the_hardware_is_void():
    found = _measured(lambda x, scale: PLAIN(x, scale), least_us=150.0)
    assert found.verdict == "void"
    assert found.why.startswith("the candidate took 100")
    assert len(found.candidate.samples_us) == 3


def test_a_candidate_that_does_not_fit_is_its_own_fault():
    def greedy(x, scale):
        copies = jnp.sort(jnp.broadcast_to(x, (200_000, *x.shape)) * jnp.arange(2e5)[:, None, None, None], axis=0)
        return copies[7].astype(x.dtype)

    reply = device.measure(NAME, "check", _artifact(greedy), "cpu", 0.0, "", 1)
    assert "RESOURCE_EXHAUSTED" in reply["runtime_error"]


def test_an_artifact_for_another_platform_is_refused():
    data = base64.b64encode(tpu_bytes(PLAIN, INPUTS)).decode()
    with pytest.raises(ValueError, match="'tpu'"):
        device.measure(NAME, "check", data, "cpu", 0.0, "", 1)


def test_another_device_than_the_one_asked_for_is_refused():
    with pytest.raises(device.Unmeasurable, match="the device here is a cpu, not a TPU v5 lite"):
        device.measure(NAME, "check", _artifact(PLAIN), "TPU v5 lite", 0.0, "", 1)


def test_calls_take_the_sets_of_inputs_in_turn():
    taken = []
    device._wall_us(taken.append, [("a",), ("b",), ("c",)], 7)
    assert "".join(taken) == "abcabca"


def test_a_block_is_long_enough_and_bounded(monkeypatch):
    monkeypatch.setattr(device, "_wall_us", lambda run, inputs, calls: 20_000.0)
    assert device._calls(lambda: None, [()]) == 3  # 60 ms
    monkeypatch.setattr(device, "_wall_us", lambda run, inputs, calls: 10.0)
    assert device._calls(lambda: None, [()]) == 1000
    monkeypatch.setattr(device, "_wall_us", lambda run, inputs, calls: 1e9)
    assert device._calls(lambda: None, [()]) == 1


@pytest.mark.parametrize(("limit", "sets"), [(None, 4), (16 << 30, 4), (6000, 3), (100, 1)])
def test_inputs_take_at_most_half_of_the_devices_memory(limit, sets):
    shapes = (jax.ShapeDtypeStruct((10, 40), jnp.bfloat16), jax.ShapeDtypeStruct((50,), jnp.float32))  # 1000 bytes
    fake = SimpleNamespace(memory_stats=lambda: None if limit is None else {"bytes_limit": limit})
    assert device._input_sets(fake, shapes) == sets


@pytest.mark.parametrize(
    ("busy", "told"),
    [
        (Busy(us=500.0, runs=9), "recorded 9 runs of a program that was called 10 times"),
        (Busy(us=500.0, runs=11), "recorded 11 runs"),
        (Busy(us=610.0, runs=10), "device time 61 us per call is longer than the call itself, 60 us"),
    ],
)
def test_figures_that_contradict_each_other_are_no_measurement(busy, told):
    with pytest.raises(device.Unmeasurable, match=told):
        device.checked(busy, 10, 60.0)


def test_device_time_is_per_call():
    assert device.checked(Busy(us=590.0, runs=10), 10, 60.0) == 59.0


def test_a_block_is_read_from_its_own_profile():
    run = jax.jit(lambda x: x @ x).lower(jax.ShapeDtypeStruct((64, 64), jnp.float32)).compile()
    device_us, wall_us = device.block(run, [(jnp.ones((64, 64)),)], 3, LINES["cpu"])
    assert 0 < device_us <= wall_us


@pytest.mark.anyio
async def test_a_process_of_its_own_serves_it(monkeypatch):
    from hawkeye_mcp.judge import workers

    environment = workers.environment
    monkeypatch.setattr(workers, "environment", lambda *a: environment(*a) | {"JAX_PLATFORMS": "cpu"})
    worker = await Worker.start("device")
    try:
        request = {
            "workload": NAME, "size": "check", "artifact_b64": _artifact(PLAIN), "device_kind": "cpu", "least_us": 1e9,
            "ceiling": "its FLOPs at peak", "repeats": 2,
        }  # fmt: skip
        reply = await worker.call("measure", request, 900)
        assert Measurement.model_validate(reply["measurement"]).verdict == "void"
        with pytest.raises(WorkerError, match="Unreadable"):
            await worker.call("measure", request | {"artifact_b64": "AAAA"}, 900)
    finally:
        await worker.close()
