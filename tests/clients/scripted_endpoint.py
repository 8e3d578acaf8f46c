"""A model endpoint on loopback that plays a script to real clients. What it produces is no agent's result.

It speaks Anthropic Messages (/v1/messages), OpenAI Responses (/v1/responses) and Chat Completions
(/v1/chat/completions), streamed or not, so that the adapters of clients are tested against the clients themselves. A
script says what is next from what the request holds, and from nothing else, so a repeated request gets the same answer.
Each answer says that it cost PROMPT_TOKENS and COMPLETION_TOKENS, and its text repeats the key it was asked with, as a
careless endpoint would: a transcript must not keep it.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROMPT_TOKENS, COMPLETION_TOKENS = 100, 7


@dataclass(frozen=True)
class Tool:
    """One tool that the client offers. free: its input is a text, not JSON. namespace: of Codex, else empty. program:
    it is called by a line of a program that another tool, of this name, runs.
    """

    name: str
    free: bool = False
    namespace: str = ""
    program: str = ""


@dataclass(frozen=True)
class Seen:
    """A request. results: the texts of all tool results so far, oldest first. text: all else that the model is told."""

    tools: list[Tool]
    results: list[str]
    text: str

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, whatever the client has put before it."""
        return next((tool for tool in self.tools if tool.name == name or tool.name.endswith(f"_{name}")), None)


@dataclass(frozen=True)
class Reply:
    """What the model says, and the tool that it calls, if any; by its own name, without a client's prefix."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] | str = field(default_factory=dict)


Script = Callable[[Seen], Reply | int]
"""Says what is next; a number is an HTTP status to refuse the request with."""


@dataclass
class Endpoint:
    """root: for clients that append /v1 themselves. requests, keys: each request's body and the key it came with."""

    root: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    """Serve the script. A request that offers no tools (for a title, say) is answered with one word."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, "application/json", json.dumps({"object": "list", "data": []}))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers.get("X-Api-Key") or self.headers.get("Authorization", "").removeprefix("Bearer ")
            path = self.path.partition("?")[0]
            if path == "/v1/messages/count_tokens":
                return self._send(200, "application/json", json.dumps({"input_tokens": PROMPT_TOKENS}))
            if path not in _DIALECTS:
                return self._send(404, "application/json", _error(f"no {path}"))
            endpoint.requests.append(body)
            endpoint.keys.append(key)
            read, answer = _DIALECTS[path]
            seen = read(body)
            reply = script(seen) if seen.tools else Reply("Yes")
            if isinstance(reply, int):
                return self._send(reply, "application/json", _error(f"as the script says to {key}"))
            tool = seen.tool(reply.tool) if reply.tool else None
            if reply.tool and not tool:
                problem = f"the script calls {reply.tool}, but the tools are {[offered.name for offered in seen.tools]}"
                return self._send(400, "application/json", _error(problem))
            said = Reply(f"{reply.text} ({key})", reply.tool, reply.arguments)
            number = len(endpoint.requests)
            if body.get("stream"):
                return self._send(200, "text/event-stream", answer(said, tool, number, True))
            return self._send(200, "application/json", answer(said, tool, number, False))

        def _send(self, status: int, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint.root = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _error(message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def _text(content: Any) -> str:
    """All texts of a message's content, in any of the dialects."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_text, content))
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or content.get("output") or "")
    return ""


def _sse(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


# --- Anthropic Messages


def _read_messages(body: dict[str, Any]) -> Seen:
    blocks = [
        block
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else [message["content"]])
    ]
    results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
    others = [block for block in blocks if block not in results]
    return Seen(
        tools=[Tool(tool["name"]) for tool in body.get("tools", [])],
        results=[_text(result.get("content")) for result in results],
        text=_text([body.get("system", ""), *others]),
    )


