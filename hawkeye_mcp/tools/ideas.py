"""The ideas tool: the ledger of the server's run, one action a call."""

import json
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from hawkeye_mcp import calllog
from hawkeye_mcp.runs import ideas as ledger
from hawkeye_mcp.runs import store
from hawkeye_mcp.runs.idea import Idea, LedgerError, Proposal, legal
from hawkeye_mcp.submissions import Settings
from hawkeye_mcp.tools import arguments
from hawkeye_mcp.tools.reports import LARGEST_BYTES

DESCRIPTION = (
    "The ledger of ideas of this run: propose one before you build it, adopt it when you do, then confirm or refute it by "
    "the id of an evaluation; drop what will not be tried. A refuted idea does not come back. action list (default) shows "
    "all; trust says how far a reference computes what the workload does: nothing from a rejected one can be adopted."
)


def build(settings: Settings) -> arguments.FlatTool:
    assert settings.run is not None
    folder = settings.run

    async def ideas(
        action: Annotated[
            Literal["list", "propose", "adopt", "confirm", "refute", "drop", "trust"],
            Field(description="list (default), propose, adopt, confirm, refute, drop or trust."),
        ] = "list",
        idea: Annotated[str, Field(description="For adopt, confirm, refute, drop: its id.")] = "",
        evaluation_id: Annotated[str, Field(description="For confirm and refute: the evaluation that shows it.")] = "",
        reason: Annotated[str, Field(description="For drop and trust: why.")] = "",
        claim: Annotated[str, Field(description="For propose: one statement that can be wrong.")] = "",
        evidence: Annotated[str, Field(description="For propose: file and line, or finding, that suggests it.")] = "",
        kind: Annotated[
            Literal["", "ALGORITHMIC", "STRUCTURAL", "NON_PORTABLE"], Field(description="For propose: its class.")
        ] = "",
        mechanism: Annotated[str, Field(description="For propose: how it saves time where it comes from.")] = "",
        tpu_translation: Annotated[str, Field(description="For propose: what it becomes on a TPU.")] = "",
        falsifiable_as: Annotated[str, Field(description="For propose: the result that would refute it.")] = "",
        reference: Annotated[str, Field(description="For propose and trust: the reference's file.")] = "",
        trust: Annotated[
            Literal["", "aligned", "partial", "divergent", "rejected"], Field(description="For trust: how far.")
        ] = "",
    ) -> CallToolResult:
        def work() -> dict[str, Any]:
            run = store.find(folder)
            if action == "list":
                return listing(run)
            if action == "trust":
                if not trust:
                    raise LedgerError("trust is one of aligned, partial, divergent, rejected.")
                ledger.trust(run, reference, trust, reason)
                return {
                    "reference": reference,
                    "trust": trust,
                    "next_step": "Ideas from it are judged by this from now on.",
                }
            if action == "propose":
                if not kind:
                    raise LedgerError("kind is one of ALGORITHMIC, STRUCTURAL, NON_PORTABLE.")
                proposal = Proposal(
                    claim=claim,
                    evidence=evidence,
                    kind=kind,
                    mechanism=mechanism,
                    tpu_translation=tpu_translation,
                    falsifiable_as=falsifiable_as,
                    reference=reference or None,
                )
                return told(ledger.propose(run, proposal))
            return told(ledger.act(run, idea, action, reason=reason, evaluation_id=evaluation_id or None))

        found = await answered(work)
        calllog.note(idea_action=action, idea=found.get("idea", {}).get("id"))
        return result(found)

    return arguments.flat_tool(
        ideas,
        title="Ideas ledger",
        description=DESCRIPTION,
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        ),
    )


async def answered(work: Any) -> Any:
    """What `work` returns from a thread; what a run or its ledger refuses becomes words for the client."""
    try:
        return await run_sync(work)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise ToolError(f"{wrong}. Correct the call.") from None
    except (LedgerError, store.RunError) as error:
        raise ToolError(str(error)) from None
    except OSError as error:
        raise ToolError(
            f"The run's folder cannot be used ({error.strerror}). Tell the operator of this server; nothing was changed."
        ) from None


def told(idea: Idea) -> dict[str, Any]:
    """One idea and what may be done with it."""
    possible = legal(idea)
    return {
        "idea": idea.model_dump(mode="json"),
        "legal": possible,
        "next_step": f"Legal for it now: {', '.join(possible)}." if possible else "It is final.",
    }


def listing(run: store.Run) -> dict[str, Any]:
    """Every idea in short, and the whole of those that are open, as far as there is room."""
    state = store.read(run)
    short = [
        {"id": i.id, "class": i.kind, "status": i.status, "legal": legal(i), "claim": i.claim} for i in state.ideas
    ]
    return {
        "ideas": short,
        "reference_trust": [one.model_dump(mode="json") for one in state.reference_trust],
        "next_step": "Adopt one, build it, evaluate it, then confirm or refute it." if short else "Propose one.",
    }


def result(found: dict[str, Any]) -> CallToolResult:
    """The same JSON in both channels, cut where it does not fit: `truncated` says so."""
    fitted, limit = found, 1_000
    while len(text := json.dumps(fitted, ensure_ascii=True)) > LARGEST_BYTES and limit:
        fitted = {**_cut(found, limit), "truncated": True}
        limit //= 2
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=json.loads(text))


def _cut(value: Any, limit: int) -> Any:
    """No text longer than `limit` characters, of each list the latest limit / 20 entries."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]} [...]"
    if isinstance(value, list):
        return [_cut(item, limit) for item in value[-max(1, limit // 20) :]]
    if isinstance(value, dict):
        return {name: _cut(item, limit) for name, item in value.items()}
    return value
