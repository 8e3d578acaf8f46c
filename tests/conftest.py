"""Fixtures shared by all tests."""

import gc
import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # before anything imports jax: libtpu belongs into workers
# What tests themselves run on the CPU is small: compiling it takes longer. Workers and sandboxes do not see this.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false")

gc.disable()  # until all tests are collected: what their modules define is there to stay

# No test pulls the plug, and what a killed process has written is there without it. Servers of their own do wait.
os.fsync = lambda fd: None


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of minutes start first, so that all others run beside them in the other processes."""
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)


def pytest_collection_finish() -> None:
    gc.enable()  # not frozen: hypothesis asks what refers to its random generators, and what is frozen does not answer
