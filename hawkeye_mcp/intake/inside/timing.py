"""How long a PyTorch module takes where it is run: eager, on this machine's CPU, or on its TPU where torch_xla is."""

import os
import statistics
import time
from pathlib import Path
from typing import Any

from hawkeye_mcp.intake.capture import Timed
from hawkeye_mcp.intake.inside import source, torch_calls
from hawkeye_mcp.intake.inside.request import Request

_LEAST_RUNS, _MOST_RUNS = 3, 50
_ENOUGH_S = 5.0
_WARM_UP = 2


def timed(request: Request, progress: source.Progress) -> Timed:
    """Wall time of forward at full size, after warm-up; the median of some runs and their quartiles.

    Raises:
        CaptureFailed: as capturing the module at that size.
    """
    import torch

    path = Path(request.path)
    progress("making the module at full size")
    call = torch_calls.build(source.load(path, request.sizes["full"], "hawkeye_source_full"), request, request.seed)
    inputs = list(call.inputs.values())
    xla = _xla()
    if xla:
        call.module.to(xla.device())
        inputs = [tensor.to(xla.device()) for tensor in inputs]
    arguments = call.arguments(inputs)

    def once() -> float:
        began = time.perf_counter()
        call.module(*arguments)
        if xla:
            xla.sync(wait=True)
        return time.perf_counter() - began

    progress("timing the module")
    with torch.no_grad(), source.told(path, "forward fails"):
        first_s = [once() for _ in range(_WARM_UP)][-1]
        # Most runs of a fast module, and still some of a slow one.
        runs = min(_MOST_RUNS, max(_LEAST_RUNS, int(_ENOUGH_S / max(first_s, 1e-9))))
        times = [1e6 * once() for _ in range(runs)]
    low, median, high = statistics.quantiles(times, n=4)
    device = f"TPU by torch_xla {xla.__version__}" if xla else f"{_cpu()}, {torch.get_num_threads()} threads"
    return Timed(us=median, low_us=low, high_us=high, runs=runs, device=device, torch=torch.__version__)


def _xla() -> Any:
    """torch_xla if it is installed and has a TPU; else None."""
    try:
        import torch_xla  # type: ignore[import-not-found, unused-ignore]
        from torch_xla import runtime
    except ImportError:
        return None
    return torch_xla if runtime.device_type() == "TPU" else None


def _cpu() -> str:
    """The processor's name as Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"CPU ({names[0] if names else os.uname().machine})"
