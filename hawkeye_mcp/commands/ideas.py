"""`hawkeye ideas`: the ledger of a run, for people and scripts; the server has the same as a tool."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from hawkeye_mcp.commands import options, running, runs

if TYPE_CHECKING:
    from hawkeye_mcp.runs.idea import Action, Idea, Kind, Trust
    from hawkeye_mcp.runs.model import State

app = typer.Typer(
    no_args_is_help=True,
    help="The ideas of a run: proposed, adopted, then confirmed, refuted or dropped. Exit code: 1 what the ledger refuses.",
)

Found = TypeVar("Found")
IdeaArgument = Annotated[str, typer.Argument(metavar="IDEA", help="Its id, such as idea-3.")]
EvaluationOption = Annotated[
    str, typer.Option("--evaluation", metavar="ID", help="The evaluation of this run that shows it.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="What there is to say on it.")]


def _ask(ask: Callable[[], Found]) -> Found:
    """What the ledger answers; what it refuses ends the command with its words."""
    from pydantic import ValidationError

    from hawkeye_mcp.runs.idea import LedgerError
    from hawkeye_mcp.runs.store import RunError

    try:
        return ask()
    except ValidationError as error:
        for found in error.errors(include_url=False):
            typer.echo(f"{'.'.join(map(str, found['loc']))}: {found['msg']}", err=True)
    except (LedgerError, RunError) as error:
        typer.echo(str(error), err=True)
    except OSError as error:
        typer.echo(f"The run cannot be written: {error}", err=True)
        raise typer.Exit(running.EXIT_HARNESS) from None
    raise typer.Exit(running.EXIT_OTHER_VERDICT)


def _told(idea: "Idea", as_json: bool) -> None:
    from hawkeye_mcp.display import one_line
    from hawkeye_mcp.runs.idea import legal

    if as_json:
        typer.echo(idea.model_dump_json(indent=2))
        return
    typer.echo(f"{idea.id}: {idea.status}: {one_line(idea.claim)}")
    typer.echo(f"Legal for it now: {', '.join(legal(idea)) or 'nothing, it is final'}.")


@app.command("list")
def list_ideas(folder: runs.FolderArgument, as_json: options.JsonOption = False) -> None:
    """Show every idea with its history, and what is thought of the references."""
    from hawkeye_mcp.display import one_line

    state = runs.read(folder)
    if as_json:
        running.print_json(state.model_dump(mode="json", include={"ideas", "reference_trust"}))
        return
    for idea in state.ideas:
        typer.echo(f"{idea.id}: {idea.status}: {idea.kind}: {one_line(idea.claim)}")
        for step in idea.history:
            rest = " ".join(part for part in (step.evaluation_id, step.reason) if part)
            typer.echo(f"  {step.time} {step.action} {one_line(rest)}".rstrip())
    for trusted in state.reference_trust:
        typer.echo(f"{one_line(trusted.reference)}: {trusted.trust}: {one_line(trusted.reason)}")
    if not state.ideas:
        typer.echo("The ledger is empty. Next: hawkeye ideas propose", err=True)


def _kind(value: str) -> str:
    from hawkeye_mcp.runs.idea import KINDS

    return options.one_of(value, KINDS)


@app.command("propose")
def propose(
    folder: runs.FolderArgument,
    claim: Annotated[str, typer.Option(metavar="TEXT", help="One statement that can be wrong.")],
    evidence: Annotated[str, typer.Option(metavar="TEXT", help="File and line, or finding, that suggests it.")],
    kind: Annotated[
        str,
        typer.Option("--class", metavar="CLASS", callback=_kind, help="ALGORITHMIC, STRUCTURAL or NON_PORTABLE."),
    ],
    falsifiable_as: Annotated[str, typer.Option(metavar="TEXT", help="The result that would refute it.")],
    mechanism: Annotated[str, typer.Option(metavar="TEXT", help="How it saves time where it comes from.")] = "",
    tpu_translation: Annotated[str, typer.Option(metavar="TEXT", help="What it becomes on a TPU.")] = "",
    reference: Annotated[str, typer.Option(metavar="FILE", help="The reference that it comes from.")] = "",
    as_json: options.JsonOption = False,
) -> None:
    """Put an idea into the ledger."""
    from hawkeye_mcp.runs import ideas
    from hawkeye_mcp.runs.idea import Proposal

    run = runs.find(folder)

    def ask() -> "Idea":
        proposal = Proposal(
            claim=claim,
            evidence=evidence,
            kind=cast("Kind", kind),
            mechanism=mechanism,
            tpu_translation=tpu_translation,
            falsifiable_as=falsifiable_as,
            reference=reference or None,
        )
        return ideas.propose(run, proposal)

    _told(_ask(ask), as_json)


def _act(folder: Path, idea: str, action: "Action", reason: str, evaluation: str | None, as_json: bool) -> None:
    from hawkeye_mcp.runs import ideas

    run = runs.find(folder)
    _told(_ask(lambda: ideas.act(run, idea, action, reason=reason, evaluation_id=evaluation)), as_json)


@app.command("adopt")
def adopt(
    folder: runs.FolderArgument, idea: IdeaArgument, reason: ReasonOption = "", as_json: options.JsonOption = False
) -> None:
    """Say that an idea is being built now."""
    _act(folder, idea, "adopt", reason, None, as_json)


@app.command("confirm")
def confirm(
    folder: runs.FolderArgument,
    idea: IdeaArgument,
    evaluation: EvaluationOption,
    reason: ReasonOption = "",
    as_json: options.JsonOption = False,
) -> None:
    """Say that an evaluation of this run shows an adopted idea to be right."""
    _act(folder, idea, "confirm", reason, evaluation, as_json)


@app.command("refute")
def refute(
    folder: runs.FolderArgument,
    idea: IdeaArgument,
    evaluation: EvaluationOption,
    reason: ReasonOption = "",
    as_json: options.JsonOption = False,
) -> None:
    """Say that an evaluation of this run shows an adopted idea to be wrong; it cannot come back."""
    _act(folder, idea, "refute", reason, evaluation, as_json)


@app.command("drop")
def drop(
    folder: runs.FolderArgument, idea: IdeaArgument, reason: ReasonOption, as_json: options.JsonOption = False
) -> None:
    """Give an idea up without a verdict; say why."""
    _act(folder, idea, "drop", reason, None, as_json)


def _trust(value: str) -> str:
    from hawkeye_mcp.runs.idea import TRUSTS

    return options.one_of(value, TRUSTS)


@app.command("trust")
def trust(
    folder: runs.FolderArgument,
    reference: Annotated[str, typer.Argument(metavar="FILE", help="The reference.")],
    verdict: Annotated[
        str,
        typer.Argument(metavar="TRUST", callback=_trust, help="aligned, partial, divergent or rejected."),
    ],
    reason: ReasonOption,
    as_json: options.JsonOption = False,
) -> None:
    """Say how far a reference computes what the workload does; nothing from a rejected one can be adopted."""
    from hawkeye_mcp.runs import ideas

    run = runs.find(folder)

    def ask() -> "State":
        return ideas.trust(run, reference, cast("Trust", verdict), reason)

    state = _ask(ask)
    if as_json:
        running.print_json(state.model_dump(mode="json")["reference_trust"][-1])
    else:
        typer.echo(f"{reference}: {verdict}")
