"""The report of a folder of runs as one HTML page that needs nothing else: it opens from disk, with no network.

Every run has a page of its own in the same file, compressed until it is opened.
"""

from pathlib import Path

from hawkeye_bench import results, trajectories
from hawkeye_bench.page import rendering
from hawkeye_bench.results import Results
from hawkeye_mcp.state import write_atomically

NAME = "report.html"


def write(out: Path, found: Results | None = None) -> Path:
    """Write OUT/report.html, whole or not at all, and return its path.

    found: what `results.read` says of the folder, if that is at hand.

    Raises:
        NoRuns: see `results.read`.
        OSError: the folder cannot be written.
    """
    found = found or results.read(out)
    runs = results.finished(out, found.plan)
    html = rendering.page(out, found, runs, trajectories.of_runs(out, runs))
    write_atomically(out / NAME, html)
    return out / NAME
