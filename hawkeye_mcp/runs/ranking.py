"""Which evaluation of a run is its best: one rule, the order of the store of kernels, with ties to the incumbent.

Times of one source only are ever set against each other, under one fingerprint only, and a kernel stands by its latest
verdict. A known time goes before one that is only a lower bound; then the higher low end of the speedup's interval, a
surer figure before a larger one that may be an error; then the higher speedup; then the lower time. All kernels of a
run have one baseline, so without intervals the lower time wins.
"""

import math
from dataclasses import dataclass, field

from hawkeye_mcp.pool import Source
from hawkeye_mcp.runs.model import Judged

# Of the machine, not of the kernel: an earlier verdict on the same kernel stands.
NO_VERDICT = ("harness_error", "timeout")


def key(judged: Judged) -> tuple[bool, float, float, float]:
    """Smaller is better. What is unknown comes last."""
    sure = judged.speedup_interval[0] if judged.speedup_interval else judged.speedup
    return (
        judged.lower_bound,
        math.inf if sure is None else -sure,
        math.inf if judged.speedup is None else -judged.speedup,
        math.inf if judged.candidate_us is None else judged.candidate_us,
    )


@dataclass
class _Field:
    """Kernels judged alike, by their latest verdict, in the order in which they came; the incumbent is the best of them."""

    standing: dict[str, Judged] = field(default_factory=dict)
    incumbent: Judged | None = None


@dataclass
class Ranking:
    """Evaluations of one source, taken in one after the other."""

    source: Source
    _fields: dict[str, _Field] = field(default_factory=dict)
    _latest: _Field = field(default_factory=_Field)

    @property
    def incumbent(self) -> Judged | None:
        """The best under the fingerprint of the latest verdict: what another judge, compiler or workload said is out."""
        return self._latest.incumbent

    def take(self, judged: Judged) -> bool:
        """Take in the next evaluation of the run; whether it is strictly better than all that were judged alike."""
        if judged.status in NO_VERDICT:
            return False
        among = self._latest = self._fields.setdefault(judged.fingerprint, _Field())
        before = among.incumbent
        replaced = among.standing.pop(judged.kernel_sha256, None)
        ranks = judged.status == "correct" and judged.source == self.source and judged.candidate_us is not None
        if ranks:
            among.standing[judged.kernel_sha256] = judged
        better = ranks and (before is None or key(judged) < key(before))
        if replaced is not None and replaced is before and not better:
            # The incumbent was judged again and has become no faster: it defends its place, in ties with success.
            others = list(among.standing.values())  # itself last, if it ranks at all
            among.incumbent = min([*others[-1:], *others] if ranks else others, key=key, default=None)
        elif better:
            among.incumbent = judged
        return better
