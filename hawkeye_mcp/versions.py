"""Versions that a prediction depends on, read without importing the packages."""

import functools
from importlib import metadata

import hawkeye_mcp
from hawkeye_mcp.evaluation import Versions


@functools.cache
def versions() -> Versions:
    """Of this installation; "missing" for a package that is not there."""
    return Versions(hawkeye=hawkeye_mcp.__version__, **{name: _of(name) for name in ("jax", "jaxlib", "libtpu")})


def _of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
