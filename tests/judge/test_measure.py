"""What becomes of a measurement in an evaluation; the process that measures is a stand-in."""

import contextlib

import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.candidate.sandbox import SandboxPool
from hawkeye_mcp.evaluation import Correctness, Interval, Measurement, Side, Timing
from hawkeye_mcp.judge import conclusion, evaluate, measure
from hawkeye_mcp.judge.measure import Measurer
from hawkeye_mcp.judge.verdict import Verdict
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerPool, WorkerTimeout, WorkerUnavailable, environment

pytestmark = pytest.mark.anyio

PREDICTED = Timing(source="predicted", candidate_us=40.0, baseline_us=80.0, speedup=2.0)


def _interval(low, median, high):
    return Interval(low=low, median=median, high=high)


def _side(low, median, high):
    return Side(
        us=_interval(low, median, high), samples_us=[median], wall_us=[median], started_s=[0.0], calls=1, compile_s=None
    )


def _measurement(verdict="faster", why="all of it"):
    return Measurement(
        device="TPU v5 lite", runtime="r", verdict=verdict, why=why,
        candidate=_side(99, 100, 101), baseline=_side(148, 150, 152), control=_side(148, 150, 152),
        speedup=_interval(1.48, 1.512345, 1.53), control_ratio=_interval(0.99, 1.0, 1.01), noise=0.01,
        dispatch_us=90.0, order=[["candidate", "baseline", "control"]], seed=1, input_seeds=[2],
    )  # fmt: skip


def _work(tpu="v5e"):
    work = Work("", workloads.load("12p_RMSNorm"), tpu, lambda stage: None)
    work.artifacts = {"full": {"tpu": "QUJD", "cpu": ""}}
    work.timing, work.floor = PREDICTED.model_copy(deep=True), (33.0, "its FLOPs at peak")
    work.correctness = Correctness(ok=True, size="check", seeds=3, gate="R <= 0.01", outputs=[])
    return work


class FakeDevice:
    """Stands in for workers.Worker: what `answer` is, it gives or raises."""

    def __init__(self, monkeypatch, answer):
        self.answer, self.calls, self.open = answer, [], 0
        monkeypatch.setattr(measure, "Worker", self)

    async def start(self, kind):
        assert kind == "device"
        self.open += 1
        return self

    async def call(self, method, params, timeout_s):
        self.calls.append((method, params))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self):
        self.open -= 1


@pytest.mark.parametrize("chips", [[], ["v6e", "v6e"]])
async def test_without_a_tpu_of_the_generation_nothing_changes_and_nothing_starts(monkeypatch, chips):
    device = FakeDevice(monkeypatch, {})
    work = _work()
    await Measurer(chips).measure(work)
    assert (work.timing, work.predicted, work.stages_s, device.calls) == (PREDICTED, None, {}, [])


async def test_a_measurement_takes_the_place_of_the_prediction_which_is_kept(monkeypatch):
    device = FakeDevice(monkeypatch, {"measurement": _measurement().model_dump(mode="json")})
    work = _work()
    await Measurer(["v5e"]).measure(work)
    assert work.predicted == PREDICTED
    assert work.timing.source == "measured"
    assert (work.timing.candidate_us, work.timing.baseline_us, work.timing.speedup) == (100, 150, 1.512)
    assert work.timing.candidate_interval_us == (99, 101)
    assert work.timing.speedup_interval == (1.48, 1.53)
    assert not work.timing.indistinguishable
    assert work.timing.measurement == _measurement()
    assert device.calls[0] == (
        "measure",
        {
            "workload": "12p_RMSNorm",
            "size": "full",
            "artifact_b64": "QUJD",
            "device_kind": "TPU v5 lite",
            "least_us": 33.0,
            "ceiling": "its FLOPs at peak",
        },
    )
    assert device.open == 0  # nobody holds the device afterwards
    assert "measure" in work.stages_s
    assert conclusion.conclude(work).message == (
        "Correct on 3 fresh draws at check size (R <= 0.01). Measured 100 us (95 % interval 99 to 101) on one TPU v5 lite,"
        " 1.512 times (95 % interval 1.48 to 1.53) the speed of the XLA baseline, 150 us (95 % interval 148 to 152)."
    )


async def test_inside_the_noise_no_speedup_is_claimed(monkeypatch):
    FakeDevice(monkeypatch, {"measurement": _measurement("indistinguishable", "it reaches into noise").model_dump()})
    work = _work()
    await Measurer(["v5e"]).measure(work)
    assert (work.timing.source, work.timing.candidate_us, work.timing.speedup) == ("measured", 100, None)
    assert work.timing.indistinguishable
    assert "indistinguishable from the XLA baseline's 150 us" in conclusion.conclude(work).message
    assert "reaches into noise" in conclusion.conclude(work).message


