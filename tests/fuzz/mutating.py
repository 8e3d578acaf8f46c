"""What is almost right: real samples with a few things changed, as bytes and as JSON."""

import copy
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

DEEP = 100_000  # levels of nesting, past every recursion limit

# What parsers stumble over: other kinds, numbers past every range, text that is no text, nesting past the stack.
NASTY_BYTES = [
    *(
        b"",
        b"\n",
        b"\r\n",
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'"',
        b"'",
        b"\\",
        b"\\ud800",
        b"#",
        b"=",
        b",",
        b": ",
        b"%",
    ),
    *(b"-1", b"0", b"1", b"0x", b"1e999", b"NaN", b"null", b"true", b"{}", b"[]", b"{", b"}", b"[", b"]", b"(", b")"),
    *(b"9" * 30, b"9" * 5_000, b"x" * 5_000, b"[" * DEEP, b'{"a":' * DEEP, b"(" * 2_000, b"\x1b[2J"),
]
NASTY_JSON: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, 10**400, -0.0, 1e308, float("nan"), float("inf"), "", "x", "\0", "\ud800"),
    *([], {}, [[]], [None], {"": None}, {"a": {"a": {}}}, ["x"], "8p_GEMM", "../..", "x" * 5_000, "\x1b[2J", "1e999"),
]


@st.composite
def mutated(draw: st.DrawFn, samples: Sequence[bytes], most: int = 6) -> bytes:
    """One of the samples after up to `most` changes."""
    data = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, len(data)))
        last = min(len(data), first + draw(st.sampled_from([0, 1, 2, 8, 40, 400])))
        kind = draw(st.sampled_from(["drop", "nasty", "bytes", "repeat", "splice", "cut", "number", "number"]))
        if kind == "drop":
            put = b""
        elif kind == "nasty":
            put = draw(st.sampled_from(NASTY_BYTES))
        elif kind == "bytes":
            put = draw(st.binary(max_size=8))
        elif kind == "repeat":
            put = data[first:last] * draw(st.sampled_from([2, 3, 30]))
        elif kind == "splice":
            other = draw(st.sampled_from(samples))
            begin = draw(st.integers(0, len(other)))
            put = other[begin : begin + 200]
        elif kind == "number":  # the first number at or after the place
            digits = [at for at in range(first, min(len(data), first + 200)) if data[at : at + 1].isdigit()]
            first = digits[0] if digits else first
            last = next((at for at in range(first, len(data)) if not data[at : at + 1].isdigit()), len(data))
            put = draw(st.sampled_from([b"0", b"1", b"-3", b"7777777", b"9" * 30, b"9" * 5_000, b"1.5", b""]))
        else:
            put, last = b"", len(data)
        data = data[:first] + put + data[last:]
    return data


@st.composite
def mutated_json(draw: st.DrawFn, samples: Sequence[Any], most: int = 3) -> Any:
    """One of the samples with up to `most` of its values, at any depth, replaced, left out, renamed or doubled."""
    value = copy.deepcopy(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, most))):
        inner = _places(value)
        if not inner:
            return draw(st.sampled_from(NASTY_JSON))
        parent, key = draw(st.sampled_from(inner))
        kind = draw(st.sampled_from(["nasty", "nasty", "drop", "other", "wrap", "extra"]))
        if kind == "nasty":
            parent[key] = copy.deepcopy(draw(st.sampled_from(NASTY_JSON)))
        elif kind == "drop":
            del parent[key]
        elif kind == "other":  # a value from elsewhere, of another form
            giver, name = draw(st.sampled_from(inner))
            parent[key] = copy.deepcopy(giver[name])
        elif kind == "wrap":
            parent[key] = [parent[key]]
        elif isinstance(parent, dict):
            parent[draw(st.sampled_from(["extra", "", "name", "__class__", "\ud800"]))] = 1
        else:
            parent.append(copy.deepcopy(parent[key]))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    keys: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


def json_bytes(samples: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """JSON documents: of the right form with wrong values, and no longer JSON at all."""
    written = [json.dumps(sample).encode() for sample in samples]
    return st.one_of(mutated_json(samples).map(lambda value: json.dumps(value).encode()), mutated(written))
