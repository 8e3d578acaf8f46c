"""Inside the verifier: what a port computes, held against recorded results of the program that it stands for.

The exported program and the emitted source come out of the port's sandbox. The first is audited before it runs; the
second must pass the whitelist of `emitted` before it is loaded, and its structure is taken down here, from the program
that it is, not from what the sandbox says.
"""

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hawkeye_mcp import artifact
from hawkeye_mcp.intake import emitted, values
from hawkeye_mcp.intake.capture import Capture
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.judge import audit

Arrays = list[values.Array]
_ERROR = 4000


def run_port(
    folder: str, cpu: str, source: str, constants: list[dict[str, Any]], atol: float, rtol: float
) -> dict[str, Any]:
    """Run a port's program and its emitted source ("": none) on every recorded trial at the check size.

    folder: of `capture.json` and `goldens.npz`. cpu: the exported program, base64.

    Returns:
        "exported" and "emitted" (None without a source), each {"refused": why}, {"failed": why} or {"outputs"}, of
        `values.OutputAgreement`; "constant": names of float arguments that are one number everywhere in every trial.
    """
    capture, trials = recorded_trials(Path(folder))
    inputs, recorded = [one[0] for one in trials], [one[1] for one in trials]
    given = capture.sizes["check"].arrays
    shapes = [(array.shape, array.dtype) for array in given]

    def outcome(load: Callable[[], Callable[..., Any]]) -> dict[str, Any]:
        try:
            run = load()
        except (emitted.NotEmitted, artifact.Unreadable, Refused) as error:
            return {"refused": str(error)[:_ERROR]}
        try:
            actual = [[np.asarray(x) for x in jax.tree.leaves(run(*one))] for one in inputs]
        except Exception as error:  # out of memory, or whatever else the port's program does
            return {"failed": f"{type(error).__name__}: {error}"[:_ERROR]}
        found = values.agreement(actual, recorded, atol, rtol)
        return {"outputs": [one.model_dump(mode="json") for one in found]}

    return {
        "exported": outcome(lambda: exported(cpu, shapes)),
        "emitted": outcome(lambda: jax.jit(_with(source, constants))) if source else None,
        "constant": [array.name for number, array in enumerate(given) if _constant([one[number] for one in inputs])],
    }


def port_structure(source: str, constants: list[dict[str, Any]], arguments: list[list[Any]]) -> dict[str, Any]:
    """The structure of an emitted source at arguments of these shapes and dtypes: {"structure"} or {"refused": why}."""
    shapes = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in arguments]
    try:
        return {"structure": structure(jax.make_jaxpr(_with(source, constants))(*shapes))}
    except (emitted.NotEmitted, Refused) as error:
        return {"refused": str(error)[:_ERROR]}
    except Exception as error:  # whatever jax says of what the source does
        return {"refused": f"{type(error).__name__}: {error}"[:_ERROR]}


class Refused(ValueError):
    """What came out of the sandbox is not run."""


def exported(cpu: str, shapes: Sequence[tuple[Sequence[int], str]]) -> Callable[..., Any]:
    program = artifact.read(base64.b64decode(cpu))
    if problems := audit.plain(program, shapes):
        raise Refused(" ".join(problems))
    run: Callable[..., Any] = jax.jit(program.exported.call)
    return run


def _with(source: str, constants: list[dict[str, Any]]) -> Callable[..., Any]:
    """The emitted function of the arguments alone. Raises emitted.NotEmitted, Refused."""
    function = load(source)
    arrays = [_constant_array(one) for one in constants]
    return lambda *given: function(*given, *arrays)


def load(source: str) -> Callable[..., Any]:
    """The function of an emitted source.

    Raises:
        emitted.NotEmitted: it holds anything that `emit` never writes.
    """
    emitted.check(source)
    names: dict[str, Any] = {"__builtins__": {}, "jnp": jnp, "lax": lax}
    exec(compile(source, "workload.py", "exec"), names)
    function: Callable[..., Any] = names["workload"]
    return function


def _constant_array(one: dict[str, Any]) -> Any:
    try:
        data = base64.b64decode(one["data"], validate=True)
        return jnp.asarray(np.frombuffer(data, jnp.dtype(one["dtype"])).reshape(one["shape"]))
    except (TypeError, ValueError) as error:
        raise Refused(f"The array {one.get('name')!r} of the port does not read: {error}"[:300]) from None


def recorded_trials(folder: Path) -> tuple[Capture, list[tuple[Arrays, Arrays]]]:
    """What was recorded: (arguments, results) of every trial at the check size."""
    capture = Capture.model_validate_json((folder / "capture.json").read_text(encoding="utf-8"))
    of = capture.sizes["check"]
    with np.load(folder / "goldens.npz", allow_pickle=False) as arrays:

        def read(key: str, dtype: str) -> values.Array:
            array: values.Array = arrays[key]
            return array if array.dtype == jnp.dtype(dtype) else array.view(jnp.dtype(dtype))

        return capture, [
            (
                [read(f"check/{trial}/in/{array.name}", array.dtype) for array in of.arrays],
                [read(f"check/{trial}/out/{number}", output.dtype) for number, output in enumerate(of.outputs)],
            )
            for trial in range(capture.trials)
        ]


def _constant(arrays: Sequence[values.Array]) -> bool:
    """Whether they are one float everywhere, such as a bias that was never trained."""
    first = arrays[0].reshape(-1)[:1]
    return jnp.issubdtype(arrays[0].dtype, jnp.floating) and all(bool((array == first).all()) for array in arrays)


HANDLERS: dict[str, Callable[..., dict[str, Any]]] = {"run_port": run_port, "port_structure": port_structure}
