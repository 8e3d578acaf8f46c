"""Small workloads in folders, for tests: the skeleton with some of its text replaced."""

from pathlib import Path

from hawkeye_mcp.workload_check import skeleton
from hawkeye_mcp.workloads import Workload, find


def write(
    folder: Path, name: str = "mine", code: dict[str, str] | None = None, toml: dict[str, str] | None = None
) -> Workload:
    """A workload in folder/name: the skeleton at small sizes, with each key of code and toml replaced by its value."""
    files = skeleton.files(name)
    small = {"check = { M = 256, K = 512, N = 768 }": "check = { M = 32, K = 64, N = 48 }"}
    texts = {"workload.py": code or {}, "workload.toml": small | (toml or {})}
    (folder / name).mkdir()
    for file, replaced in texts.items():
        text = files[file]
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        (folder / name / file).write_text(text, encoding="utf-8")
    return find(f"{folder / name}")
