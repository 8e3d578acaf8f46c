"""What commands share when they run: progress on stderr, signals, faults, exit codes, files written whole."""

import json
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from rich.console import Console

EXIT_OTHER_VERDICT, EXIT_HARNESS = 1, 3
KEPT = "what was finished is kept, and the same command goes on from there"
_PLAIN_WIDTH = 120  # of tables that go into a file or a pipe

Outcome = TypeVar("Outcome")


def judged(
    judge: Callable[[Callable[[str], None]], Awaitable[Outcome]],
    *,
    passed_on: tuple[type[Exception], ...] = (),
    stopped: str = "nothing was judged",
) -> Outcome:
    """Run one judgement with its stages shown; a fault of the harness or a signal ends the process.

    passed_on: faults that are the caller's to tell. stopped: what a signal leaves, in words.
    """
    import anyio

    try:
        with stages() as progress:
            found = anyio.run(_until_signal, judge, progress)
    except Exception as error:
        from hawkeye_mcp.judge.verdict import leaves

        for leaf in leaves(ExceptionGroup("", [error])):
            if isinstance(leaf, passed_on):
                raise leaf from None
        traceback.print_exc()
        typer.echo("The harness failed: no fault of the kernel. `hawkeye doctor` says what is missing.", err=True)
        raise typer.Exit(EXIT_HARNESS) from None
    if isinstance(found, signal.Signals):
        typer.echo(f"Stopped by {found.name}; {stopped}.", err=True)
        raise typer.Exit(128 + found)
    return found


async def _until_signal(
    judge: Callable[[Callable[[str], None]], Awaitable[Outcome]], progress: Callable[[str], None]
) -> Outcome | signal.Signals:
    """The outcome, or the signal that came first; either way the judge's processes and folders are gone."""
    import anyio

    ended: list[Outcome | signal.Signals] = []
    async with anyio.create_task_group() as tasks:

        async def watch(*, task_status: "TaskStatus[None]") -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                task_status.started()
                async for number in signals:
                    ended.append(signal.Signals(number))
                    tasks.cancel_scope.cancel()

        await tasks.start(watch)
        ended.append(await judge(progress))
        tasks.cancel_scope.cancel()
    return ended[0]


def visible(text: str) -> str:
    """Text of a file for a terminal, without what could hide a part of it."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def exit_code(status: str) -> int:
    return {"correct": 0, "profiled": 0, "harness_error": EXIT_HARNESS}.get(status, EXIT_OTHER_VERDICT)


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Shows the latest stage on stderr while it lasts, if that is a terminal."""
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield lambda stage: None
        return
    with terminal.status("starting the judge") as status:
        yield lambda stage: status.update(stage)


def console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else _PLAIN_WIDTH, highlight=False)


def save(file: Path, drawn: bytes) -> None:
    from hawkeye_mcp.state import write_atomically

    try:
        write_atomically(file, drawn)
    except OSError as error:
        typer.echo(f"The picture could not be written to {file}: {error.strerror}. Give --png another file.", err=True)
        raise typer.Exit(EXIT_HARNESS) from None


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def write_all(folder: Path, files: dict[str, str]) -> None:
    """Write every file, or none if one exists with another text."""
    try:
        there = {
            name: (folder / name).read_text(encoding="utf-8", errors="replace")
            for name in files
            if (folder / name).exists()
        }
        if differing := [name for name, text in there.items() if text != files[name]]:
            for name in differing:
                typer.echo(f"{folder / name} exists and says something else; merge this into it:", err=True)
                typer.echo(files[name], err=True)
            raise typer.Exit(EXIT_OTHER_VERDICT)
        for name, text in files.items():
            if name not in there:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, encoding="utf-8")
            typer.echo(f"{folder / name}: {'already so' if name in there else 'written'}")
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}", param_hint="--dir") from None
