"""What the server answered about kernels, from an agent's transcript: the words of a verdict, and profiles.

The call log, which is the record of what was found, keeps no words. A client may pass an answer on inside structures of
its own or cut it; what cannot be read is not there.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_DEEPEST, _MOST = 8, 20
_BEGIN = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
# As profile_report writes a ceiling of one unit.
_CEILING = re.compile(r"(hbm|mxu): .*? for .*? at ([\d.e+]+)/s(?: \((.*)\))?")
_FIGURES = (
    "bound best_us best_speedup predicted_us measured_us executed_bundles stall_cycles spills vmem_bytes "
    "vmem_capacity_bytes hbm_bytes"
).split()
_TABLES = "ops stalls lines slots memory traffic ceilings".split()


@dataclass(frozen=True)
class Answers:
    """By sha256 of the kernel's text, the last answer of each kind."""

    evaluations: dict[str, dict[str, Any]] = field(default_factory=dict)
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict)


def read(transcript: Iterable[dict[str, Any]]) -> Answers:
    """From the lines of a transcript."""
    found = Answers()
    for line in transcript:
        if line.get("kind") == "tool_result":
            for told in _objects(line.get("text"), 0):
                kernel, message = told.get("kernel_sha256"), told.get("message")
                if kernel and message and told.get("status") not in ("running", "cancelled", "budget_spent"):
                    kind = found.profiles if "executed_bundles" in told else found.evaluations
                    kind[str(kernel)] = told
    return found


def profile_text(told: dict[str, Any]) -> str:
    """A profile's answer as lines, in the order of a look: what binds, what to change, then each table."""
    lines = [str(told.get("message", ""))]
    lines += [f"{name}: {_figure(told[name])}" for name in _FIGURES if told.get(name) is not None]
    for place, finding in enumerate(_dicts(told.get("findings")), start=1):
        costs = f" Costs about {finding['costs_us']} us." if finding.get("costs_us") is not None else ""
        lines.append(f"finding {place}: {finding.get('text', '')}{costs}")
    for name in _TABLES:
        if rows := told.get(name):
            lines += ["", f"{name}:", *(f"  {row}" for row in rows)] if isinstance(rows, list) else []
    if isinstance(counters := told.get("counters"), dict) and counters:
        lines += ["", "counters:", *(f"  {name}: {_counter(count)}" for name, count in counters.items())]
    return "\n".join(lines)


def ceilings(told: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """By unit ("hbm", "mxu") the rate a second of a profile's roofline, bytes or FLOP, and where it comes from."""
    found = {}
    rows = told.get("ceilings")
    for row in rows if isinstance(rows, list) else []:
        if matched := _CEILING.match(str(row)):
            with suppress(ValueError):
                found[matched[1]] = (float(matched[2]), matched[3] or "")
    return found


def _figure(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) and value == round(value) else str(value)


def _counter(count: Any) -> str:
    if not isinstance(count, dict):
        return str(count)
    of_peak = f", {count['peak_share']:.1%} of peak" if isinstance(count.get("peak_share"), float) else ""
    total = count.get("total")
    return f"{total:,.0f} {count.get('unit', '')}{of_peak}" if isinstance(total, int | float) else str(count)


def _dicts(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _decoded(text: str) -> Iterator[Any]:
    """Each JSON object or array that begins a line: clients put lines of their own before and after an answer."""
    decoder, end = json.JSONDecoder(), 0
    for begin in itertools.islice(_BEGIN.finditer(text), _MOST):
        if begin.end() > end:
            with suppress(ValueError, RecursionError):
                value, end = decoder.raw_decode(text, begin.end() - 1)
                yield value


def _objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Every JSON object in a text, also in the content blocks that a client may have put it in."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        for inside in _decoded(value):
            yield from _objects(inside, depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _objects(one, depth + 1)
    elif isinstance(value, dict):
        if "kernel_sha256" in value:
            yield value
        else:
            for name in ("text", "content", "structured_content", "structuredContent"):
                yield from _objects(value.get(name), depth + 1)
