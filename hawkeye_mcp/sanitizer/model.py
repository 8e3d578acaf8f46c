"""What the sanitizer says: findings, which checks ran, and why others did not."""

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal[
    "uninitialised_read",
    "unwritten_output",
    "ragged_edge",
    "parallel_carry",
    "out_of_bounds",
    "block_out_of_bounds",
    "revisited_out_of_order",
    "read_before_wait",
    "dma_never_waited",
    "wait_never_ends",
    "semaphore_not_zero",
    "race",
    "input_written",
    "undeclared_alias",
]
KINDS: tuple[str, ...] = get_args(Kind)

Check = Literal[
    "static",
    "uninitialised",
    "out_of_bounds",
    "dma",
    "semaphores",
    "revisits",
    "parallel",
    "races",
    "seeds",
    "two_cores",
]
CHECKS: tuple[Check, ...] = get_args(Check)

# How a check is made; each setting that runs the kernel has a process of its own.
Setting = Literal["static", "one_core", "two_cores"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Finding(_Model):
    """One defect. on_tpu: what a real TPU does with it, although the interpreter may show nothing."""

    kind: Kind
    line: int | None = Field(description="Of the kernel file; null where no line of it is to blame.")
    message: str
    on_tpu: str
    advice: str


class NotChecked(_Model):
    check: Check
    reason: str


class Sanitized(_Model):
    """The sanitizer's answer on one kernel file. It is no verdict: the kernel's own process reports what it saw."""

    status: Literal["silent", "findings", "failed"] = Field(description="failed: it could not be run at all.")
    message: str
    next_step: str
    workload: str
    tpu: str
    kernel_sha256: str
    findings: list[Finding]
    checks: list[Check] = Field(description="Those that ran.")
    not_checked: list[NotChecked]
    isolation: str
    stages_s: dict[str, float]

    def in_one_line(self) -> str:
        """What was found, which checks ran and which did not."""
        found = [f"{f'line {one.line}: ' if one.line else ''}{one.kind}: {one.message}" for one in self.findings]
        said = self.message if self.status == "failed" else "; ".join(found) or self.status
        skipped = dict.fromkeys(skip.check for skip in self.not_checked)
        return f"{said}; ran: {', '.join(self.checks) or 'none'}; did not run in full: {', '.join(skipped) or 'none'}"
