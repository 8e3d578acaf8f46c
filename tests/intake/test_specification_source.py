"""The JAX source that stands for a program that is not there: it computes what is declared, or fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import job_files
import numpy as np
import pytest
from job_files import JOBS, REMOVED, changed

from hawkeye_mcp.intake import rules, signature, specification
from hawkeye_mcp.intake.job import Job

EXAMPLES = Path(__file__).parent / "jobs"
INSIDE = "input.specification"


def _run(job: Job) -> Any:
    """What the source defines."""
    module: dict[str, Any] = {}
    exec(specification.source(job), module)
    return SimpleNamespace(**module)


def _job(tmp_path: Path, changes: dict[str, Any], kind: str = "specification") -> Job:
    return rules.load(job_files.write(tmp_path, changed(JOBS[kind], changes)))


def test_a_formula_becomes_a_program_with_its_inputs() -> None:
    job = rules.load(EXAMPLES / "softplus_gate.json")
    module = _run(job.model_copy(update={"sizes": {"full": {"ROWS": 4, "COLUMNS": 128}, "check": {}}}))
    x, bias = module.get_inputs()
    assert (x.shape, bias.shape, str(x.dtype)) == ((4, 128), (128,), "float32")
    assert not np.array_equal(x[0], x[1])
    shifted = np.asarray(x, np.float64) + np.asarray(bias, np.float64)
    expected = shifted * np.log1p(np.exp(1.5 * shifted)) / 1.5
    np.testing.assert_allclose(module.workload(x, bias), expected, rtol=1e-5, atol=1e-6)


def test_a_port_is_wrapped_and_its_own_constants_stay(tmp_path: Path) -> None:
    (tmp_path / "scaled.py").write_text("ROWS = 5\nSCALE = 3\n\ndef workload(x):\n    return x * SCALE + ROWS\n")
    job = _job(tmp_path, {"conversion.port": "scaled.py"}, "cuda")
    module = _run(job)
    (x,) = module.get_inputs()
    assert x.shape == (5, 128)  # `sizes` replaces it when the source is captured
    np.testing.assert_array_equal(module.workload(x), np.asarray(x) * 3 + 5)


def test_inputs_of_a_baseline_are_used_if_it_gives_some(tmp_path: Path) -> None:
    text = "import jax.numpy as jnp\n\ndef workload(x):\n    return x\n\ndef get_inputs():\n    return [jnp.full((64, 128), 7.0)]\n"
    (tmp_path / "given.py").write_text(text)
    job = _job(tmp_path, {f"{INSIDE}.reference_formula": REMOVED, f"{INSIDE}.baseline": "given.py"})
    assert float(_run(job).get_inputs()[0][0, 0]) == 7.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({f"{INSIDE}.reference_formula": "x.sum(axis=0)"}, r"out is declared with the shape \(64, 128\).*\(128,\)"),
        ({f"{INSIDE}.reference_formula": "x > 0"}, "out is declared as float32 and comes out as bool"),
        ({f"{INSIDE}.reference_formula": "jnp.argsort(x)"}, "declared as float32 and comes out as int32"),
        ({f"{INSIDE}.reference_formula": "lax.top_k(x, 128)"}, "outputs declared: 1, results: 2"),
    ],
)
def test_results_that_are_not_as_declared_fail(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    module = _run(_job(tmp_path, changes))
    with pytest.raises(ValueError, match=says):
        module.workload(*module.get_inputs())


def test_results_are_stored_in_the_declared_precision_and_come_in_the_declared_order(tmp_path: Path) -> None:
    tensors = [
        {"name": "scale", "role": "parameter", "shape": [], "dtype": "bfloat16"},
        {"name": "mask", "role": "input", "shape": [8], "dtype": "bool"},
        {"name": "index", "role": "input", "shape": [8], "dtype": "int32"},
        {"name": "first", "role": "output", "shape": [8], "dtype": "bfloat16"},
        {"name": "second", "role": "output", "shape": [8], "dtype": "int32"},
    ]
    formula = "(jnp.where(mask, 1.0, 2.0) * scale, index + 1)"
    job = _job(tmp_path, {f"{INSIDE}.tensors": tensors, f"{INSIDE}.reference_formula": formula, "sizes": REMOVED})
    assert job.input.specification
    assert signature.arguments(job.input.specification) == ["mask", "index", "scale"]
    module = _run(job)
    mask, index, scale = module.get_inputs()
    assert [str(each.dtype) for each in (mask, index, scale)] == ["bool", "int32", "bfloat16"]
    assert set(np.asarray(index).tolist()) == {0, 1}
    first, second = module.workload(mask, index, scale)
    assert (str(first.dtype), str(second.dtype)) == ("bfloat16", "int32")
    np.testing.assert_array_equal(second, np.asarray(index) + 1)


def test_as_jax_makes_a_jax_job_of_what_has_no_program_and_leaves_others(tmp_path: Path) -> None:
    job = rules.load(EXAMPLES / "saxpy.json")
    brought = specification.as_jax(job, tmp_path)
    assert (brought.input.type, brought.input.path, brought.input.entry) == (
        "jax",
        str(tmp_path / "from_specification.py"),
        "workload",
    )
    assert (brought.needs_jax_conversion, brought.conversion.method, brought.needs_approval) == (False, "none", False)
    assert Path(str(brought.input.path)).read_text(encoding="utf-8") == specification.source(job)
    assert (job.needs_approval, job.sizes) == (True, brought.sizes)
    untouched = rules.load(EXAMPLES / "gated_norm.json")
    assert specification.as_jax(untouched, tmp_path) is untouched


@pytest.mark.parametrize("text", ["def f(x): return x", "def workload(x:", "\xff"])
def test_a_baseline_that_went_bad_since_it_was_checked_is_told(tmp_path: Path, text: str) -> None:
    job = _job(tmp_path, {f"{INSIDE}.reference_formula": REMOVED, f"{INSIDE}.baseline": "port.py"})
    (tmp_path / "port.py").write_bytes(text.encode("latin-1"))
    with pytest.raises(specification.UnusableSource, match=r"port\.py"):
        specification.source(job)
