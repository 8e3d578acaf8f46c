"""An imported workload as its files are, for tests: nothing of it was traced, and each form of line is in it."""

from pathlib import Path
from typing import Any

import numpy as np

from hawkeye_mcp.intake import folder

TOML = """\
family = "imported"
summary = "A scanned product, rows picked by ids."
source = "mine.py, imported from JAX"
flops = 1000
flops_formula = "1000, counted"
least_bytes = 2000

[sizes]
full = { T = 128, D = 64 }
check = { T = 16, D = 32 }

[[inputs]]
name = "x"
shape = ["T", "D"]
dtype = "bfloat16"

[[inputs]]
name = "ids"
shape = ["T"]
dtype = "int32"

[[inputs]]
name = "table"
shape = [4]
dtype = "bfloat16"

[[inputs]]
name = "w"
shape = ["D"]
dtype = "float32"

[[outputs]]
name = "out"
shape = ["T", "D"]
dtype = "bfloat16"

[tolerance]
metric = "E"
limit = 0.01
reason = "measured"
"""
DRAWS = """\
def create_inputs(key, size):
    keys = jax.random.split(key, 2)
    kept = np.load(Path(__file__).with_name("workload.npz"))
    full = size["T"] == 128
    return (
        (jax.random.normal(keys[0], (size["T"], size["D"])) * 0.5 + (-1.0 if full else 2.0)).astype(jnp.bfloat16),  # x
        jnp.asarray(kept["full/ids" if full else "check/ids"]),  # ids
        lax.bitcast_convert_type(jnp.asarray(kept["table"]), jnp.bfloat16),  # table
        (jax.random.uniform(keys[1], (size["D"],), minval=-1.0, maxval=1.0) if full else jax.random.normal(keys[1], (size["D"],))),  # w
    )


"""
PROGRAM = """\
def workload(x, ids, table, w):
    T = x.shape[0]
    D = x.shape[1]
    def step(carries, items):
        (carry,) = carries
        (item,) = items
        added = carry + item  # bfloat16[D]
        return ((added,), (added,))
    start = lax.full((D,), 0.0, jnp.bfloat16)  # bfloat16[D]
    (last,), (scanned,) = lax.scan(step, (start,), (x,), length=T)  # bfloat16[D], bfloat16[T, D]
    halves = lax.slice(scanned, (0, 0), (T, D // 2), (1, 1))  # bfloat16[T, D // 2]
    scaled = scanned / float(2 * D)
    rooted = scaled * (D**-0.5)
    flat = lax.reshape(rooted, (T * D,))  # bfloat16[T * D]
    out = lax.reshape(flat, (T, D))
    return out


"""
ORACLE = """\
def oracle(x, ids, table, w):
    D = x.shape[1]
    x = lax.convert_element_type(x, jnp.float32)
    table = lax.convert_element_type(table, jnp.float32)
    scaled = x / float(2 * D)
    return lax.convert_element_type(scaled, jnp.float32)
"""
CHOSEN = """\
def oracle(x, ids, table, w):
    def at_full_size(x, ids, table, w):
        x = lax.convert_element_type(x, jnp.float32)
        y = lax.sin(x)
        return lax.convert_element_type(y, jnp.float32)
    def at_check_size(x, ids, table, w):
        y = lax.cos(x)
        return y
    return at_full_size(x, ids, table, w) if x.shape == (128, 64) else at_check_size(x, ids, table, w)
"""
HEAD = folder.head(kept=True)
PYTHON = HEAD + DRAWS + PROGRAM + ORACLE
ARRAYS = {
    "full/ids": np.arange(128, dtype=np.int32),
    "check/ids": np.arange(16, dtype=np.int32),
    "table": np.arange(4, dtype=np.uint16),
}


def write(
    into: Path, python: str | bytes = PYTHON, toml: str = TOML, arrays: dict[str, Any] | bytes | None = None
) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    (into / "workload.py").write_bytes(python if isinstance(python, bytes) else python.encode())
    (into / "workload.toml").write_text(toml)
    if isinstance(arrays, bytes):
        (into / "workload.npz").write_bytes(arrays)
    else:
        np.savez(into / "workload.npz", **(ARRAYS if arrays is None else arrays))
    return into
