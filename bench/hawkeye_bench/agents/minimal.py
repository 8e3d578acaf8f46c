"""The minimal agent: a loop between a model behind any OpenAI-compatible endpoint and the MCP server's
tools.
"""

import json
import os
from typing import Any

import anyio
import httpx2

from hawkeye_bench.agents import AgentFailed, AgentMisconfigured, AgentUnavailable, Emit, Stop, Task
from hawkeye_bench.agents.session import CLIENT, Session, connect

_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_MODEL_TIMEOUT_S = 600.0
_MOST_TOKENS = 10**12


class MinimalAgent:
    """Calls POST {base_url}/chat/completions with the server's tools until the model asks for none.

    api_key_env: name of the environment variable with the key, empty for none. The key is read when a run
    starts and goes only into the request's header. retry_delays_s: pauses before each further try of a failed
    request.
    """

    name = "minimal"
    files = False

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key_env: str = "",
        retry_delays_s: tuple[float, ...] = (1, 2, 4, 8, 16, 30, 60),
    ) -> None:
        self.model = model
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._api_key_env = api_key_env
        self._retry_delays_s = retry_delays_s

    async def run(self, task: Task, emit: Emit) -> Stop:
        async with connect(task, emit) as session, httpx2.AsyncClient(timeout=_MODEL_TIMEOUT_S) as http:
            tools = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.input_schema},
                }
                for t in session.tools.values()
            ]
            emit("client", {"name": CLIENT.name, "version": CLIENT.version})
            messages: list[dict[str, Any]] = [{"role": "user", "content": task.prompt}]
            for turn in range(task.budget.turns):
                body = {"model": self.model, "messages": messages, "tools": tools}
                message, usage = _read(await self._ask(http, body, first=turn == 0))
                emit("model", {"turn": turn + 1, "message": message, **usage})
                messages.append(message)
                calls = message.get("tool_calls") or []
                if not calls:
                    return "finished"
                for call in calls:
                    content = await _carry_out(session, call["function"])
                    messages.append({"role": "tool", "tool_call_id": call.get("id", ""), "content": content})
        return "turn_limit"

    async def _ask(self, http: httpx2.AsyncClient, body: dict[str, Any], *, first: bool) -> dict[str, Any]:
        """One model call, repeated while the endpoint is only busy or away.

        Raises:
            AgentUnavailable: it stays so.
            AgentMisconfigured: it refuses the key, or the run's very first request.
            AgentFailed: it refuses a later request, for example because the conversation has become too long.
        """
        key = os.environ.get(self._api_key_env, "") if self._api_key_env else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}

        def safe(text: str) -> str:
            """Without the key, which an endpoint may repeat: everything below is kept or sent on."""
            return text.replace(key, f"[{self._api_key_env}]") if key else text

        problem = ""
        for delay_s in (0.0, *self._retry_delays_s):
            await anyio.sleep(delay_s)
            try:
                response = await http.post(self._url, json=body, headers=headers)
            except httpx2.TransportError as error:
                problem = safe(f"{type(error).__name__}: {error}")
                continue
            if response.status_code == 200:
                return _json_object(safe(response.text))
            problem = f"HTTP {response.status_code}: {safe(response.text)[:500]}"
            if response.status_code not in _RETRIED:
                break
        else:
            raise AgentUnavailable(f"the model endpoint {self._url} failed: {problem}")
        if first or response.status_code in (401, 403, 404):
            raise AgentMisconfigured(f"the model endpoint {self._url} refused the request: {problem}")
        raise AgentFailed(f"the model endpoint refused a request: {problem}")


def _json_object(text: str) -> dict[str, Any]:
    try:
        # halves of surrogate pairs and numbers that are none: nothing that comes after could send or keep them
        whole = json.dumps(json.loads(text), ensure_ascii=False, allow_nan=False)
        found = json.loads(whole.encode("utf-8", "replace"))
    except (RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise AgentUnavailable(f"the model endpoint's answer is no JSON object: {text[:200]}")
    return found


def _read(answer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The assistant's message, with only the fields that may be sent back, and the tokens it cost."""
    try:
        found = answer["choices"][0]["message"]
        message: dict[str, Any] = {"role": "assistant", "content": found.get("content") or ""}
    except (KeyError, IndexError, TypeError, AttributeError):
        raise AgentUnavailable(f"the model endpoint's answer has no message: {str(answer)[:200]}") from None
    if calls := found.get("tool_calls"):
        if not _are_calls(calls):
            raise AgentUnavailable(f"the model endpoint's answer has no proper tool calls: {str(calls)[:200]}")
        message["tool_calls"] = calls
    usage = answer.get("usage")
    names = ("prompt_tokens", "completion_tokens")
    tokens = {name: usage.get(name) for name in names} if isinstance(usage, dict) else {}
    return message, {name: used for name, used in tokens.items() if type(used) is int and 0 <= used <= _MOST_TOKENS}


def _are_calls(calls: Any) -> bool:
    """Whether each names a tool and gives its arguments as a text; what is in the text is the model's affair."""
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return False
    functions = [call.get("function") for call in calls]
    return all(
        isinstance(each, dict)
        and isinstance(each.get("name", ""), str)
        and isinstance(each.get("arguments") or "", str)
        for each in functions
    )


async def _carry_out(session: Session, function: dict[str, Any]) -> str:
    """The text that answers one tool call; a malformed call is answered with what is wrong with it."""
    name = function.get("name", "")
    try:
        arguments = json.loads(function.get("arguments") or "{}")
        json.dumps(arguments, ensure_ascii=False).encode("utf-8")
    except (RecursionError, ValueError) as error:
        return f"The arguments of {name} are no JSON: {error}. Repeat the call with a JSON object."
    if not isinstance(arguments, dict):
        return f"The arguments of {name} must be a JSON object."
    return (await session.call(name, arguments)).text
