"""The folder of a run: what it holds, and how it is changed by several processes without losing anything.

    events.jsonl        one JSON object a line, only ever appended to: the truth
    state.json          what follows from the events, for programs and people to read
    kernels/<sha256>.py, evaluations/<id>.json, artifacts/...    what the events name
    lock                held while the run is changed

A file is there before the event that names it, and the event before the state. So a process that dies at any moment
leaves at most a file that no event names, or a state that lags behind the events; whoever opens the run next mends it.
"""

import fcntl
import math
import os
import re
import secrets
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hawkeye_mcp import kernels
from hawkeye_mcp.calllog import KERNELS, CallLog
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.runs.fold import EVALUATIONS, NotBegun, fold
from hawkeye_mcp.runs.model import State
from hawkeye_mcp.state import write_atomically
from hawkeye_mcp.workloads import Workload

EVENTS, STATE, ARTIFACTS, LOCK = "events.jsonl", "state.json", "artifacts", "lock"
_LOCK_WAIT_S = 30.0
_LOCK_RETRY_S = 0.02
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

Facts = dict[str, Any]


class RunError(ValueError):
    """Something is wrong with a run; the message says what, and what to do."""


class NoRun(RunError):
    """The folder holds no run."""


class RunExists(RunError):
    """The folder holds a run already, or something else."""


class RunBusy(RunError):
    """Another process has held the run's lock for too long."""


class NoEvaluation(RunError):
    """The run holds no evaluation of that id."""


class OtherRun(RunError):
    """A result of another workload or chip than the run's."""


@dataclass(frozen=True)
class Run:
    """A run's folder, an absolute path."""

    folder: Path


def create(folder: Path, workload: Workload, tpu: str) -> State:
    """Begin a run in a folder that is empty or not there yet.

    Raises:
        RunExists: the folder holds something.
        OSError: it cannot be written.
    """
    run = Run(folder.resolve())
    run.folder.mkdir(parents=True, exist_ok=True)
    # What a process left that died before the run began is no content.
    left = {EVENTS, LOCK, KERNELS}
    with _locked(run):
        try:
            found = _read(run)
        except NotBegun:
            pass
        else:
            raise RunExists(
                f"{run.folder} holds a run of {found.workload} already. Go on with it, or name another folder."
            )
        if there := sorted(path.name for path in run.folder.iterdir() if path.name not in left)[:3]:
            raise RunExists(f"{run.folder} is not empty ({', '.join(there)}). Name a folder that is, or a new one.")
        facts = {
            "id": f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(3)}",
            "workload": workload.name,
            "workload_folder": None if workload.shipped else str(workload.folder),
            "tpu": tpu,
        }
        return _append(run, "created", facts)


def find(folder: Path) -> Run:
    """The run in a folder.

    Raises:
        NoRun: there is none, or none that can be read.
    """
    run = Run(folder.resolve())
    try:
        _read(run)
    except OSError as error:
        raise NoRun(f"{error.filename} cannot be read: {error.strerror}. Ask whoever owns the run.") from None
    except NotBegun:
        if (run.folder / EVALUATIONS).is_dir():
            raise NoRun(
                f"{run.folder / EVENTS} has lost its first line, which says what the run is of. Put it back as its first: "
                '{"time": "...", "event": "created", "id": "...", "workload": "...", "tpu": "..."}, with the values that '
                f"{STATE} or a file of {EVALUATIONS}/ has."
            ) from None
        raise NoRun(
            f"{run.folder} holds no run. Begin one: hawkeye runs new {shlex.quote(str(folder))} --workload NAME --tpu CHIP"
        ) from None
    return run


def read(run: Run) -> State:
    """The run as it stands; state.json is mended if it says something else.

    Raises:
        RunBusy: another process holds the lock for too long.
        OSError: the events cannot be read.
    """
    try:
        with _locked(run):
            return _kept(run, _read(run))
    except OSError:  # no lock can be had: a full disk, or somebody else's run, to look at
        return _read(run)


def change(run: Run, decide: Callable[[State], tuple[str, Facts] | None]) -> State:
    """Append the event that `decide` makes of the state as it stands, with no other change in between.

    decide: may raise, and then nothing is changed; None appends nothing.

    Raises:
        RunBusy: the lock cannot be had.
        OSError: the event cannot be written.
    """
    with _locked(run):
        state = _read(run)
        decided = decide(state)
        return _kept(run, state) if decided is None else _append(run, *decided)


def append(run: Run, event: str, **facts: Any) -> State:
    """Append one event; see `change`."""
    return change(run, lambda _: (event, facts))


def record_evaluation(run: Run, kernel: str, evaluation: Evaluation, fingerprint: str) -> State:
    """Keep an evaluation with its kernel; one that is there already changes nothing.

    fingerprint: see `pool.fingerprint`.

    Raises:
        OtherRun: it is of another workload or chip.
        RunBusy, OSError: it could not be kept.
    """
    timing = evaluation.timing
    facts = {
        "id": evaluation.id,
        "kernel_sha256": evaluation.kernel_sha256,
        "status": evaluation.status,
        "source": timing.source if timing else None,
        "candidate_us": timing.candidate_us if timing else None,
        "candidate_interval_us": timing.candidate_interval_us if timing else None,
        "baseline_us": timing.baseline_us if timing else None,
        "speedup": timing.speedup if timing else None,
        "speedup_interval": timing.speedup_interval if timing else None,
        "lower_bound": bool(timing and timing.lower_bound),
        "baseline_lower_bound": bool(timing and timing.baseline_lower_bound),
        "fingerprint": fingerprint,
    }

    def decide(state: State) -> tuple[str, Facts] | None:
        _check_subject(state, evaluation)
        if any(known.id == evaluation.id for known in state.evaluations):
            return None
        _keep_kernel(run, kernel)
        write_atomically(_evaluation_path(run, evaluation.id), evaluation.model_dump_json(indent=1))
        return "evaluation", facts

    return change(run, decide)


