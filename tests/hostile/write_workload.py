"""Makes the workload's gate generous. Stopped by: the file cannot be seen from the sandbox."""

from pathlib import Path

DECLARATION = Path("/workload.toml")  # the test puts the true path here

text = DECLARATION.read_text()
DECLARATION.write_text(text.replace("limit = 0.01", "limit = 1e9"))
raise RuntimeError(f"ESCAPED: changed {DECLARATION}")
