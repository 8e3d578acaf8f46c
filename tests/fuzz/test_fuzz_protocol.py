"""Lines that come from other processes: the sandbox beside a candidate, workers, an agent's program, a model's endpoint."""

import base64
import json
from typing import Any

import anyio
import pytest
from fuzzing import EXAMPLES, attempted, fuzz
from hawkeye_bench.agents import AgentUnavailable, event_lines, minimal
from hypothesis import strategies as st
from mutating import DEEP, json_bytes, mutated, mutated_json

from hawkeye_mcp.candidate import sandbox
from hawkeye_mcp.judge import workers
from hawkeye_mcp.judge.verdict import SandboxReply
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerUnavailable
from hawkeye_mcp.sanitizer import replies as sanitizing

SIZES = ("full", "check")
ARTIFACT = base64.b64encode(b"no artifact").decode()
TRACED = {
    "artifacts": {"full": {"tpu": ARTIFACT, "cpu": ""}, "check": {"tpu": ARTIFACT, "cpu": ARTIFACT}},
    "failures": {},
}
FAILED = {
    "artifacts": {},
    "failures": {
        "full": {
            "stage": "lower",
            "type": "ValueError",
            "text": "block shape\n(8, 100)",
            "where": ["line 3, in workload: x"],
        },
        "check": {"stage": "interpret", "type": "E", "text": "", "where": []},
    },
}
BROKEN = {
    "failed": {"stage": "import", "type": "SyntaxError", "text": "SyntaxError: expected ':'", "where": ["line 3"]}
}
SANITIZED = {
    "findings": [
        {"kind": "out_of_bounds", "line": 3, "message": "reads past x"},
        {"kind": "race", "line": None, "message": ""},
    ],
    "ran": ["static", "dma", "races"],
    "not_checked": [{"check": "seeds", "reason": "one grid step"}],
    "seconds": {"static": 0.1, "one_core": 3},
    "nan": [0, 2],
}


def replied(line: bytes) -> None:
    found = sandbox._parsed(line)
    if found is None:
        return
    json.dumps(found).encode()
    reply = SandboxReply(found, SIZES)
    assert set(reply.artifacts) <= set(SIZES)
    for failure in filter(None, (*reply.failures.values(), reply.failed)):
        verdict = failure.verdict("The file cannot be loaded")
        assert verdict.status in ("trace_error", "compile_error")
        assert len(verdict.message) < 30_000
        assert verdict.next_step
        str(verdict).encode()


def watched(line: bytes) -> None:
    found = sandbox._parsed(line)
    if found is None:
        return
    seen = sanitizing.Seen()
    sanitizing.take(found, "a\nb\nc\n", ["static", "one_core"], seen, "v5e")
    sanitizing.compare(seen, "v5p")
    assert len(seen.findings) <= 51
    assert all(finding.line is None or 1 <= finding.line <= 4 for finding in seen.findings)
    for finding in seen.findings:
        finding.model_dump_json()
    status, message, _ = sanitizing.outcome(seen)
    assert status in ("failed", "findings", "silent")
    assert message.isprintable()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_reply_of_a_sandbox_is_taken_apart_or_refused(examples):
    fuzz(json_bytes([TRACED, FAILED, BROKEN]), replied, examples)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_what_a_watched_kernel_says_of_itself_is_bounded(examples):
    fuzz(json_bytes([SANITIZED, BROKEN]), watched, examples)


class _Process:
    """A worker's process that has said all that it will say."""

    returncode = 0

    def __init__(self, said: bytes) -> None:
        self.stdin, self.stdout = _Sink(), _Said(said)

    async def wait(self) -> int:
        return 0


class _Sink:
    async def send(self, data: bytes) -> None:
        pass


