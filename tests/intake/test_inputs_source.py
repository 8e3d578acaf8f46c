"""The source of create_inputs draws what a capture says, at both sizes, and takes what is kept from the arrays beside it."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hawkeye_mcp.intake import folder
from hawkeye_mcp.intake.capture import Draw, Normal, Uniform
from hawkeye_mcp.intake.inputs_source import ARRAYS, Argument, NotWritten, create_inputs
from hawkeye_mcp.workloads import Size

SIZES: dict[Size, dict[str, int]] = {"full": {"N": 4000}, "check": {"N": 3000}}


def argument(name: str, dtype: str = "float32", *, at: tuple[int, int] = (4000, 3000), **of: Any) -> Argument:
    draws: tuple[Draw | None, Draw | None] = of.get("draws", (None, None))
    kept = of.get("kept", {})
    return Argument(
        name, "input", {"full": (at[0], 2), "check": (at[1], 2)}, dtype, {"full": draws[0], "check": draws[1]}, kept
    )


def drawn(given: list[Argument], size: Size, into: Path) -> list[Any]:
    folder.write_arrays(given, into / ARRAYS)
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "Path": Path, "__file__": str(into / "x.py")}
    exec(create_inputs(given, SIZES), names)
    return list(names["create_inputs"](jax.random.key(0), SIZES[size]))


@pytest.mark.parametrize("size", SIZES)
def test_values_are_drawn_as_said_at_each_size(size: Size, tmp_path: Path) -> None:
    normal, uniform = Normal(mean=2, std=0.5), Uniform(low=-1, high=3)
    given = [
        argument("key", draws=(normal, Normal(mean=-2, std=0.5))),
        argument("size", "bfloat16", draws=(uniform, uniform)),
        argument("x", draws=(uniform, normal)),
    ]
    key, size_, x = drawn(given, size, tmp_path)
    full = size == "full"
    assert key.shape == (SIZES[size]["N"], 2)
    assert float(key.mean()) == pytest.approx(2 if full else -2, abs=0.05)
    assert float(key.std()) == pytest.approx(0.5, abs=0.05)
    assert size_.dtype == jnp.bfloat16
    assert (float(size_.min()), float(size_.max())) == pytest.approx((-1, 3), abs=0.05)
    assert float(x.mean()) == pytest.approx(1 if full else 2, abs=0.1)
    assert not np.array_equal(np.asarray(key[:, 0]), np.asarray(x[:, 0]))


@pytest.mark.parametrize("size", SIZES)
def test_arrays_are_kept_bit_for_bit_at_each_size(size: Size, tmp_path: Path) -> None:
    ids = {"full": np.arange(8000, dtype=np.int32).reshape(4000, 2), "check": np.ones((3000, 2), np.int32)}
    mask = np.arange(6000).reshape(3000, 2) % 3 == 0
    halves = jnp.linspace(0, 1, 6000, dtype=jnp.bfloat16).reshape(3000, 2)
    raw = np.asarray(halves).view(np.uint16)  # as .npz files hold them
    given = [
        argument("ids", "int32", kept=ids),
        argument("mask", "bool", at=(3000, 3000), kept={"full": mask, "check": mask}),
        argument("halves", "bfloat16", at=(3000, 3000), kept={"full": raw, "check": raw}),
    ]
    found = drawn(given, size, tmp_path)
    np.testing.assert_array_equal(found[0], ids[size])
    np.testing.assert_array_equal(found[1], mask)
    assert found[2].dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(found[2]).view(np.uint16), raw)
    with np.load(tmp_path / ARRAYS) as arrays:
        assert sorted(arrays) == ["check/ids", "full/ids", "halves", "mask"]


def test_other_values_at_sizes_that_no_length_tells_apart_are_refused() -> None:
    given = [argument("x", at=(3000, 3000), draws=(Normal(mean=0, std=1), Normal(mean=0, std=2)))]
    with pytest.raises(NotWritten, match="no length of an argument tells which size it is"):
        create_inputs(given, SIZES)
