"""What the judge and the compiler say of one cell."""

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figure(_Model):
    """One claimed figure in both kernels' profiles; null if a profile does not have it."""

    name: str
    direction: str
    naive: float | None
    optimized: float | None
    ratio: float | None = Field(
        None, description="naive / optimized for down, optimized / naive for up; null where it would divide by 0"
    )
    least_ratio: float
    claim_holds: bool


class Verified(_Model):
    """One cell: problems say in words why it does not hold. All times are predicted, in us at the full size."""

    row: str
    tpu: str
    ok: bool
    applies: bool = Field(description="False: the cell claims that the technique changes nothing on this chip")
    naive_us: float | None = None
    optimized_us: float | None = None
    predicted_speedup: float | None = Field(None, description="naive_us / optimized_us")
    claimed_speedup: tuple[float, float] = Field(description="the range that the cell claims")
    floor_us: float | None = Field(None, description="what the chip needs at least for the work")
    counters: list[Figure] = []
    same_result: bool = Field(description="whether both kernels agree with the oracle at both sizes")
    seeds: int = Field(0, description="draws on which each kernel agreed with the oracle, over both sizes")
    named_by_profile: bool | None = Field(
        None, description="whether a finding of the naive kernel's profile names this row"
    )
    problems: list[str]
    seconds: float = Field(description="wall time, other cells beside it")
