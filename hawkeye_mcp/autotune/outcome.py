"""From what was looked at to a result: the best points judged in full, the file as it is judged too, the gain between."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hawkeye_mcp.autotune import parameters
from hawkeye_mcp.autotune.model import Autotuned, Gain, Judged, Looked, Status
from hawkeye_mcp.autotune.ranking import counted, ranked, ranked_by, shown
from hawkeye_mcp.autotune.request import Plan, Request
from hawkeye_mcp.autotune.space import Point
from hawkeye_mcp.autotune.store import Store, using
from hawkeye_mcp.display import interval, us
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.kernels import encoded, sha256
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.versions import versions

MOST_JUDGED = 3  # of the fastest points, until one is correct
BEST, RESULT = "best_kernel.py", "result.json"

Evaluate = Callable[[str], Awaitable[Evaluation]]
"""Judges a text in full on fresh seeds. Raises NotJudged where that cannot be had."""


class NotJudged(RuntimeError):
    """No full evaluation can be had; the message says why."""


@dataclass
class _Verdicts:
    best: Judged | None = None
    unchanged: Judged | None = None
    wrong: list[Judged] = field(default_factory=list)
    missing: str = ""  # why one that is needed is not there


async def conclude(
    request: Request,
    plan: Plan,
    looked: Sequence[Looked],
    evaluate: Evaluate,
    store: Store,
    progress: Callable[[str], None],
) -> Autotuned:
    """Judge, compare, and write the winner into the folder."""
    order = ranked(looked)
    found = await _judged(request, plan, order, evaluate, progress)
    gain = _gain(found.unchanged, found.best)
    best = found.unchanged if gain and gain.ratio <= 1 else found.best  # a tie is the incumbent's
    status = _status(plan.own, order, found, best, gain)
    file = None
    if best and best.parameters != plan.own:
        file = _write(store, parameters.rewritten(request.source, best.parameters))
    message, next_step = _words(status, found, best, gain, looked)
    others = [each for each in looked if not each.timed]
    return Autotuned(
        status=status,
        message=message,
        next_step=next_step,
        workload=request.workload.name,
        tpu=request.tpu,
        kernel_sha256=sha256(request.source),
        parameters=request.space.parameters,
        constraints=request.space.constraints,
        own=plan.own,
        strategy=request.strategy,
        seed=request.seed,
        points=plan.count,
        allowed=len(plan.allowed),
        counts=counted(looked),
        from_store=0,
        ranked_by=ranked_by(looked),
        looked_at=order + sorted(others, key=lambda each: (each.rung is None, each.estimate_us or 0.0)),
        best=best,
        unchanged=found.unchanged,
        wrong=found.wrong,
        gain=gain,
        folder=str(store.folder),
        best_file=str(file) if file else None,
        took_s=0.0,
        versions=versions(),
    )


async def _judged(
    request: Request, plan: Plan, order: Sequence[Looked], evaluate: Evaluate, progress: Callable[[str], None]
) -> _Verdicts:
    found, known = _Verdicts(), dict[str, Judged]()

    async def judge(point: Point) -> Judged:
        text = parameters.rewritten(request.source, point)
        if text not in known:
            progress(f"judging {shown(point)} in full")
            one = Judged.of(point, await evaluate(text))
            if one.status == "harness_error":
                raise NotJudged(f"the harness failed at {shown(point)}: {one.message}")
            known[text] = one
        return known[text]

    try:
        for each in order[:MOST_JUDGED]:
            one = await judge(each.parameters)
            if one.status == "correct":
                found.best = one
                break
            found.wrong.append(one)
        if found.best:
            found.unchanged = await judge(plan.own)
    except NotJudged as error:
        found.missing = str(error)
    return found


def _gain(unchanged: Judged | None, best: Judged | None) -> Gain | None:
    """None unless both are correct and have times of one source that are more than lower bounds."""
    if not unchanged or not best or unchanged.status != "correct" or unchanged is best:
        return None
    if not unchanged.us or not best.us or unchanged.source != best.source or not best.source:
        return None
    if unchanged.lower_bound or best.lower_bound:
        return None
    ends = None
    if unchanged.interval_us and best.interval_us:
        (low, high), (best_low, best_high) = unchanged.interval_us, best.interval_us
        ends = (float(f"{low / best_high:.4g}"), float(f"{high / best_low:.4g}"))
    return Gain(
        source=best.source,
        ratio=float(f"{unchanged.us / best.us:.4g}"),
        interval=ends,
        indistinguishable=ends is None or ends[0] <= 1 <= ends[1],
    )


def _status(own: Point, order: Sequence[Looked], found: _Verdicts, best: Judged | None, gain: Gain | None) -> Status:
    if not order:
        return "none_timed"
    if best is None:
        return "not_judged" if found.missing else "none_correct"
    if best.parameters == own:
        return "best_already"
    if gain is None:
        return "no_comparison"
    return "indistinguishable" if gain.indistinguishable else "better"


def _words(
    status: Status, found: _Verdicts, best: Judged | None, gain: Gain | None, looked: Sequence[Looked]
) -> tuple[str, str]:
    """Message and next step."""
    if best is None:
        return _without_winner(status, found, looked)
    told = f"{shown(best.parameters)} is correct on {best.seeds} fresh draws and takes {_time(best)}"
    if found.wrong:
        told += f"; {len(found.wrong)} faster by prediction did not pass a full evaluation"
    if status == "best_already":
        return f"Nothing faster than the file as it is was found: {told}.", "Change the kernel itself: profile it."
    set_them = f"Set {shown(best.parameters)} in the kernel file"
    if gain is None:
        why = found.missing or (found.unchanged and _why_not(found.unchanged, best)) or "its time is unknown"
        return f"{told}. No gain over the file as it is can be stated: {why}.", f"{set_them}, then evaluate it."
    assert found.unchanged
    told += f", the file as it is {_time(found.unchanged)}: {gain.ratio:.3g} times as fast{interval(gain.interval)}"
    if gain.indistinguishable:
        return (
            f"{told}, which is indistinguishable: the intervals overlap, so neither is known to be faster.",
            f"{set_them} only if a measurement on a TPU confirms it; such predictions cannot tell the two apart.",
        )
    return f"{told}.", f"{set_them}, then profile it."


def _without_winner(status: Status, found: _Verdicts, looked: Sequence[Looked]) -> tuple[str, str]:
    if status == "not_judged":
        return (
            f"The fastest points by prediction were not judged: {found.missing}. No winner is named.",
            "Evaluate the first point of the list yourself, or run the same search again: what was looked at is kept.",
        )
    if status == "none_correct":
        first = found.wrong[0]
        return (
            f"None of the {len(found.wrong)} fastest points is correct. {shown(first.parameters)}: {first.message}",
            "Mend the kernel so that it is right at every block size, or constrain the space; then search again.",
        )
    counts = ", ".join(f"{number} {kind}" for kind, number in counted(looked).items()) or "none was looked at"
    example = f" {shown(looked[0].parameters)}: {looked[0].message}" if looked else ""
    return (
        f"No point has a predicted time: {counts}.{example}",
        "Evaluate the file as it is first; if the compiler refuses all points, put smaller values into the space.",
    )


def _time(judged: Judged) -> str:
    least = "at least " if judged.lower_bound else ""
    return f"{least}{us(judged.us)} us{interval(judged.interval_us)} ({judged.source or 'no time'})"


def _why_not(unchanged: Judged, best: Judged) -> str:
    if unchanged.status != "correct":
        return f"it is {unchanged.status}: {unchanged.message}"
    if unchanged.lower_bound or best.lower_bound:
        return "one of the two times is only a lower bound"
    if unchanged.us and best.us:
        return "one time is measured and the other predicted"
    return "one of the two times is unknown"


def _write(store: Store, text: str) -> Path:
    """The winner's file; one of that name that no search made is somebody's own and is left alone."""
    path = store.folder / BEST
    if path.exists() and path.read_bytes() != encoded(text) and sha256_of(path) not in store.texts:
        path = path.with_stem(f"{path.stem}_{sha256(text)[:12]}")
    with using(store.folder):
        write_atomically(path, encoded(text))
    return path


def sha256_of(path: Path) -> str:
    return sha256(path.read_text(encoding="utf-8", errors="replace"))
