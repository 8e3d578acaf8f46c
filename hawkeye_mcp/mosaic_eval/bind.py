"""Does the artifact for the TPU compute what the workload asks? Its kernels run here, and the workload's gate decides.

This binds what is timed to what is verified: an artifact for the CPU that is right says nothing of one for the TPU that
the same process made, since the candidate's Python shared that process and may have changed how either is made.
Workers only.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from hawkeye_mcp import artifact
from hawkeye_mcp.evaluation import OutputError
from hawkeye_mcp.judge import correctness
from hawkeye_mcp.mosaic_eval.errors import Ended, Exhausted, Fault, Unsupported
from hawkeye_mcp.mosaic_eval.program import Runnable, runnable
from hawkeye_mcp.mosaic_eval.result import Bound
from hawkeye_mcp.workloads import Tolerance

Compare = Callable[[Sequence[Any], Sequence[Any]], tuple[list[OutputError], str | None]]


def bind(
    data: bytes,
    draw: Callable[[Any], Sequence[Any]],
    oracle: Callable[..., Any],
    declared: Sequence[tuple[tuple[int, ...], str]],
    tolerance: Tolerance,
    seeds: int,
) -> Bound:
    """Evaluate an artifact for the TPU on fresh secret draws; stops at the first that ends it.

    draw: inputs from a key. oracle: the right outputs for inputs. declared: (shape, dtype) of each output.
    """
    start = time.monotonic()

    def compare(actual: Sequence[Any], expected: Sequence[Any]) -> tuple[list[OutputError], str | None]:
        return correctness.compare(actual, expected, declared, tolerance)

    try:
        found = _bind(data, draw, oracle, compare, seeds)
    except Ended as ended:
        found = _ended(ended)
    except (artifact.Unreadable, RecursionError, MemoryError) as error:
        found = Bound(
            outcome="unsupported", message=f"The artifact for the TPU: {type(error).__name__}: {error}"[:1000]
        )
    return found.model_copy(update={"seconds": round(time.monotonic() - start, 3)})


def _bind(
    data: bytes, draw: Callable[[Any], Sequence[Any]], oracle: Callable[..., Any], compare: Compare, seeds: int
) -> Bound:
    as_on_tpu = _prepared(data, exact=False)
    exact: Runnable | None = None
    runs: list[list[OutputError]] = []
    for _ in range(seeds):
        inputs = jax.tree.leaves(draw(jax.random.key(secrets.randbits(32))))
        expected = [np.asarray(x) for x in jax.tree.leaves(oracle(*inputs))]
        errors, problem = compare(as_on_tpu(inputs), expected)
        runs.append(errors)
        if not problem:
            continue
        exact = exact or _prepared(data, exact=True)
        _, worse = compare(exact(inputs), expected)
        if worse:
            return Bound(
                outcome="differs",
                message=f"The kernel for the TPU computes something else. {worse}",
                seeds=len(runs),
                outputs=correctness.merge(runs),
            )
        return Bound(
            outcome="rounding",
            message="On a TPU, which rounds float32 operands of a matmul at the default precision to bfloat16, the gate"
            f" fails: {problem} Ask for precision=jax.lax.Precision.HIGHEST.",
            seeds=len(runs),
            outputs=correctness.merge(runs),
        )
    return Bound(
        outcome="agrees",
        message="The kernel for the TPU, run operation by operation, passes the gate.",
        seeds=len(runs),
        outputs=correctness.merge(runs),
    )


def _prepared(data: bytes, *, exact: bool) -> Runnable:
    """Raises Ended."""
    try:
        return runnable(artifact.read(data), exact=exact)
    except Ended:
        raise
    except Exception as error:  # whatever hostile bytes make the readers raise
        raise Unsupported(f"the artifact ({type(error).__name__}: {error})"[:500]) from error


def _ended(ended: Ended) -> Bound:
    if isinstance(ended, Fault):
        message = (
            f"The kernel for the TPU has no defined result: {ended.what}. A TPU reads or writes elsewhere, or hangs."
        )
        return Bound(outcome="fault", message=message, operation=ended.what, where=ended.where or None)
    what = "would take too long or too much memory" if isinstance(ended, Exhausted) else "cannot be evaluated here"
    return Bound(
        outcome="exhausted" if isinstance(ended, Exhausted) else "unsupported",
        message=f"The kernel for the TPU {what}: {ended}.",
        operation=ended.what,
        where=ended.where or None,
    )
