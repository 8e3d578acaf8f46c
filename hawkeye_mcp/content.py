"""Where the content folders are: the repository in a checkout, package data in a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder of one kind of content: "workloads", "taxonomy" or "agent_configs".

    Raises:
        FileNotFoundError: the installation lacks its content.
    """
    for root in (_PACKAGE / "_content", _PACKAGE.parent):
        if (root / name).is_dir():
            return root / name
    raise FileNotFoundError(
        f"The {name}/ folder is missing from this installation of hawkeye-mcp; reinstall the package."
    )


def private_paths() -> list[Path]:
    """Every path a candidate must not see: content and the judge's own code."""
    return [_PACKAGE, *(folder(name) for name in ("workloads", "taxonomy", "agent_configs"))]