async def test_a_void_measurement_leaves_no_time_at_all_but_its_samples(monkeypatch):
    FakeDevice(monkeypatch, {"measurement": _measurement("void", "too fast").model_dump()})
    work = _work()
    await Measurer(["v5e"]).measure(work)
    timing = work.timing
    assert (timing.source, timing.candidate_us, timing.baseline_us, timing.speedup) == (None, None, None, None)
    assert timing.measurement.candidate.samples_us == [100]
    assert work.predicted == PREDICTED
    assert conclusion.conclude(work).message.endswith("No time could be measured: measurement void: too fast.")


@pytest.mark.parametrize(
    "error",
    [
        WorkerDied("measure: the worker ended with code -6. no more"),
        WorkerError("Unmeasurable", "no more", ""),
        WorkerTimeout("no more"),
        WorkerUnavailable("no more"),
    ],
)
async def test_what_cannot_be_measured_stays_predicted_and_says_why(monkeypatch, error):
    device = FakeDevice(monkeypatch, error)
    work = _work()
    await Measurer(["v5e"]).measure(work)
    assert (work.timing.source, work.timing.speedup, work.predicted) == ("predicted", 2.0, None)
    (note,) = work.timing.notes
    assert note.startswith("not measured, although this machine has a v5e: ")
    assert note.endswith("no more")
    assert device.open == 0


async def test_a_kernel_that_does_not_run_on_the_device_is_not_correct(monkeypatch):
    device = FakeDevice(monkeypatch, {"runtime_error": "RESOURCE_EXHAUSTED: no room"})
    with pytest.raises(Verdict, match="full size on this machine's v5e failed: RESOURCE_EXHAUSTED") as raised:
        await Measurer(["v5e"]).measure(_work())
    assert raised.value.status == "runtime_error"
    assert device.open == 0


@pytest.fixture
def judge(monkeypatch):
    """A judge on a machine with a v5e whose stages before the measurement are stand-ins."""
    monkeypatch.setattr(evaluate.attached, "tpus", lambda: ["v5e"])
    monkeypatch.setattr(SandboxPool, "__init__", lambda self: None)
    monkeypatch.setattr(SandboxPool, "refill", lambda self, chip: None)
    judge = evaluate.Judge(SandboxPool(), {kind: WorkerPool(kind) for kind in ("compiler", "profiler", "verifier")})
    ready = _work()

    async def nothing(work):
        pass

    async def verify(work):
        work.correctness = ready.correctness

    async def predict(work):
        work.artifacts, work.timing, work.floor = ready.artifacts, ready.timing, ready.floor

    @contextlib.asynccontextmanager
    async def traced(work):
        yield None

    async def sanitize(box, work):
        pass

    stages = {"_traced": traced, "_trace": nothing, "_audit": nothing, "_sanitize": sanitize, "_verify_both": verify}
    for name, stage in stages.items():
        monkeypatch.setattr(judge, name, stage)
    monkeypatch.setattr(judge._predictor, "predict", predict)
    return judge, ready


async def test_what_was_verified_is_measured(monkeypatch, judge):
    FakeDevice(monkeypatch, {"measurement": _measurement().model_dump(mode="json")})
    judge, ready = judge
    found = await judge.evaluate("", ready.workload, "v5e")
    assert (found.status, found.timing.source, found.speedup) == ("correct", "measured", 1.512)
    assert (found.predicted.source, found.predicted.candidate_us) == ("predicted", 40)


async def test_what_is_wrong_is_not_measured(monkeypatch, judge):
    device = FakeDevice(monkeypatch, {})
    judge, ready = judge
    ready.correctness.ok = False
    found = await judge.evaluate("", ready.workload, "v5e")
    assert (found.status, found.timing.source, found.speedup) == ("incorrect", "predicted", None)
    assert device.calls == []


async def test_a_profile_has_the_measured_time_beside_the_predicted_one(monkeypatch, judge):
    FakeDevice(monkeypatch, {"measurement": _measurement().model_dump(mode="json")})
    judge, ready = judge
    found = await judge.profile("", ready.workload, "v5e", counters=False)
    assert (found.status, found.timing, found.predicted_us) == ("profiled", PREDICTED, 40)
    assert (found.measured.source, found.measured.candidate_us) == ("measured", 100)
    assert "not checked. Measured 100 us (95 % interval 99 to 101) on one TPU v5 lite" in found.message


async def test_a_profile_of_what_does_not_run_on_the_device_says_so(monkeypatch, judge):
    FakeDevice(monkeypatch, {"runtime_error": "no room"})
    judge, ready = judge
    found = await judge.profile("", ready.workload, "v5e", counters=False)
    assert (found.status, found.timing, found.measured) == ("runtime_error", PREDICTED, None)


def test_the_device_is_as_the_machine_describes_it_and_without_flags(monkeypatch, tmp_path):
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "0")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_scoped_vmem_limit_kib=65536")
    seen = environment("device", tmp_path)
    assert (seen["JAX_PLATFORMS"], seen["TPU_VISIBLE_CHIPS"]) == ("tpu", "0")
    assert "LIBTPU_INIT_ARGS" not in seen
    assert "TPU_ACCELERATOR_TYPE" not in seen  # that of the compilers is made up
