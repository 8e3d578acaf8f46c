"""What an agent may see under each experimental condition: the only place that knows conditions exist.

A thing that a condition withholds is never registered, so for that client it does not exist: it is not
listed, not callable and not mentioned. Everything shown to a client that depends on the condition is taken
from TABLE.

Two conditions are controls for `taxonomy`. Under `placebo` everything that a client is told is the same, letter by
letter, but the cells' texts: other text about TPUs of the same lengths. Under `menu` a cell is its title and one line,
and the texts promise no more. Both name the same rows, in the list and in the findings of evaluate_kernel and profile:
if those differed too, a difference between conditions could come from the pointers as well as from the content.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Condition = Literal["none", "taxonomy", "pool", "full", "placebo", "menu"]
CONDITIONS: tuple[str, ...] = get_args(Condition)

# For people who choose one; no client sees it.
ABOUT: dict[Condition, str] = {
    "none": "the judge alone",
    "taxonomy": "also the taxonomy's cells",
    "pool": "also kernels found correct",
    "full": "also both",
    "placebo": "as taxonomy, but with other text of the same lengths in the cells",
    "menu": "as taxonomy, but with one line per technique",
}
HELP = f"What the agent may see: {'; '.join(f'{name}: {about}' for name, about in ABOUT.items())}."

Kind = Literal["tool", "resource", "paragraph", "step"]
# taxonomy: there are rows to read. cells: a row is a whole cell, in several parts; lines: it is one line.
Asset = Literal["taxonomy", "cells", "lines", "pool"]
Cells = Literal["real", "placebo", "line"]

_SHOWN: dict[Condition, frozenset[Asset]] = {
    "none": frozenset(),
    "taxonomy": frozenset({"taxonomy", "cells"}),
    "pool": frozenset({"pool"}),
    "full": frozenset({"taxonomy", "cells", "pool"}),
    "placebo": frozenset({"taxonomy", "cells"}),
    "menu": frozenset({"taxonomy", "lines"}),
}
_OF_TAXONOMY: frozenset[Asset] = frozenset({"taxonomy", "cells", "lines"})


class UnknownCondition(ValueError):
    """No such condition; the message names all of them."""


@dataclass(frozen=True)
class Entry:
    """One thing a client can see: a tool or resource by name, a step or paragraph of the loop by its text."""

    kind: Kind
    value: str
    needs: Asset | None = None


# In the order that clients see them.
TABLE: tuple[Entry, ...] = (
    Entry("tool", "evaluate_kernel"),
    Entry("tool", "profile"),
    Entry("tool", "sanitize"),
    Entry("tool", "read_workload"),
    Entry("tool", "read_taxonomy_cell", "taxonomy"),
    Entry("tool", "kernel_pool", "pool"),
    Entry("tool", "job"),
    Entry("resource", "workload"),
    Entry("resource", "evaluation"),
    Entry("resource", "profile"),
    Entry("resource", "taxonomy", "taxonomy"),
    Entry("resource", "kernel", "pool"),
    Entry(
        "paragraph",
        "Goal: a Pallas kernel file that computes the workload correctly on the TPU in as little time as "
        "possible. The verdict of evaluate_kernel is the only one that counts; speedup is XLA's time over "
        "yours.",
    ),
    Entry("step", "read_workload: what to compute, on which shapes, and how it is judged."),
    Entry(
        "step",
        "kernel_pool: kernels already found correct for this workload, best first. Start from the best one "
        "instead of from nothing. Your own correct kernels enter it by themselves.",
        "pool",
    ),
    Entry(
        "step",
        "read_taxonomy_cell without arguments lists the known techniques for this TPU, each with a naive "
        "kernel, an optimized kernel and a guide. Read a cell before you use its technique.",
        "cells",
    ),
    Entry(
        "step",
        "read_taxonomy_cell without arguments lists the known techniques for this TPU, one line each.",
        "lines",
    ),
    Entry(
        "step",
        "Write one Python file that defines workload(...) with the workload's signature and reads shapes "
        "from its arguments. Get a small correct kernel first: evaluate_kernel.",
    ),
    Entry(
        "step",
        "sanitize a kernel that copies by hand, revisits blocks or declares axes parallel: interpreters may call it right "
        "where a TPU gets it wrong.",
    ),
    Entry(
        "step",
        "profile a correct kernel to see what bounds it; change one thing against the worst finding; "
        "evaluate again. Keep the fastest correct file.",
    ),
    Entry(
        "paragraph",
        "The diagnosis names taxonomy rows that address its findings: read those cells next.",
        "cells",
    ),
    Entry("paragraph", "The diagnosis names taxonomy rows that address its findings.", "lines"),
    Entry(
        "paragraph",
        "A call that takes longer than wait_s answers with status running and a job_id: pass it to job to "
        "wait for the verdict. The same file is never judged twice, so repeating a call is free.",
    ),
    Entry("paragraph", "Stop when further changes bring nothing or no evaluations are left."),
)


def parse(name: str) -> Condition:
    """The condition of that name.

    Raises:
        UnknownCondition: naming the legal ones.
    """
    for condition in _SHOWN:
        if name == condition:
            return condition
    raise UnknownCondition(f"There is no condition {name!r}. Conditions: {', '.join(CONDITIONS)}.")


def shows(condition: Condition, asset: Asset) -> bool:
    return asset in _SHOWN[condition]


def cells(condition: Condition) -> Cells:
    """What stands in the taxonomy's rows under a condition that shows them: for the server, never for its client."""
    if shows(condition, "lines"):
        return "line"
    return "placebo" if condition == "placebo" else "real"


def visible(condition: Condition, kind: Kind, *, without: frozenset[Asset] = frozenset()) -> list[str]:
    """Names (or, for steps and paragraphs, texts) of one kind that the condition shows, in order.

    without: leave out what speaks of these assets too.
    """
    shown = [None, *_SHOWN[condition] - without]
    return [entry.value for entry in TABLE if entry.kind == kind and entry.needs in shown]


def tools(condition: Condition) -> list[str]:
    return visible(condition, "tool")


def resources(condition: Condition) -> list[str]:
    return visible(condition, "resource")


def loop(condition: Condition, tpu: str = "") -> str:
    """The optimisation loop as text: the server's instructions and the optimize_kernel prompt.

    tpu: the pinned chip; where it has no cells yet, nothing sends the client to read some. Steps are numbered after
    the withheld ones are gone, so that no gap tells of them.
    """
    without = _OF_TAXONOMY if tpu and shows(condition, "taxonomy") and not _has_cells(tpu) else frozenset()
    goal, *remarks = visible(condition, "paragraph", without=without)
    steps = [f"{number}. {step}" for number, step in enumerate(visible(condition, "step", without=without), start=1)]
    return "\n".join([goal, *steps, *remarks])


def _has_cells(tpu: str) -> bool:
    from hawkeye_mcp import taxonomy  # where it is withheld, it is not even looked at

    return tpu in taxonomy.tpus()
