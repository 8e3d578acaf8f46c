"""Calls as text: what rules put together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hawkeye_mcp.intake.emit_values import ints


@dataclass(frozen=True)
class Operand:
    """text: a name, or a scalar with its dtype. plain: the same, where Python's own number takes the other's dtype.

    value: of a scalar.
    """

    text: str
    plain: str
    aval: Any
    value: Any = None

    @property
    def is_name(self) -> bool:
        return self.text == self.plain


Rule = Callable[[dict[str, Any], Sequence[Operand], Sequence[Any]], str]


def call(name: str, *arguments: str, **named: str) -> str:
    """A call of lax."""
    return f"lax.{name}({', '.join([*arguments, *(f'{key}={value}' for key, value in named.items())])})"


def texts(operands: Sequence[Operand]) -> list[str]:
    """What is handed on."""
    return [operand.text for operand in operands]


def described_axes(kind: str, value: Any, fields: Sequence[str]) -> str:
    """A description of axes; fields that say nothing are left out where they may be."""
    told = {field: getattr(value, field, None) for field in fields}
    return call(
        kind, **{f: ints(axes) for f, axes in told.items() if axes is not None and (axes or "batching" not in f)}
    )
