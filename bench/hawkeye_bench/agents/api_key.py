"""The key of a model endpoint: read from the environment, given to the client alone, and shown by its name only."""

import os
from dataclasses import dataclass

from hawkeye_bench.agents import AgentMisconfigured


@dataclass(frozen=True)
class ApiKey:
    """variable: the environment variable that holds it; without one, variable and value are empty."""

    variable: str
    value: str

    def hide(self, text: str) -> str:
        """The text without the key, which an endpoint or a model may repeat."""
        return text.replace(self.value, f"[{self.variable}]") if self.value else text


def read(variable: str) -> ApiKey:
    """The key that a variable holds; none where no variable is named.

    Raises:
        AgentMisconfigured: the variable is not set.
    """
    value = os.environ.get(variable, "") if variable else ""
    if variable and not value:
        raise AgentMisconfigured(f"The environment variable {variable} is not set; put the endpoint's key into it.")
    return ApiKey(variable, value)
