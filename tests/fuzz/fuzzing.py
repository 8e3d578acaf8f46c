"""Feeding a parser: how often, and what it may take."""

import signal
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

# A parameter of every test here. The few are of the default suite; the many are the same and more.
EXAMPLES = [pytest.param(12, id="few"), pytest.param(1_000, id="many", marks=pytest.mark.slow)]
# Of processor time; the slowest input takes a hundredth of that. It ends a parser that hangs and is no measurement.
_HANGS_S = 60
_MOST_BYTES = 64 << 20


class Hangs(BaseException):
    """Not an Exception, so that no parser takes it for a fault of its input."""


def attempted(call: Callable[[], Any], refusal: type[Exception] | tuple[type[Exception], ...]) -> Any:
    """What the call returns, or the error that it may raise instead."""
    try:
        return call()
    except refusal as error:
        return error


def fuzz(
    strategy: st.SearchStrategy[Any],
    feed: Callable[[Any], object],
    examples: int,
    known: Iterable[Any] = (),
    *,
    smallest: bool = True,
) -> None:
    """Feed the parser; what it raises, beyond what `feed` expects, fails with the smallest input that does it.

    known: inputs that a parser stumbled over once, fed first. smallest: look for the smallest, which takes many tries.
    """
    for value in known:
        with bounded():
            feed(value)

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[phase for phase in Phase if smallest or phase is not Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(value: Any) -> None:
        with bounded():
            feed(value)

    one()


@contextmanager
def bounded() -> Iterator[None]:
    """Ends what runs on and on; afterwards what was done must not have held more memory than a parser needs."""

    def stop(number: int, frame: object) -> None:
        raise Hangs(f"still parsing after {_HANGS_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS_S)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert peak < _MOST_BYTES, f"parsing took {peak} bytes of memory"
