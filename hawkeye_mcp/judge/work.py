"""One candidate on its way through the judge."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hawkeye_mcp.evaluation import ArtifactInfo, Audit, Correctness, Timing
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.workloads import Size, Workload, refuse_unapproved

Progress = Callable[[str], None]


@dataclass
class Work:
    """What is known of a candidate so far. Raises Unapproved: there is none for a workload that may not be scored by."""

    source: str
    workload: Workload
    tpu: str
    progress: Progress
    verified: bool = True
    counted: bool = False  # whether to look at what is executed, beyond how long it takes
    compared: bool = True  # whether to the XLA baseline
    stages_s: dict[str, float] = field(default_factory=dict)
    artifacts: dict[str, dict[str, str]] = field(default_factory=dict)
    verify_at: Size = "check"
    audit: Audit | None = None
    artifact: ArtifactInfo | None = None
    correctness: Correctness | None = None
    sanitized: Sanitized | None = None
    timing: Timing | None = None
    predicted: Timing | None = None  # set once timing is measured
    compiled: dict[str, Any] | None = None  # the compiler's reply, once it took the artifact
    floor: tuple[float, str] | None = None  # the least time in us that the chip needs, and the resource that says so
    peaks: dict[str, float] = field(default_factory=dict)
    kernels: list[dict[str, Any]] = field(default_factory=list)  # the profiler's plan of each, with what is known since
    kernel_calls: list[int] = field(default_factory=list)
    hbm_temp_bytes: int | None = None
    look: dict[str, Any] = field(default_factory=dict)  # fields of the Profile that counting fills
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        refuse_unapproved(self.workload)  # every score passes here, whoever asks for it

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        self._open.append(name)
        start = time.monotonic()
        try:
            yield
        finally:
            self._open.remove(name)
            self.stages_s[name] = round(self.stages_s.get(name, 0.0) + time.monotonic() - start, 4)
        if self._open:  # stages overlap: say which one is still waited for
            self.progress(self._open[-1])
