"""A folder beside the place where a workload will be, which is gone unless the workload was made."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hawkeye_mcp.intake.imported import GateFailed

PREFIX = ".importing-"


def free(target: Path) -> None:
    """Raises GateFailed: something is where the workload would be."""
    if target.exists() or target.is_symlink():
        raise GateFailed(
            "write",
            f"{target} exists, and nothing is overwritten.",
            "Remove it, or give the job another name or --dir.",
        )


@contextlib.contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A folder on the same file system, gone at the end whatever happens; those of killed imports go too."""
    made = [parent for parent in (target.parent, *target.parent.parents) if not parent.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f"{PREFIX}*-*"):
            owner = left.name.removeprefix(PREFIX).split("-")[0]
            if owner.isdigit() and not (Path("/proc") / owner).exists():
                shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=target.parent))
    except OSError as error:
        raise GateFailed("write", f"{error.filename}: {error.strerror}.", "Give another --dir.") from None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if not target.exists():
            for parent in made:
                with contextlib.suppress(OSError):
                    parent.rmdir()
