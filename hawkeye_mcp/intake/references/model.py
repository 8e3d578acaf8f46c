"""Static facts of a reference: where its kernels are, how they are launched, and by what means they are fast.

Every fact has its line, counted from 1. What the text does not settle is null; nothing is guessed.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ConstantKind = Literal["define", "constexpr", "const", "enum", "python"]
Language = Literal["cuda", "python_with_cuda", "triton", "pallas"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Value(_Strict):
    """An integer expression as it is written, and what it comes to if the text alone says so."""

    text: str
    value: int | None = None


class Parameter(_Strict):
    name: str
    type: str = Field("", description="as it is written; of Triton and Pallas its annotation")


class Kernel(_Strict):
    """One function that runs on the device."""

    name: str
    language: Literal["cuda", "triton", "pallas"]
    signature: str
    parameters: list[Parameter]
    line: int
    end_line: int


class Launch(_Strict):
    """One place that starts a kernel."""

    kernel: str
    line: int
    grid: list[Value] | None = Field(description="null: written in a way that is not followed")
    block: list[Value] | None = Field(description="CUDA: threads of a block; Triton: of its warps; Pallas: always null")
    grid_text: str
    block_text: str = ""
    shared_bytes: Value | None = Field(None, description="dynamic shared memory, where the launch gives it")
    options: dict[str, Value] = Field(
        {}, description="Triton: constants given by name at the launch, such as num_warps"
    )


class Constant(_Strict):
    """A named constant."""

    name: str
    kind: ConstantKind
    text: str
    value: int | None
    line: int


class Memory(_Strict):
    """An array in on-chip memory."""

    name: str
    kind: Literal["static", "extern", "scratch", "window"] = Field(
        description="static and extern: CUDA's __shared__; scratch: of a pallas_call; window: the block of a BlockSpec"
    )
    type: str
    dims: list[Value]
    bytes: int | None
    kernel: str | None
    line: int


class MatrixUnit(_Strict):
    """Use of the unit that multiplies matrices."""

    instruction: str
    shape: str | None = Field(description='"16x8x16" as m x n x k; null where the text does not say')
    line: int
    kernel: str | None


class Place(_Strict):
    line: int
    kernel: str | None
    code: str = Field(description="what stands there, shortened")


class Mechanism(_Strict):
    """A means by which the kernels are fast, and what becomes of it on a TPU."""

    name: str
    tpu_counterpart: str | None = Field(description="null: there is none")
    on_tpu: str = Field(description="one sentence")
    places: list[Place] = Field(description="the first of them")
    count: int = Field(description="of all places")


class Facts(_Strict):
    """Everything that was found in one file."""

    path: str
    languages: list[Language]
    bytes: int
    lines: int
    kernels: list[Kernel]
    launches: list[Launch]
    constants: list[Constant]
    memory: list[Memory]
    matrix_unit: list[MatrixUnit]
    mechanisms: list[Mechanism]
    notes: list[str]
