"""The lines of an emitted function, and which of them are needed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Line:
    targets: str
    expression: str
    comment: str = ""

    def names(self) -> set[str]:
        return set(re.findall(r"\w+", self.targets))


@dataclass
class Function:
    """A nested function: the body of a loop or a branch."""

    name: str
    parameters: list[str]
    body: list["Line | Function"] = field(default_factory=list)
    result: str = ""


def drop_unused(body: list[Line | Function], live: set[str]) -> None:
    """Remove what no output depends on; live: names that are used after the body, to which what it uses is added."""
    for statement in reversed(list(body)):
        if isinstance(statement, Function):
            if statement.name not in live:
                body.remove(statement)
                continue
            live |= set(re.findall(r"\w+", statement.result))
            drop_unused(statement.body, live)
        elif statement.names() & live:
            live |= set(re.findall(r"\w+", statement.expression))
        else:
            body.remove(statement)


def rendered(function: Function) -> Iterator[str]:
    """The text, a line each."""
    yield f"def {function.name}({', '.join(function.parameters)}):"
    for statement in function.body:
        if isinstance(statement, Function):
            yield from (f"    {line}" for line in rendered(statement))
        else:
            comment = f"  # {statement.comment}" if statement.comment else ""
            yield f"    {statement.targets} = {statement.expression}{comment}"
    yield f"    return {function.result}"
