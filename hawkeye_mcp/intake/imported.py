"""What an import says: of a workload that was made, or of the gate that stopped it. Imports no jax."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class GateFailed(Exception):
    """A gate stopped the import; nothing was written.

    gate: its name. message: what is wrong. fix: what to do next. details: more, a line each.
    """

    def __init__(self, gate: str, message: str, fix: str, details: list[str] | None = None) -> None:
        self.gate, self.message, self.fix, self.details = gate, message, fix, details or []
        lines = [
            f"Not imported: {message}",
            *(f"  {line}" for line in self.details),
            f"Stopped at: {gate}",
            f"Next: {fix}",
        ]
        super().__init__("\n".join(lines))

    def told(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"gate": self.gate, "message": self.message, "fix": self.fix, "details": self.details}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Gate(_Part):
    """One gate that was passed. figures: what it measured, by name."""

    name: str
    message: str
    figures: dict[str, float | None] = {}


class Imported(_Part):
    """A workload that was imported."""

    workload: str
    folder: str
    route: Literal["torchax", "golden", "jax"] = Field(description="How the program was had; golden: from a port.")
    gate: str = Field(description="What kernels will have to pass.")
    gates: list[Gate]
    survivors: list[str] = Field(
        [], description="Wrong programs that the workload's test does not tell from right ones."
    )
    notes: list[str] = []
    next_steps: list[str]

    def __str__(self) -> str:
        made = {"torchax": "by torchax", "golden": "from a port", "jax": "from JAX"}[self.route]
        lines = [f"{self.folder}: imported {made}, gate {self.gate}"]
        lines += [f"  {one.name:<18} {one.message}" for one in self.gates]
        lines += [f"  note               {note}" for note in self.notes]
        lines += [f"  not told apart     {mutant}" for mutant in self.survivors]
        return "\n".join([*lines, *(f"Next: {step}" for step in self.next_steps)])
