"""What Codex is told of a model: the client's own entry for it, with the tools of a run and no others."""

import json
from typing import Any

from hawkeye_bench.agents import AgentMisconfigured

# No search stands before the server's tools, no other agents, and the tool that writes files is there without a shell.
_TOOLS: dict[str, Any] = {
    "apply_patch_tool_type": "freeform",
    "experimental_supported_tools": [],
    "multi_agent_version": None,
    "supports_search_tool": False,
}
# What the endpoint of a model that Codex does not know may not understand.
_UNKNOWN: dict[str, Any] = {
    "additional_speed_tiers": [],
    "default_reasoning_level": None,
    "input_modalities": ["text"],
    "service_tiers": [],
    "support_verbosity": False,
    "supported_reasoning_levels": [],
    "upgrade": None,
}


def catalog(told: str, model: str) -> str:
    """The text of a model_catalog_json that holds the one model.

    told: what `codex debug models --bundled` prints. A model that is not in it gets the instructions of the first that
    calls its tools one by one, as any model can; newer ones write programs that call them.

    Raises:
        AgentMisconfigured: it is no such list, so this version of Codex is not known here.
    """
    try:
        entries = [dict(entry) for entry in json.loads(told)["models"]]
        entry = next((entry for entry in entries if entry["slug"] == model), None)
        if entry is None:
            plain = next(entry for entry in entries if entry.get("tool_mode") is None)
            entry = plain | _UNKNOWN | {"slug": model, "display_name": model}
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise AgentMisconfigured(
            f"`codex debug models` told no list of models ({type(error).__name__}: {error}); take another version."
        ) from error
    return json.dumps({"models": [entry | _TOOLS]}, indent=1)
