"""From a specification, or from a CUDA kernel's port, the JAX source that stands for the program that is not there.

The source defines `workload` and `get_inputs`, as any JAX source of a job does. Where it is made of a formula, which can do
nothing but arithmetic, it is captured like one; a JAX file of somebody's goes through the sandbox first (`stand_in`).
`workload` fails where the results have not the shapes and dtypes that are declared. Nothing else says that it is what was
meant: the workload that comes of it is not scored before a person approves it.
"""

from pathlib import Path

from hawkeye_mcp import kernels, state
from hawkeye_mcp.intake import python_source, signature
from hawkeye_mcp.intake.job import Conversion, Job, Specification, Tensor

SOURCE = "from_specification.py"

_PROGRAM = """
def _program({arguments}):
    return {formula}
"""

_CHECKED = """
def _as_declared(name, found, shape, dtype):
    found = jnp.asarray(found)
    if found.shape != shape:
        raise ValueError(f"{{name}} is declared with the shape {{shape}} and comes out with {{found.shape}}")
    if found.dtype == dtype or jnp.issubdtype(found.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.floating):
        return found.astype(dtype)
    raise ValueError(f"{{name}} is declared as {{dtype}} and comes out as {{found.dtype}}")


def workload({arguments}):
    found = _program({arguments})
    found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(found) != {count}:
        raise ValueError(f"outputs declared: {count}, results: {{len(found)}}")
    results = ({results})
    return results if len(results) > 1 else results[0]
"""

_INPUTS = """
def get_inputs():
    keys = jax.random.split(jax.random.key(0), {count})
    return [
        {draws},
    ]
"""


class UnusableSource(ValueError):
    """The JAX file that stands for the program cannot be used; the message says why and what to do."""


def as_jax(job: Job, folder: Path) -> Job:
    """The job with its program written into `folder` as a JAX source; a job that has a program as it is.

    job: its paths absolute.

    Raises:
        UnusableSource: the baseline or port cannot be read.
    """
    if not job.needs_approval:
        return job
    path = folder / SOURCE
    state.write_atomically(path, source(job))
    brought = job.input.model_copy(
        update={"type": "jax", "path": str(path), "entry_point": "workload", "specification": None}
    )
    return job.model_copy(update={"input": brought, "conversion": Conversion(), "needs_jax_conversion": False})


def source(job: Job) -> str:
    """The JAX source of a specification or of a CUDA kernel.

    Raises:
        UnusableSource: the baseline or port cannot be read.
    """
    specification = job.input.specification
    assert specification and job.needs_approval
    arguments = ", ".join(signature.arguments(specification))
    if job.made_from is None:
        assert specification.reference_formula
        text, there = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n", frozenset[str]()
        # in parentheses, so that it may have lines
        program = _PROGRAM.format(
            arguments=arguments, formula=f"(\n        {specification.reference_formula.strip()}\n    )"
        )
    else:
        text, there = _file(Path(job.made_from))
        program = "\n_program = workload\n"
    missing = [f"{name} = {value!r}" for name, value in _constants(job, specification).items() if name not in there]
    outputs = [tensor for tensor in specification.tensors if tensor.role == "output"]
    results = [
        f'_as_declared("{tensor.name}", found[{i}], {_shape(tensor)}, jnp.dtype("{tensor.dtype}")),'
        for i, tensor in enumerate(outputs)
    ]
    parts = ["import jax\nimport jax.numpy as jnp" if job.made_from else "", *missing]
    made = "\n".join(filter(None, parts)) + "\n\n" + program
    made += "\n" + _CHECKED.format(arguments=arguments, count=len(outputs), results=" ".join(results))
    if job.input.inputs_fn not in there:
        made += "\n" + inputs(specification).replace("get_inputs", job.input.inputs_fn)
    return f"{text.rstrip()}\n\n{made.strip()}\n"


def own_names(job: Job) -> frozenset[str]:
    """Names that the JAX file of a job binds. Raises UnusableSource."""
    assert job.made_from
    return _file(Path(job.made_from))[1]


def lines_of(job: Job) -> int:
    """How many lines at the beginning of the source are the JAX file's own. Raises UnusableSource."""
    assert job.made_from
    return len(_file(Path(job.made_from))[0].splitlines())


def _file(path: Path) -> tuple[str, frozenset[str]]:
    """The text of a JAX file, and the names that it binds."""
    try:
        text = kernels.read(path)
        found = python_source.read(text)
    except (kernels.UnreadableKernel, ValueError) as error:
        raise UnusableSource(f"{path} cannot be used: {error}") from None
    if not found.defines("workload"):
        raise UnusableSource(f"{path} does not define workload(...). Define it, over the inputs, then the parameters.")
    return text, frozenset(found.names)


def _constants(job: Job, specification: Specification) -> dict[str, bool | int | float]:
    """Names that shapes and the formula use, with their values at full size; the other size replaces them."""
    return {**specification.constants, **job.sizes["check"], **job.sizes["full"]}


def inputs(specification: Specification) -> str:
    """The function that draws inputs as the tensors say; it names lengths by the constants of shapes."""
    tensors = {tensor.name: tensor for tensor in specification.tensors}
    draws = [_draw(tensors[name], f"keys[{i}]") for i, name in enumerate(signature.arguments(specification))]
    return _INPUTS.format(count=len(draws), draws=",\n        ".join(draws))


def _draw(tensor: Tensor, key: str) -> str:
    shape, dtype = _shape(tensor), f'"{tensor.dtype}"'
    if tensor.dtype == "bool":
        return f"jax.random.bernoulli({key}, 0.5, {shape})"
    if "int" in tensor.dtype:
        return f"jax.random.randint({key}, {shape}, 0, 2).astype({dtype})"
    return f"jax.random.normal({key}, {shape}).astype({dtype})"


def _shape(tensor: Tensor) -> str:
    return f"({' '.join(f'{dim},' for dim in tensor.shape)})"
