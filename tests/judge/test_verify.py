import base64
import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from exporting import both, cpu_bytes

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import verify

NAME = "12p_RMSNorm"
NORM = workloads.load(NAME)
INPUTS = NORM.shapes(NORM.inputs, "check")


def _kernel():
    path = Path(__file__).parents[1] / "kernels" / f"{NAME}.py"
    spec = importlib.util.spec_from_file_location("kernel_12p", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.workload


def _verified(function, seeds=3):
    return verify.verify(NAME, "check", base64.b64encode(cpu_bytes(function, INPUTS)).decode(), seeds)


def test_a_right_kernel_passes_on_every_draw():
    found = _verified(_kernel())
    assert (found["ok"], found["problem"], found["seeds"]) == (True, None, 3)
    (output,) = found["outputs"]
    assert output["shape"] == [2, 64, 8192]
    assert 0 < output["error_r"] < 0.01


def test_a_wrong_one_stops_at_its_first_draw_with_the_worst_element():
    found = _verified(lambda x, scale: x * scale)
    assert (found["ok"], found["seeds"]) == (False, 1)
    assert "Worst element" in found["problem"]


def test_leaving_out_one_operand_does_not_pass():
    kernel = _kernel()
    assert not _verified(lambda x, scale: kernel(x, jnp.ones_like(scale)))["ok"]


def test_an_answer_that_needs_the_seed_cannot_be_had():
    module = verify.module_of(NAME)
    guess = module.oracle(*module.create_inputs(jax.random.key(0), NORM.sizes["check"]))[0, :1, :256]

    def replay(x, scale):
        return jnp.broadcast_to(jnp.tile(guess, 32), x.shape).astype(x.dtype)

    assert not _verified(replay)["ok"]


def test_running_out_of_memory_is_the_candidates_fault():
    def greedy(x, scale):
        copies = jnp.sort(jnp.broadcast_to(x, (200_000, *x.shape)) * jnp.arange(2e5)[:, None, None, None], axis=0)
        return copies[7].astype(x.dtype)

    assert "RESOURCE_EXHAUSTED" in _verified(greedy)["runtime_error"]


def test_the_audit_hands_on_what_the_artifact_returns_and_its_hash():
    pair = both(_kernel(), INPUTS)
    found = verify.audit(NAME, "check", **pair)
    assert found["audit"]["ok"]
    assert found["outputs"] == [[[2, 64, 8192], "bfloat16"]]
    assert found["bytes"] == len(base64.b64decode(pair["tpu"]))
    assert len(found["sha256"]) == 64


@pytest.mark.parametrize("text", ["A", "AAAA", "not base64 at all!"])
def test_what_cannot_be_read_is_said_and_does_not_raise(text):
    assert verify.audit(NAME, "check", text, text)["unreadable"]


def test_a_damaged_kernel_inside_a_sound_artifact_is_said_and_does_not_raise():
    pair = both(_kernel(), INPUTS)
    data = bytearray(base64.b64decode(pair["tpu"]))
    body = data.index(b"TUzvUg")  # "ML\xefR" in base64, the first bytes of a Mosaic module
    data[body + 200 : body + 400] = b"A" * 200
    found = verify.audit(NAME, "check", base64.b64encode(data).decode(), pair["cpu"])
    assert found["unreadable"]
