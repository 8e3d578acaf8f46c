"""Makes the synthetic folders of runs, which the bench's tests share, importable here."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))