class _Said:
    def __init__(self, said: bytes) -> None:
        self._left = [said[at : at + 100] for at in range(0, len(said), 100)]

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._left:
            raise anyio.EndOfStream
        return self._left.pop(0)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Ask a worker that answers with these bytes."""
    monkeypatch.setattr(workers, "REPLY_BYTES", 4_000)
    (tmp_path / "stderr").write_bytes(b"Check failed: \xff\n")

    async def ask(said: bytes) -> Any:
        return await Worker(_Process(said), tmp_path).call("audit", {}, 5)

    def feed(said: bytes) -> None:
        found = attempted(lambda: anyio.run(ask, said), (WorkerDied, WorkerError, WorkerUnavailable))
        assert isinstance(found, dict | Exception)

    return feed


REPLY = b"ready\n" + json.dumps({"result": {"audit": {"ok": True}, "sha256": "a" * 64}}).encode() + b"\n"
RAISED = b"ready\n" + json.dumps({"error": {"type": "ValueError", "text": "x", "traceback": "y"}}).encode() + b"\n"


@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_worker_that_loses_its_way_is_one_that_died(asked, examples):
    documents = json_bytes([json.loads(REPLY[6:]), json.loads(RAISED[6:])])
    fuzz(st.one_of(mutated([REPLY, RAISED]), documents.map(lambda line: b"ready\n" + line + b"\n")), asked, examples)


@pytest.mark.parametrize(
    "reply", [b"[1]", b"null", b'{"result": []}', b"{}", b'{"error": "x"}', b"x" * 5_000, b"[" * 99_999]
)
def test_what_is_no_reply_is_a_worker_that_died(tmp_path, monkeypatch, reply):
    monkeypatch.setattr(workers, "REPLY_BYTES", 100_000)

    async def ask() -> None:
        await Worker(_Process(b"ready\n" + reply + b"\n"), tmp_path).call("audit", {}, 5)

    with pytest.raises(WorkerDied, match="audit: what the worker answered is no reply"):
        anyio.run(ask)


EVENTS = [
    {"kind": "client", "name": "a", "version": "1"},
    {
        "kind": "model",
        "prompt_tokens": 812,
        "completion_tokens": 90,
        "cost_usd": 0.004,
        "message": {"role": "assistant"},
    },
    {"kind": "tool_call", "tool": "evaluate_kernel", "arguments": {"path": "kernel.py"}},
    {"kind": "tool_result", "tool": "evaluate_kernel", "is_error": False, "text": "..."},
    {"kind": "edit", "path": "kernel.py"},
    {"kind": "stop", "reason": "finished"},
]


def told(line: bytes) -> None:
    found = event_lines.read(line.decode("utf-8", "replace"))
    assert isinstance(found, event_lines.Line)
    if isinstance(found, event_lines.ModelLine):
        assert all(
            value is None or value >= 0 for value in (found.prompt_tokens, found.completion_tokens, found.cost_usd)
        )


@pytest.mark.parametrize("examples", EXAMPLES)
def test_whatever_an_agents_program_prints_is_at_least_a_note(examples):
    fuzz(json_bytes(EVENTS), told, examples)


ANSWER = {
    "id": "1",
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "evaluate_kernel", "arguments": '{"source": "x"}'},
                    }
                ],
            }
        }
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}


class _Session:
    """Carries out nothing."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        json.dumps(arguments, ensure_ascii=False).encode()
        return event_lines.ToolResultLine(kind="tool_result", tool=str(name))


def answered(data: bytes) -> None:
    """As MinimalAgent.run takes an answer."""
    try:
        message, usage = minimal._read(minimal._json_object(data.decode("utf-8", "replace")))
    except AgentUnavailable:
        return
    # what goes back to the endpoint, as its client writes it
    json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    assert all(0 <= tokens < 1e15 for tokens in usage.values())
    for call in message.get("tool_calls") or []:
        call.get("id", "")
        assert isinstance(anyio.run(minimal._carry_out, _Session(), call["function"]), str)


@pytest.mark.parametrize("examples", EXAMPLES)
def test_an_answer_of_a_models_endpoint_is_used_or_the_endpoint_is_unavailable(examples):
    message = ANSWER["choices"][0]["message"]
    unlike = [
        ANSWER | {"usage": []},
        ANSWER | {"usage": {"prompt_tokens": True, "completion_tokens": -1}},
        *(
            {"choices": [{"message": message | {"tool_calls": calls}}]}
            for calls in ("x", [1], [{}], [{"function": None}])
        ),
        *(
            {"choices": [{"message": message | {"tool_calls": [{"function": each}]}}]}
            for each in ({"name": []}, {"arguments": 5})
        ),
        *({"choices": [{"message": {"content": content}}]} for content in (float("nan"), float("inf"), "\ud800", {})),
    ]
    fuzz(json_bytes([ANSWER]), answered, examples, [json.dumps(each).encode() for each in unlike] + [b"[" * DEEP])


@pytest.mark.parametrize("examples", EXAMPLES)
def test_arguments_that_no_message_can_hold_are_answered_with_what_is_wrong(examples):
    texts = st.one_of(
        mutated_json([{"source": "x", "wait_s": 1}]).map(json.dumps), mutated([b'{"source": "x"}']).map(str)
    )

    def carried(arguments: str) -> None:
        said = anyio.run(minimal._carry_out, _Session(), {"name": "evaluate_kernel", "arguments": arguments})
        assert isinstance(said, str)

    fuzz(texts, carried, examples, ["[" * DEEP, '{"source": "\\ud800"}', "9" * 5_000, "NaN", ""])
