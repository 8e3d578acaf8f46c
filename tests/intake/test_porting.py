"""What a port does at full size, where no results were recorded, is held to what it does at the check size."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from hawkeye_mcp.intake.capture import ArrayCapture, Capture, Normal, OutputCapture, SizeCapture
from hawkeye_mcp.intake.emit import emit
from hawkeye_mcp.intake.folder import Program
from hawkeye_mcp.intake.inputs_source import SIZES
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.porting import PortFailed, same_at_every_size
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.workloads import Size

SHAPES: dict[Size, tuple[int, ...]] = {"full": (64, 32), "check": (16, 8)}
JOB = Job.model_validate(
    {
        "schema": "hawkeye.job/1",
        "name": "ported",
        "input": {"type": "pytorch", "path": "model.py"},
        "has_reference": False,
        "needs_jax_conversion": True,
        "conversion": {"method": "port", "port": "port.py"},
    }
)


def gated(port: Any, original: Any = None) -> str:
    """What the gate says of a port, beside the program or beside recorded results alone."""

    def traced(function: Any, size: Size) -> Any:
        return jax.make_jaxpr(function)(jnp.zeros(SHAPES[size]))

    sizes = {
        size: SizeCapture(
            arrays=(
                ArrayCapture(name="x", role="input", shape=SHAPES[size], dtype="float32", draw=Normal(mean=0, std=1)),
            ),
            outputs=(OutputCapture(shape=SHAPES[size], dtype="float32"),),
            structure=structure(traced(original, size)) if original else None,
        )
        for size in SIZES
    }
    capture = Capture(source_sha256="", route="golden", versions={}, sizes=sizes, trials=1)
    programs = {size: Program(emit(traced(port, size), ["x"]).text, {}, {}) for size in SIZES}
    return same_at_every_size(JOB, capture, {size: structure(traced(port, size)) for size in SIZES}, programs)


def normalised(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(1, keepdims=True)) * x.shape[1] ** -0.5


def other_at_full_size(x: Any) -> Any:
    return normalised(x) if x.shape[0] == 16 else x


def other_number_at_full_size(x: Any) -> Any:
    return normalised(x) * (1.0 if x.shape[0] == 16 else 0.9)


def test_a_port_that_is_the_program_at_both_sizes_passes() -> None:
    assert gated(normalised, normalised) == "identical at full size, identical at check size"


def test_a_port_without_a_program_to_compare_passes_if_only_lengths_differ() -> None:
    assert gated(normalised).endswith("the port does the same at both sizes but for lengths")


@pytest.mark.parametrize("port", [other_at_full_size, other_number_at_full_size])
def test_a_port_that_is_right_at_the_check_size_alone_is_refused(port: Any) -> None:
    with pytest.raises(PortFailed, match="At full size the port is another program") as failed:
        gated(port, normalised)
    assert failed.value.gate == "compare_structure"
    assert failed.value.details
    with pytest.raises(PortFailed, match="At full size the port does something else"):
        gated(port)
