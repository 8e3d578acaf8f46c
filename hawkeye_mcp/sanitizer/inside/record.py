"""The record of one run: what was found, and which sites read what they should not rely on. One is active in a process."""

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .shadow import CARRIED, IN_FLIGHT, NO_LINE, Kernel, Key, Shadow, Site

KEEP, ZERO, NAN, LARGE = "keep", "zero", "nan", "large"
_MOST_FINDINGS = 64


@dataclasses.dataclass
class Watch:
    """One run's record. fills: what reads at a site get instead of `otherwise`. seed: orders the parallel axes."""

    file: str
    fills: dict[Site, str] = dataclasses.field(default_factory=dict)
    otherwise: str = ZERO
    seed: int | None = None
    unused: frozenset[tuple[str, int]] = frozenset()  # outputs that nothing takes: kernel and number
    telling: bool = True
    findings: dict[tuple[str, int, str], dict[str, Any]] = dataclasses.field(default_factory=dict)
    sites: dict[Site, bool] = dataclasses.field(default_factory=dict)
    steps: int = 0
    shadows: dict[Key, Shadow] = dataclasses.field(default_factory=dict)
    kernel: Kernel | None = None
    beside: bool = True  # whether anything runs beside anything else by now
    allocated: int = 0
    copied: dict[int, Any] = dataclasses.field(default_factory=dict)
    point: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    visited: dict[tuple[int, int], set[Any]] = dataclasses.field(default_factory=dict)
    latest: dict[tuple[int, int], Any] = dataclasses.field(default_factory=dict)
    lines: dict[str, int] = dataclasses.field(default_factory=dict)  # of the kernels that ran
    lock: Any = dataclasses.field(default_factory=threading.RLock)

    def find(self, kind: str, line: int, message: str) -> None:
        key = (kind, line, message if line == NO_LINE else "")
        if self.telling and key not in self.findings and len(self.findings) < _MOST_FINDINGS:
            kernel = self.kernel.name if self.kernel else ""
            self.findings[key] = {
                "kind": kind,
                "line": line or self._kernel_line(),
                "message": message,
                "kernel": kernel,
            }

    def _kernel_line(self) -> int:
        return self.kernel.line if self.kernel else 0

    def line(self, source_info: Any) -> int:
        """The innermost line of the candidate's file, 0 if there is none."""
        return line_of(source_info, self.file)

    def begin(self, kernel: Kernel) -> None:
        self.kernel, self.allocated = kernel, 0
        self.lines[kernel.name] = kernel.line
        for kept in (self.shadows, self.copied, self.point, self.visited, self.latest):
            kept.clear()

    def filled(self, values: Any, state: Any, site_of: Callable[[int], Site]) -> Any:
        values = np.array(values)
        for code in np.unique(state[state > 0]):
            site = site_of(int(code))
            self.sites[site] = True
            how = self.fills.get(site, self.otherwise)
            if how == KEEP or (how == ZERO and code in (CARRIED, IN_FLIGHT)):
                continue
            values[state == code] = _value(values.dtype, how)
        return values


def _value(dtype: Any, how: str) -> Any:
    if how == ZERO:
        return np.zeros((), dtype)
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return np.array(np.nan if how == NAN else 3e4, np.float32).astype(dtype)
    if dtype == np.bool_:
        return True
    # an index or a trip count: one that is small enough not to hang, and then the largest
    return np.array(min(113, jax.numpy.iinfo(dtype).max) if how == NAN else jax.numpy.iinfo(dtype).max, dtype)


_active = Watch("")


def start(watch: Watch) -> Watch:
    """Make this the active watch."""
    global _active
    _active = watch
    return watch


def active() -> Watch:
    return _active


def line_of(source_info: Any, file: str) -> int:
    traceback = getattr(source_info, "traceback", source_info)
    if traceback is None:
        return NO_LINE
    for frame in traceback.frames:  # innermost first
        if frame.file_name == file:
            return int(frame.line_num)
    return NO_LINE
