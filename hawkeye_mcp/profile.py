"""A look into a candidate's kernels for one chip: where the cycles go, what binds, what would change it.

Everything but `measured` is predicted, from the compiler's own schedule. Counts of a sampled
kernel are extrapolated the way its cycles are. What is unknown is null.
"""

from typing import Literal

from pydantic import Field

from hawkeye_mcp.evaluation import ArtifactInfo, Model, ProfileStatus, Timing, Versions

Unit = Literal["hbm", "mxu", "vpu", "eup", "latency"]
Direction = Literal["read", "written"]


class Count(Model):
    """One counter over all kernels of the program."""

    total: float
    per_step: float | None = Field(None, description="total over grid steps; a kernel without a grid is one step")
    unit: str = Field(description="count, bytes, cycles or bundles")
    peak_share: float | None = Field(
        None,
        description="of what the unit can do in the kernels' cycles, 0 to 1: mxu_flops of the peak FLOP rate, bytes of HBM's"
        " bandwidth in the kernels' time, all else of the unit's slots",
    )


class Phases(Model):
    """Cycles of one kernel run: what happens once before and after the steady steps, and what a step costs."""

    prologue_cycles: float
    step_cycles: float = Field(description="of one steady grid step")
    epilogue_cycles: float
    steps: int = Field(description="of one core, where two share the grid")


class Stall(Model):
    """Cycles in which no bundle was issued, by what was waited for."""

    cause: str = Field(description='for example "DMA read of operand 0", "MXU result", "XLU result", "EUP result"')
    cycles: float
    share: float = Field(description="of the kernel's cycles, 0 to 1")


class Region(Model):
    """Cycles on the critical path by the line of the kernel file they come from."""

    line: int | None = Field(description="1-based; null for what the compiler adds (pipeline, spills, loop control)")
    text: str = Field("", description="that line of the file, or what the compiler adds")
    cycles: float
    stall_cycles: float
    share: float


class Slot(Model):
    """One kind of VLIW slot in the hot loop."""

    name: str
    capacity: int = Field(description="slots in one bundle")
    used: float = Field(description="mean slots used in a bundle of the hot loop")
    occupancy: float = Field(description="used / capacity, 0 to 1")


class Registers(Model):
    pressure: int = Field(
        description="most vector registers live at once, before spilling; where the compiler does not say, those used"
    )
    capacity: int
    spills: float = Field(description="executed vector stores to spill slots")
    fills: float = Field(description="executed vector loads from spill slots")


class Buffer(Model):
    """One piece of on-chip memory that a kernel takes."""

    name: str
    kind: Literal["window", "scratch", "spill", "internal"]
    space: Literal["vmem", "smem"]
    bytes: int = Field(description="all copies together")
    copies: int = Field(1, description="2 for a double-buffered window")


class Traffic(Model):
    """What crosses HBM for one operand or result of a kernel run."""

    operand: str = Field(description='"operand 0 bf16[1024,512]", "result 0 ..."')
    direction: Direction
    bytes: int
    least_bytes: int = Field(description="the array once")
    factor: float | None = Field(description="bytes / least_bytes: how often blocking moves it")


class KernelProfile(Model):
    """One Mosaic kernel; figures are of one run of it."""

    name: str
    grid: list[int]
    calls: int
    us: float | None = Field(None, description="of one run")
    cycles: float | None = Field(None, description="of one core by libtpu's static profile, waits included")
    executed_bundles: float | None = Field(None, description="that issue something; with stall_cycles all cycles")
    stall_cycles: float | None = Field(None, description="cycles in which nothing is issued")
    phases: Phases | None = None
    stalls: list[Stall] = []
    regions: list[Region] = []
    hot_loop: str = Field("", description="which bundles the slots are of")
    slots: list[Slot] = []
    registers: Registers | None = None
    buffers: list[Buffer] = []
    traffic: list[Traffic] = []


class Ceiling(Model):
    """The least time that one unit of the chip needs for the work of these kernels."""

    unit: Unit
    us: float
    work: float
    work_unit: str = Field(description="bytes, FLOP or operations")
    rate: float = Field(description="per second, of one device")
    source: str = Field(description="where the rate comes from")


class Roofline(Model):
    """The candidate against what the chip could do at best."""

    ceilings: list[Ceiling]
    binding: Unit
    best_us: float = Field(description="the highest ceiling for the work that the workload asks for")
    best_speedup: float | None = Field(
        description="candidate_us / best_us: what no change to this candidate can exceed; null if its time is a lower bound"
    )
    intensity: float | None = Field(None, description="FLOP per byte of HBM traffic of the candidate")
    achieved_flops_per_s: float | None = None


class Finding(Model):
    """One thing that costs time."""

    text: str = Field(description="what, how much, and what kind of change addresses it")
    counter: str = Field("", description="the figure of the profile that shows it")
    value: float | None = None
    costs_us: float | None = Field(None, description="about how much of the time")
    taxonomy_row: str | None = None


class Profile(Model):
    status: ProfileStatus
    message: str
    next_step: str
    workload: str
    tpu: str
    kernel_sha256: str
    isolation: str = Field(description="bubblewrap or rlimits: what stood around the candidate's Python")
    artifact: ArtifactInfo | None = None
    predicted_us: float | None = None
    bound: Unit | None = Field(None, description="what most of the time waits for; null if the time is a lower bound")
    timing: Timing | None = Field(None, description="predicted")
    measured: Timing | None = Field(None, description="on this machine's own TPU, where it has one of the generation")
    executed_bundles: float | None = None
    stall_cycles: float | None = None
    spills: float | None = None
    vmem_bytes: int | None = Field(None, description="the most that one kernel takes")
    vmem_capacity_bytes: int | None = None
    hbm_bytes: int | None = Field(None, description="that the whole program moves; null if a kernel's depend on data")
    hbm_temp_bytes: int | None = Field(None, description="HBM that the program takes beside inputs and outputs")
    counters: dict[str, Count] = {}
    kernels: list[KernelProfile] = []
    roofline: Roofline | None = None
    findings: list[Finding] = Field([], description="at most three, worst first")
    compiler_message: str | None = None
    versions: Versions
    judged_on: str | None = Field(
        None, description="The registered host that looked, or those of which none did; null: this machine."
    )
