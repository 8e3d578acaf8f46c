"""Static profiles that libtpu wrote to files, one for each operation as soon as it is done.

A process whose profile aborts leaves those of the operations before, often that of the operation at which it aborts:
some die in a check on the schedule after its cycles are out.
"""

import re
from pathlib import Path

_NAME = re.compile(r'hlo_op_name: "([^"]+)"')
_CYCLES = re.compile(r"estimated_cycles: (\d{1,18})\b")


def estimates(folder: Path) -> dict[str, int]:
    """Cycles by the operation's name."""
    found = {}
    for path in sorted(folder.glob("*_static_llo_profile.textproto")):
        text = path.read_text(encoding="utf-8", errors="replace")
        name, cycles = _NAME.search(text), _CYCLES.search(text)
        if name and cycles:
            found[name[1]] = int(cycles[1])
    return found
