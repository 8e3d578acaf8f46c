"""The judge as the server sees it, opened in the background so that the server answers at once."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.workloads import Workload

logger = logging.getLogger(__name__)

_CLOSE_S = 5.0


class Judge(Protocol):
    """No method raises for anything a candidate does; cancelling the caller stops the work."""

    @property
    def isolation(self) -> str: ...

    async def evaluate(
        self, source: str, workload: Workload, tpu: str, *, progress: Callable[[str], None] = ...
    ) -> Evaluation: ...

    async def profile(
        self, source: str, workload: Workload, tpu: str, *, progress: Callable[[str], None] = ...
    ) -> Profile: ...

    async def sanitize(
        self, source: str, workload: Workload, tpu: str, *, progress: Callable[[str], None] = ...
    ) -> Sanitized: ...


JudgeFactory = Callable[[], AbstractAsyncContextManager[Judge]]


class JudgeUnavailable(RuntimeError):
    """The judge could not be opened; the message says why."""


class JudgeHolder:
    """Opens the judge in a task of its own and closes it in the same task, whatever ends the server."""

    def __init__(self, tasks: TaskGroup, factory: JudgeFactory) -> None:
        self._tasks = tasks
        self._factory = factory
        self._closing = anyio.Event()
        self._settled = anyio.Event()
        self._judge: Judge | None = None
        self._fault: Exception | None = None
        # Shielded: the judge must close in order even when the whole server is being cancelled.
        self._scope = anyio.CancelScope(shield=True)
        tasks.start_soon(self._hold, name="judge")

    async def _hold(self) -> None:
        settled = self._settled
        try:
            with self._scope:
                async with self._factory() as judge:
                    self._judge = judge
                    settled.set()
                    await self._closing.wait()
        except Exception as fault:
            logger.exception("the judge failed")
            self._fault = fault
        finally:
            self._judge = None
            settled.set()

    async def get(self) -> Judge:
        """The open judge; waits for it, and tries once more if opening it failed before.

        Raises:
            JudgeUnavailable: it cannot be opened.
        """
        if self._fault is not None:
            self._fault = None
            self._settled = anyio.Event()
            self._scope = anyio.CancelScope(shield=True)
            self._tasks.start_soon(self._hold, name="judge")
        await self._settled.wait()
        if self._judge is None:
            raise JudgeUnavailable(f"the judge could not be opened: {self._fault or 'the server is closing'}")
        return self._judge

    def close(self) -> None:
        """Let the judge close within a bounded time; its task group waits for it."""
        self._closing.set()
        if self._settled.is_set():
            self._scope.deadline = anyio.current_time() + _CLOSE_S
        else:
            self._scope.cancel()
