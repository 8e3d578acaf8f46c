"""One rule of the job file."""

from collections.abc import Callable
from dataclasses import dataclass

from hawkeye_mcp.intake.declared import Declared
from hawkeye_mcp.intake.report import Problem


@dataclass(frozen=True)
class Rule:
    """when: whether the rule is broken, or by what, which takes the place of {} in the message."""

    field: str
    when: Callable[[Declared], bool | str]
    message: str
    fix: str
    warning: bool = False

    def broken(self, declared: Declared) -> Problem | None:
        if not (by := self.when(declared)):
            return None
        return Problem(field=self.field, message=self.message.replace("{}", str(by)), fix=self.fix)


def is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
