"""Leaves code where Python runs it at every start. Stopped by: packages are read-only, and /tmp ends with the sandbox."""

import site
import sys
from pathlib import Path

refused = []
for folder in [*site.getsitepackages(), *sys.path, sys.prefix]:
    for name in ("sitecustomize.py", "usercustomize.py", "hawkeye_was_here.pth"):
        try:
            (Path(folder) / name).write_text("import os; os.environ['HAWKEYE_WAS_HERE'] = '1'\n")
        except OSError as error:
            refused.append(error)
        else:
            raise RuntimeError(f"ESCAPED: wrote {name} into {folder}")
raise refused[0]
