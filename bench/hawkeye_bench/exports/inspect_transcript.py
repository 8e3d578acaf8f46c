"""A run's transcript as the messages and events of a log of Inspect."""

import json
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from hawkeye_mcp import calllog

Json = dict[str, Any]


@dataclass
class Transcript:
    """prompt: what the agent was told; empty where the transcript does not have it."""

    prompt: str = ""
    messages: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)


def read(path: Path, started: str) -> Transcript:
    """started: when the run began, ISO 8601; a line cut off by a crash is left out, and so is one without a time."""
    found = Transcript()
    # A result names its tool but not its call, so results answer the calls of a tool in order.
    open_calls: dict[str, deque[Json]] = {}
    for line in _lines(path):
        kind, time = line.pop("kind"), line.pop("time")
        event = {"timestamp": time, "working_start": max(0.0, _seconds(started, time))}
        if kind == "note" and "prompt" in line:
            found.prompt = str(line["prompt"])
            found.messages.append({"role": "user", "content": found.prompt})
        elif kind == "tool_call":
            call = _call(len(found.events) + 1, line) | event
            found.events.append(call)
            open_calls.setdefault(call["function"], deque()).append(call)
        elif kind == "tool_result":
            waiting = open_calls.get(str(line.get("tool")))
            _answer(waiting.popleft() if waiting else None, line, time, found)
        else:
            if kind == "model" and (message := line.pop("message", None)):
                found.messages.append(_assistant(message))
            found.events.append({"event": "info", "source": kind, "data": line} | event)
    return found


def _call(number: int, line: Json) -> Json:
    arguments = line.get("arguments")
    return {
        "event": "tool",
        "id": f"call-{number}",
        "function": str(line.get("tool")),
        "arguments": arguments if isinstance(arguments, dict) else {"arguments": arguments},
        "metadata": {"answered": False},
    }


def _answer(call: Json | None, line: Json, time: str, found: Transcript) -> None:
    text = str(line.get("text") or "")
    error = {"type": "unknown", "message": text} if line.get("is_error") else None
    if call:
        call |= {"result": text, "error": error, "completed": time, "metadata": {"answered": True}}
    found.messages.append({"role": "tool", "content": text, "function": str(line.get("tool")), "error": error})


def _assistant(message: Any) -> Json:
    """What the model said, in the forms that clients give it: a text, or the message of a chat API."""
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        content = "\n".join(str(block["text"]) for block in content if isinstance(block, dict) and "text" in block)
    text = content if isinstance(content, str) else json.dumps(content)
    return {"role": "assistant", "content": "" if content is None else text}


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _lines(path: Path) -> list[Json]:
    lines = calllog.objects(path.read_bytes()) if path.exists() else []
    return [line for line in lines if isinstance(line.get("time"), str) and isinstance(line.get("kind"), str)]