def _answer_messages(reply: Reply, tool: Tool | None, number: int, stream: bool) -> str:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
    if tool:
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": tool.name, "input": reply.arguments})
    stop = "tool_use" if tool else "end_turn"
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": COMPLETION_TOKENS}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    if not stream:
        return json.dumps(message)
    begun = message | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": stop, "stop_sequence": None}
    return _sse([*events, {"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}])


# --- OpenAI Responses


def _read_responses(body: dict[str, Any]) -> Seen:
    items = body["input"] if isinstance(body["input"], list) else [body["input"]]
    results = [i for i in items if isinstance(i, dict) and str(i.get("type", "")).endswith("_call_output")]
    more = [i for i in items if isinstance(i, dict) and i.get("type") == "additional_tools"]
    others = [item for item in items if item not in results + more]
    offered = [*body.get("tools", []), *(tool for item in more for tool in item["tools"])]
    return Seen(
        tools=[tool for found in offered for tool in _tools_of_responses(found)],
        results=[_text(result.get("output")) for result in results],
        text=_text([body.get("instructions") or "", *others]),
    )


def _tools_of_responses(found: dict[str, Any], namespace: str = "") -> list[Tool]:
    if found["type"] == "namespace":
        return [tool for inner in found["tools"] for tool in _tools_of_responses(inner, found["name"])]
    if found.get("name") == "exec":  # its description has a heading for each tool that a program can call
        nested = re.findall(r"^### `(\w+)`", found["description"], re.MULTILINE)
        return [Tool(name, namespace=namespace, program="exec") for name in nested]
    return [Tool(found["name"], found["type"] == "custom", namespace)] if "name" in found else []


def _answer_responses(reply: Reply, tool: Tool | None, number: int, stream: bool) -> str:
    said = {"type": "output_text", "text": reply.text, "annotations": []}
    output: list[dict[str, Any]] = [
        {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [said]}
    ]
    if tool:
        call: dict[str, Any] = {"type": "function_call", "name": tool.name, "arguments": json.dumps(reply.arguments)}
        if tool.program:
            line = f"text(await tools.{tool.name}({json.dumps(reply.arguments)}));"
            call = {"type": "custom_tool_call", "name": tool.program, "input": line}
        elif tool.free:
            call = {"type": "custom_tool_call", "name": tool.name, "input": reply.arguments}
        if tool.namespace:
            call["namespace"] = tool.namespace
        output.append(call | {"id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"})
    response = {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "model": "scripted",
        "output": output,
        "usage": {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": COMPLETION_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }
    if not stream:
        return json.dumps(response)
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return _sse([*events, {"type": "response.completed", "response": response}])


# --- OpenAI Chat Completions


def _read_chat(body: dict[str, Any]) -> Seen:
    results = [message for message in body["messages"] if message["role"] == "tool"]
    others = [message for message in body["messages"] if message["role"] != "tool"]
    return Seen(
        tools=[Tool(tool["function"]["name"]) for tool in body.get("tools") or []],
        results=[_text(result.get("content")) for result in results],
        text=_text(others),
    )


def _answer_chat(reply: Reply, tool: Tool | None, number: int, stream: bool) -> str:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if tool:
        function = {"name": tool.name, "arguments": json.dumps(reply.arguments)}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    stop = "tool_calls" if tool else "stop"
    usage = {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": COMPLETION_TOKENS,
        "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
    }
    answer = {"id": f"chatcmpl-{number}", "created": 0, "model": "scripted"}
    if not stream:
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return json.dumps(answer | {"object": "chat.completion", "choices": [choice], "usage": usage})
    chunk = answer | {"object": "chat.completion.chunk"}
    chunks = [
        chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
        chunk | {"choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(part)}\n\n" for part in chunks) + "data: [DONE]\n\n"


_DIALECTS: dict[str, tuple[Callable[[dict[str, Any]], Seen], Callable[[Reply, Tool | None, int, bool], str]]] = {
    "/v1/messages": (_read_messages, _answer_messages),
    "/v1/responses": (_read_responses, _answer_responses),
    "/v1/chat/completions": (_read_chat, _answer_chat),
}
