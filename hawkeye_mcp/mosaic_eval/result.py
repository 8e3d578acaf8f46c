"""What an evaluation of the artifact for the TPU found. No jax: the server reads it too."""

from typing import Literal

from pydantic import Field

from hawkeye_mcp.evaluation import Model, OutputError

Outcome = Literal["agrees", "rounding", "differs", "fault", "unsupported", "exhausted"]


class Bound(Model):
    """The kernels for the TPU, run operation by operation, against the workload's oracle."""

    outcome: Outcome = Field(
        description="agrees: the gate passes. rounding: only if float32 operands of matmuls at the default precision"
        " are not rounded to bfloat16, as a TPU does. differs: it fails. fault: a result that no TPU defines."
        " unsupported, exhausted: nothing is known of the kernel"
    )
    message: str
    operation: str | None = Field(None, description="that is not supported or at fault")
    where: str | None = Field(None, description="the kernel, and the line of its file where that is known")
    seeds: int = Field(0, description="fresh draws of the inputs that were compared")
    outputs: list[OutputError] = Field([], description="errors, as a TPU rounds")
    seconds: float = Field(0, description="that the evaluation took, oracle and compilation included")
