"""Fixtures shared by all tests."""

import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before anything imports jax: libtpu belongs into workers


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
