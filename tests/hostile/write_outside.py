"""Writes outside the sandbox. Stopped by: a file system that is read-only but for an empty /tmp of its own."""

import site
import sys
from pathlib import Path

PLACES = [*site.getsitepackages(), sys.prefix, *sys.path, "/", "/usr", "/etc", "/var/tmp", "/home", "/root"]
refused = []
for place in PLACES:
    try:
        (Path(place) / "hawkeye_was_here").write_text("escaped")
    except OSError as error:
        refused.append(error)
    else:
        raise RuntimeError(f"ESCAPED: wrote into {place}")
raise refused[0]