def record_profile(run: Run, kernel: str, profile: Profile, fingerprint: str) -> State:
    """Keep a profile with its kernel, as an artifact. Raises as `record_evaluation` does."""
    roofline = profile.roofline
    ceilings = [c for c in roofline.ceilings if c.unit == roofline.binding] if roofline else []
    facts = {
        "id": f"profile-{secrets.token_hex(6)}",
        "kernel_sha256": profile.kernel_sha256,
        "status": profile.status,
        "predicted_us": profile.predicted_us,
        "ceiling_us": roofline.best_us if roofline else None,
        "ceiling_unit": roofline.binding if roofline else None,
        "ceiling_source": ceilings[0].source if ceilings else None,
        "fingerprint": fingerprint,
    }

    def decide(state: State) -> tuple[str, Facts]:
        _check_subject(state, profile)
        _keep_kernel(run, kernel)
        _write_artifact(run, f"{facts['id']}.json", profile.model_dump_json(indent=1))
        return "profile", facts

    return change(run, decide)


def keep_artifact(run: Run, name: str, data: str | bytes) -> Path:
    """Write a file of the run, whole or not at all; name: with `/` for folders in artifacts/. The caller's event names it.

    Raises:
        RunError: the name leads out of the folder.
    """
    if not name or not all(_ID.fullmatch(part) for part in name.split("/")):
        raise RunError(
            f"{name!r} is no name for an artifact: use letters, digits, '.', '_' and '-', with / for folders."
        )
    return _write_artifact(run, name, data)


def evaluation(run: Run, evaluation_id: str) -> Evaluation:
    """An evaluation of this run, whole.

    Raises:
        NoEvaluation: the run has none of that id, or its file is damaged.
    """
    state = _read(run)
    if all(known.id != evaluation_id for known in state.evaluations):
        latest = ", ".join(known.id for known in state.evaluations[-3:]) or "none yet"
        raise NoEvaluation(f"This run holds no evaluation {evaluation_id!r}. Its latest: {latest}.")
    path = _evaluation_path(run, evaluation_id)
    try:
        return Evaluation.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise NoEvaluation(f"{path} is missing or damaged: evaluate that kernel again.") from None


def listed(folder: Path) -> list[State]:
    """The runs in the folders of a folder, and in itself, oldest first."""
    found = []
    for path in [folder, *sorted(folder.iterdir())]:
        if (path / EVENTS).is_file():
            try:
                found.append(_read(Run(path.resolve())))
            except (NotBegun, OSError):
                continue
    return sorted(found, key=lambda state: state.created)


def finite(value: Any) -> Any:
    """The value with null for every figure in it that is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [finite(item) for item in value]
        # An interval with an unknown end says nothing.
        return None if isinstance(value, tuple) and None in items and None not in value else items
    return value


def _read(run: Run) -> State:
    """
    Raises:
        NotBegun: the folder holds no run.
        OSError: its events cannot be read.
    """
    try:
        log = (run.folder / EVENTS).read_bytes()
    except FileNotFoundError:
        log = b""
    return fold(run.folder, log)


def _append(run: Run, event: str, facts: Facts) -> State:
    log = CallLog(run.folder / EVENTS)
    try:
        log.write(event, **finite(facts))
    finally:
        log.close()
    return _kept(run, _read(run))


def _kept(run: Run, state: State) -> State:
    """Write state.json unless it says this already; where it cannot be written, who opens the run next mends it."""
    path, text = run.folder / STATE, state.model_dump_json(indent=1)
    try:
        if path.read_text(encoding="utf-8") == text:
            return state
    except (OSError, ValueError):
        pass
    with suppress(OSError):  # what is recorded is recorded, and must not be told as lost
        write_atomically(path, text)
    return state


def _keep_kernel(run: Run, kernel: str) -> None:
    path = run.folder / KERNELS / f"{kernels.sha256(kernel)}.py"
    if not path.exists():
        write_atomically(path, kernels.encoded(kernel))


def _write_artifact(run: Run, name: str, data: str | bytes) -> Path:
    path = run.folder / ARTIFACTS / name
    write_atomically(path, data)
    return path


def _evaluation_path(run: Run, evaluation_id: str) -> Path:
    if not _ID.fullmatch(evaluation_id):
        raise RunError(f"{evaluation_id!r} is no id of an evaluation.")
    return run.folder / EVALUATIONS / f"{evaluation_id}.json"


def _check_subject(state: State, outcome: Evaluation | Profile) -> None:
    if (outcome.workload, outcome.tpu) != (state.workload, state.tpu):
        raise OtherRun(
            f"The run is of {state.workload} on {state.tpu}, the result of {outcome.workload} on {outcome.tpu}. "
            "Begin another run for it: hawkeye runs new."
        )


@contextmanager
def _locked(run: Run) -> Iterator[None]:
    """Hold the run's lock among all processes and threads; it goes with its holder, however that ends."""
    handle = os.open(run.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        give_up = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > give_up:
                    raise RunBusy(
                        f"Another process has held {run.folder / LOCK} for {_LOCK_WAIT_S:.0f} s. Look for a stopped "
                        "server or command that uses this run, end it, and try again."
                    ) from None
                time.sleep(_LOCK_RETRY_S)
        yield
    finally:
        os.close(handle)
