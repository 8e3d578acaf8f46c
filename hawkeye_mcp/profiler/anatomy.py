"""What a kernel is made of, as read from its Mosaic module: operands, scratch, matmuls. Plain data, no jax.

Sizes are of one core's memory; bytes moved are of the whole grid.
"""

from pydantic import Field

from hawkeye_mcp.evaluation import Model
from hawkeye_mcp.profile import Direction


class Operand(Model):
    """An operand or result of a kernel."""

    label: str = Field(description='"operand 0 bf16[1024,512]", "result 0 f32[8,128]"')
    direction: Direction
    item_bits: int
    array_bytes: int = Field(description="the whole array, unpadded")
    space: str = Field(description="vmem and smem are moved by the pipeline; any and hbm stay where they are")
    prefetched: bool = Field(False, description="scalars that are in SMEM before the grid starts")
    block: list[int]
    block_bytes: int = Field(description="of one copy, padded to whole tiles")
    tile_padding: float = Field(description="block_bytes over the bytes of the block's elements")
    overhang: float = Field(description="elements of the blocks that cover the array, over its elements")
    copies: int = Field(description="2 where the next block is fetched while this one is used")
    single_buffered: bool = Field(False, description="one copy although its block changes with the grid")
    axes: list[int] | None = Field(description="grid axes longer than 1 that its block depends on; null if on data")
    moved_bytes: int | None = Field(description="over HBM in one run; null if it depends on data")


class Scratch(Model):
    """On-chip memory that the kernel allocates for itself."""

    label: str
    space: str
    bytes: int = Field(description="padded to whole tiles")


class Matmul(Model):
    """One matmul of the body, however often it is executed."""

    lhs: str
    rhs: str
    flops: float = Field(description="of one execution")
    passes: int = Field(description="through the MXU in bfloat16: 6 at the highest precision of float32 operands")


class StepWork(Model):
    """What one grid step computes if it takes every branch."""

    flops: float = Field(description="of its matmuls")
    vector_elements: float = Field(description="that arithmetic, comparisons and casts go over, one of each counted")
    transcendental_elements: float = Field(description="that exp, tanh, log, rsqrt, divisions and the like go over")


class Anatomy(Model):
    operands: list[Operand] = []
    scratch: list[Scratch] = []
    matmuls: list[Matmul] = []
    step: StepWork | None = Field(None, description="null where a loop of unknown length hides it")
    moves_by_hand: bool = False
    idle_steps: int = Field(0, description="grid steps that take none of the branches that arrays in SMEM decide")
    idle_bytes: int = Field(0, description="of blocks that arrive for these steps alone")
    parallel_axes: list[int] = Field([], description="grid axes longer than 1 that cores may share")
    vmem_limit_bytes: int | None = Field(None, description="that the kernel asks for; null where it takes the default")
