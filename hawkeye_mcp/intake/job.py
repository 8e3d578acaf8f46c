"""The job file: what a person declares about a program that is to become a workload.

These models are the schema (`hawkeye job schema`), the validator and the documentation at once: what a field means is
written here and nowhere else. What fields contradict each other is in `rules`, which also reads the file.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from hawkeye_mcp import workloads
from hawkeye_mcp.chips import DEFAULT_TPU, TPUS
from hawkeye_mcp.workloads import Size

SCHEMA: Literal["hawkeye.job/1"] = "hawkeye.job/1"
Language = Literal["cuda", "triton", "pallas", "jax", "pytorch"]
InputType = Literal["jax", "pytorch", "cuda", "specification"]
Dtype = Literal[
    "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "uint8", "uint32", "bool"
]  # fmt: skip

_IDENTIFIER = r"^[A-Za-z_][A-Za-z0-9_]*$"
_LARGEST = 2**63 - 1  # what an integer of the compiler can hold

Identifier = Annotated[str, Field(pattern=_IDENTIFIER, max_length=100)]
FilePath = Annotated[str, Field(min_length=1, max_length=4000)]
Text = Annotated[str, Field(max_length=100_000)]


def _fits(number: bool | int | float) -> bool | int | float:
    if isinstance(number, int) and abs(number) > _LARGEST:
        raise ValueError("an integer must fit into 64 bits")
    return number


Number = Annotated[bool | int | float, AfterValidator(_fits)]
Length = Annotated[int, Field(ge=1, le=_LARGEST)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Tensor(_Part):
    """One array that a specification speaks of."""

    name: Identifier = Field(description="What the formula and the workload call it.")
    role: Literal["input", "output", "parameter"] = Field(
        description="Inputs come first among the workload's arguments, then parameters; outputs are what it returns."
    )
    shape: tuple[Length | Identifier, ...] = Field(
        description="Each dimension is a length, or the name of a constant of `sizes` or of `constants`."
    )
    dtype: Dtype = Field(description="Of its elements.")


class Specification(_Part):
    """What is to be computed, where no program says it."""

    description: Annotated[Text, Field(min_length=1)] = Field(description="What it computes, in words.")
    operation: Text = Field("", description="Its common name, such as `softmax`.")
    tensors: Annotated[tuple[Tensor, ...], Field(min_length=1, max_length=200)] = Field(
        description="Every array that goes in or comes out, in order."
    )
    constants: dict[Identifier, Number] = Field({}, description="Numbers that the formula names, such as an epsilon.")
    numerics: Text = Field("", description="What is kept in which precision.")
    edge_cases: Text = Field("", description="Inputs that are easily got wrong.")
    reference_formula: Annotated[str, Field(min_length=1, max_length=20_000)] | None = Field(
        None,
        description="A JAX expression over the names of tensors and constants; `jnp`, `jax.nn` and `lax` are there. "
        "Several outputs are a tuple. Either this or `baseline`.",
    )
    baseline: FilePath | None = Field(
        None,
        description="A JAX file that defines `workload(...)` over the inputs, then the parameters. Either this or "
        "`reference_formula`.",
    )
    known_implementations: Text = Field("", description="Where else it is implemented; for people.")


class Input(_Part):
    """The program that is brought."""

    type: InputType = Field(description="What it is written in; `specification` if there is no program yet.")
    path: FilePath | None = Field(None, description="Its source file. None for a specification.")
    entry_point: Identifier | None = Field(
        None, description="The class or function that is meant. Default: `Model` for pytorch, `workload` for jax."
    )
    inputs_fn: Identifier = Field("get_inputs", description="Function of the file that returns the inputs as a list.")
    init_inputs_fn: Identifier = Field(
        "get_init_inputs", description="Function of the file that returns the module's constructor's arguments."
    )
    specification: Specification | None = Field(
        None, description="For `specification`, and for `cuda`, whose text does not say what shapes it is called with."
    )

    @property
    def entry(self) -> str:
        """The entry point, by default what the type of input calls it."""
        return self.entry_point or ("Model" if self.type == "pytorch" else "workload")


class Reference(_Part):
    """Another implementation whose ideas may be borrowed. It is read as text, never executed and never the oracle."""

    type: Language = Field(description="What it is written in.")
    path: FilePath = Field(description="Its source file.")
    role: Literal["donor"] = Field("donor", description="What it is for: it donates ideas.")
    relationship: Literal["same_operation", "same_family", "unknown"] = Field(
        "unknown", description="Whether it computes what the input computes."
    )
    notes: Text = Field("", description="For people and agents.")


class Conversion(_Part):
    """How the program becomes JAX."""

    method: Literal["torchax", "port", "none"] = Field(
        "none",
        description="`torchax`: mechanically, from PyTorch. `port`: a JAX file that somebody wrote, held against recorded "
        "results of the program. `none`: it is JAX, or will be made from a specification.",
    )
    port: FilePath | None = Field(None, description="For `port`: the JAX file, which defines `workload(...)`.")


class Correctness(_Part):
    """What a port must agree with the program to: |difference| <= atol + rtol * |result|, element by element."""

    atol: Annotated[float, Field(gt=0)] = Field(1e-2, description="Absolute tolerance. A warning above 0.5.")
    rtol: Annotated[float, Field(gt=0)] = Field(1e-2, description="Relative tolerance. A warning above 0.5.")
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(1024, description="Of the inputs that results are recorded on.")
    trials: Annotated[int, Field(ge=1, le=100)] = Field(3, description="Sets of inputs that results are recorded on.")


class Target(_Part):
    """The chip."""

    tpu: Annotated[str, WithJsonSchema({"type": "string", "enum": list(TPUS)})] = Field(
        DEFAULT_TPU,
        description=f"One of {', '.join(TPUS)}: of a server with this job, unless its `--tpu` or its run says another.",
    )

    @field_validator("tpu")
    @classmethod
    def _known(cls, tpu: str) -> str:
        if tpu not in TPUS:
            raise ValueError(f"{tpu!r} is not one of {', '.join(TPUS)}")
        return tpu


class Budget(_Part):
    """What may be spent on a better kernel by the clients of `hawkeye-mcp --job JOB.json`. Null is no limit."""

    evaluations: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Judged kernels of that server; its `--max-evaluations` goes before."
    )
    autotune_points: Annotated[int, Field(ge=1)] | None = Field(
        None,
        description="Points that its tool `autotune`, which is there with `--run`, looks at in all. The command "
        "`hawkeye autotune` has `--points` instead.",
    )


class Comparison(_Part):
    """What results are compared with, beside the baseline that XLA makes of the workload."""

    compare_against_source: bool = Field(
        False,
        description="Also run the module that was brought, of pytorch alone: the import makes sure that it runs at full size and "
        "names `hawkeye compare`, which then puts a kernel's results and time beside the module's.",
    )


class Job(_Part):
    """A job file. `has_reference` and `needs_jax_conversion` say again what other fields say, so that a slip shows."""

    model_config = ConfigDict(title="hawkeye job file")

    # `schema` is a method of pydantic's models
    schema_: Literal["hawkeye.job/1"] = Field(alias="schema", description="The version of this format.")
    name: str = Field(description="Of the workload, and of its folder: letters, digits, _ and -.", max_length=100)
    description: Text = Field("", description="One line: what it computes.")
    notes: Text = Field("", description="For people and agents.")
    input: Input = Field(description="The program that is brought.")
    has_reference: bool = Field(description="Whether `references` names anything.")
    references: Annotated[tuple[Reference, ...], Field(max_length=100)] = Field(
        (), description="Other implementations to take ideas from."
    )
    needs_jax_conversion: bool = Field(
        description="Whether a program has to be converted to JAX: true for pytorch and cuda, false for jax and "
        "specification."
    )
    conversion: Conversion = Field(Conversion(), description="How the program becomes JAX.")
    sizes: dict[Size, dict[Identifier, Number]] = Field(
        {"full": {}, "check": {}},
        description="Constants of the source file (names at its top level) that are replaced: at `full` for time, at `check` "
        "for correctness. What is not named stays as it is in the file; without `check`, as at `full`.",
    )
    correctness: Correctness = Field(Correctness(), description="What a port must agree to.")
    target: Target = Field(Target(), description="The chip.")
    budget: Budget = Field(Budget(), description="What a server with this job lets its clients spend.")
    evaluation: Comparison = Field(Comparison(), description="What results are compared with.")

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        workloads.check_name(name)
        return name

    @field_validator("sizes")
    @classmethod
    def _both(cls, sizes: dict[Size, dict[str, Number]]) -> dict[Size, dict[str, Number]]:
        full = sizes.get("full", {})
        return {"full": full, "check": sizes.get("check", full)}

    @property
    def needs_approval(self) -> bool:
        """Whether nothing but a person can say that the baseline is what was meant: no program can be run beside it."""
        return self.input.type in ("specification", "cuda")

    @property
    def made_from(self) -> str | None:
        """The JAX file that the baseline of a specification or of a CUDA kernel is made from; None: from the formula."""
        if self.input.type == "cuda":
            return self.conversion.port
        return self.input.specification.baseline if self.input.specification else None

    def paths(self) -> dict[str, str]:
        """Field: path, of every file that the job names."""
        named = {
            "input.path": self.input.path,
            "conversion.port": self.conversion.port,
            "input.specification.baseline": self.input.specification and self.input.specification.baseline,
            **{f"references[{i}].path": reference.path for i, reference in enumerate(self.references)},
        }
        return {field: path for field, path in named.items() if path}

    def resolved(self, folder: Path) -> "Job":
        """This job with every path absolute; a relative one is meant from the job file's folder."""

        def absolute(path: str | None) -> str | None:
            return str((folder / path).absolute()) if path else None

        specification = self.input.specification
        if specification:
            specification = specification.model_copy(update={"baseline": absolute(specification.baseline)})
        changed: dict[str, Any] = {
            "input": self.input.model_copy(update={"path": absolute(self.input.path), "specification": specification}),
            "conversion": self.conversion.model_copy(update={"port": absolute(self.conversion.port)}),
            "references": tuple(
                reference.model_copy(update={"path": absolute(reference.path)}) for reference in self.references
            ),
        }
        return self.model_copy(update=changed)
