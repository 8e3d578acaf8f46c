"""What the process is asked for."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hawkeye_mcp.workloads import Size


class Request(BaseModel):
    """One program to record.

    convert: whether PyTorch must come through torchax; without it results alone are recorded. folder: where
    `capture.json` and `goldens.npz` go. record_bytes: what all arrays of the latter may take together. timed: measure how
    long the module takes instead, and write `timed.json`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    language: Literal["pytorch", "jax"]
    path: str
    entry: str
    inputs_fn: str
    init_inputs_fn: str
    convert: bool
    sizes: dict[Size, dict[str, bool | int | float]]
    seed: int
    trials: int
    folder: str
    record_bytes: int
    memory_bytes: int
    timed: bool = False
