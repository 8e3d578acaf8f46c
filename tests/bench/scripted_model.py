"""An OpenAI-compatible endpoint on loopback that plays a fixed script. What it produces is no agent's result.

Each step is a function from the conversation so far to the assistant's message, or an HTTP status to answer
with. Every answer repeats the request's Authorization header, as a careless endpoint would.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = int | Callable[[list[dict[str, Any]]], dict[str, Any]]


@dataclass
class Endpoint:
    """requests: the bodies received; authorization: the header of each."""

    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    authorization: list[str | None] = field(default_factory=list)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """An assistant message that calls one tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "call-1", "type": "function", "function": function}]}


def say(text: str) -> dict[str, Any]:
    return {"content": text}


@contextmanager
def serving(steps: list[Step]) -> Iterator[Endpoint]:
    """Serve the script; each request takes one step, and a request beyond the last one is answered with
    500.
    """
    endpoint = Endpoint()
    waiting = list(steps)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.requests.append(body)
            endpoint.authorization.append(self.headers.get("Authorization"))
            step = waiting.pop(0) if waiting else 500
            status = step if isinstance(step, int) else 200
            answer: dict[str, Any] = {"error": f"as the script says to {self.headers.get('Authorization')}"}
            if not isinstance(step, int):
                message = {"role": "assistant", **step(body["messages"])}
                message["content"] = f"{message['content']} {self.headers.get('Authorization')}"
                usage = {"prompt_tokens": 100, "completion_tokens": 7}
                answer = {"choices": [{"message": message}], "usage": usage}
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
