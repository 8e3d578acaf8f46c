"""The search, top to bottom: look at points without verifying them, then have the best judged in full.

Everything that a search knows is in its folder as soon as it is known. Run again, it answers from there.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio

from hawkeye_mcp.autotune import parameters
from hawkeye_mcp.autotune.model import Autotuned, Looked
from hawkeye_mcp.autotune.outcome import RESULT, Evaluate, conclude
from hawkeye_mcp.autotune.proposals import Proposals
from hawkeye_mcp.autotune.ranking import ranked, shown
from hawkeye_mcp.autotune.request import Plan, Request
from hawkeye_mcp.autotune.space import Point
from hawkeye_mcp.autotune.store import Store, alone, using
from hawkeye_mcp.display import us
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.workloads import Workload

if TYPE_CHECKING:
    from hawkeye_mcp.judge.outlining import GoesOn, Outline

_MOST_FAULTS = 3  # of the harness, in a row, before a search ends
_SPENT = "The budget of points is spent, and no earlier search looked at any of these."
_MOST_WORDS = 2000  # of the compiler, kept of one point


class Looks(Protocol):
    """What a search asks of a judge."""

    async def profile(
        self,
        source: str,
        workload: Workload,
        tpu: str,
        *,
        counters: bool = ...,
        goes_on: "GoesOn | None" = ...,
    ) -> Profile: ...


@dataclass
class _State:
    """What one run of a search knows so far."""

    by_place: dict[int, Looked] = field(default_factory=dict)  # of the proposal
    from_store: int = 0
    faults: int = 0
    stopped_by: str | None = None

    @property
    def looked(self) -> list[Looked]:
        return [self.by_place[place] for place in sorted(self.by_place)]


async def search(
    request: Request,
    judge: Looks,
    evaluate: Evaluate,
    folder: Path,
    fingerprint: str,
    *,
    jobs: int = 1,
    progress: Callable[[str], None],
    may_look: Callable[[], bool] = lambda: True,
) -> Autotuned:
    """Look at the points of a request, judge the best and the file as it is, and write the winner into the folder.

    jobs: points at a time. may_look: whether the budget allows one more point that no search of the folder looked at.

    Raises:
        NoParameter, BadSpace: there is nothing to search.
        Busy, Unusable: the folder cannot be had.
    """
    began = time.monotonic()
    plan = request.planned()
    progress(f"{plan.count} of {len(plan.allowed)} points by {request.strategy}")
    with alone(folder):
        store = Store(folder, request.workload.name, request.tpu, fingerprint)
        state = await _look_at_all(request, plan, judge, store, jobs, progress, began, may_look)
        found = await conclude(request, plan, state.looked, evaluate, store, progress)
        found = found.model_copy(
            update={
                "stopped_by": state.stopped_by,
                "from_store": state.from_store,
                "took_s": round(time.monotonic() - began, 1),
            }
        )
        if state.stopped_by == "budget" and not state.looked:
            found = found.model_copy(
                update={"message": _SPENT, "next_step": "Choose the values yourself, then evaluate."}
            )
        with using(folder):
            write_atomically(folder / RESULT, found.model_dump_json(indent=2) + "\n")
        return found


async def _look_at_all(
    request: Request,
    plan: Plan,
    judge: Looks,
    store: Store,
    jobs: int,
    progress: Callable[[str], None],
    began: float,
    may_look: Callable[[], bool],
) -> _State:
    state = _State()
    proposals = Proposals(request.space, plan.allowed, plan.own, request.strategy, plan.count, request.seed)
    coming = enumerate(proposals)

    async def work() -> None:
        for place, (trial, point) in coming:  # shared: each takes the next
            text = parameters.rewritten(request.source, point)
            known = store.known.get(sha256(text))
            promoted = bool(known and known.estimate_us is not None and proposals.goes_on(trial, known.estimate_us))
            if known and (known.rung != "estimate" or not promoted):
                looked = known.model_copy(update={"parameters": point})  # other names may give the same text
                state.from_store += 1
            else:
                if request.seconds is not None and time.monotonic() - began >= request.seconds:
                    state.stopped_by = "seconds"
                    return
                if known is None and not may_look():
                    state.stopped_by = "budget"
                    return
                goes_on = None if promoted else partial(proposals.goes_on, trial)
                looked = await _look(request, judge, text, point, goes_on, known)
                store.add(looked)
                state.faults = state.faults + 1 if looked.status == "harness_error" else 0
            state.by_place[place] = looked
            proposals.tell(trial, looked.predicted_us)
            progress(_told(plan.count, looked, state.looked))
            if state.faults >= _MOST_FAULTS:
                state.stopped_by = "faults"
            if state.stopped_by:
                return

    async with anyio.create_task_group() as tasks:
        for _ in range(max(1, jobs)):
            tasks.start_soon(work)
    return state


async def _look(
    request: Request,
    judge: Looks,
    text: str,
    point: Point,
    goes_on: Callable[[float | None], bool] | None,
    known: Looked | None,
) -> Looked:
    """goes_on: asked with the estimate of the first rung; None where there is none, or where it was asked before.
    known: what an earlier search of the folder estimated."""
    began = time.monotonic()
    estimates = [known.estimate_us] if known else []
    answers: list[bool] = []

    def first_rung(outline: "Outline") -> bool:
        assert goes_on
        estimates.append(outline.estimate_us)
        answers.append(goes_on(outline.estimate_us))
        return answers[0]

    profile = await judge.profile(
        text,
        request.workload,
        request.tpu,
        counters=False,
        goes_on=first_rung if goes_on and request.strategy == "halving" else None,
    )
    timing, measured = profile.timing, profile.measured
    words = profile.compiler_message
    return Looked(
        parameters=point,
        kernel_sha256=sha256(text),
        status=profile.status,
        rung=("prediction" if all(answers) else "estimate") if profile.status == "profiled" else None,
        estimate_us=estimates[-1] if estimates else None,
        predicted_us=timing.candidate_us if timing else None,
        interval_us=timing.candidate_interval_us if timing else None,
        lower_bound=bool(timing and timing.lower_bound),
        measured_us=measured.candidate_us if measured else None,
        vmem_bytes=profile.vmem_bytes,
        hbm_bytes=profile.hbm_bytes,
        message=profile.message,
        compiler_message=words[:_MOST_WORDS] if words else None,
        took_s=round(time.monotonic() - began, 2),
    )


def _told(count: int, looked: Looked, so_far: list[Looked]) -> str:
    found: str = "refused by the compiler" if looked.refused else looked.status
    if looked.timed:
        found = f"{us(looked.predicted_us)} us predicted"
    elif looked.rung == "estimate":
        found = f"about {us(looked.estimate_us)} us by estimate, and left at that"
    told = f"{len(so_far)} of {count}: {shown(looked.parameters)}: {found}"
    best = next(iter(ranked(so_far)), None)
    return f"{told}; best {us(best.predicted_us)} us at {shown(best.parameters)}" if best else told
