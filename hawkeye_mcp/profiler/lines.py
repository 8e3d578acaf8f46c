"""Where in the kernel file the operations of a Mosaic kernel stand.

jax lowers an operation once and inlines what that gave wherever the same operation comes again with the same shapes, in
this kernel or another of the program. What is inlined has the place of the first, as the callee of a call site whose
caller is the right one; libtpu names the callee alone.
"""

import re

_CALL_SITES = re.compile(r"^(#loc\d+) = loc\(callsite\(.* at (#loc\d+)\)\)$", re.MULTILINE)
# jax names an inlined operation twice, once for the call and once for what it calls: "scope/mul/mul"
_INLINED = re.compile(r'^(#loc\d+ = loc\("(?:[^"\n]*/)?([^"/\n]+)/\2"\()(#loc\d+)\)\)$', re.MULTILINE)


def of_callers(text: str) -> str:
    """A module's text with every inlined operation at the place that it was inlined to."""
    callers = dict(_CALL_SITES.findall(text))
    return _INLINED.sub(lambda found: f"{found[1]}{callers.get(found[3], found[3])}))", text)
