"""A JAX file that stands for a program which is not there, as data: the baseline of a specification, the port of a CUDA kernel.

It is often written by an agent, so it runs in the sandbox of candidates alone, once for both sizes, and is asked for its
lengths, its inputs and its program. What comes back may be forged. The program is the text that `emit` writes, which `emitted`
checks; inputs are arrays of the shapes and dtypes that are declared. `recording` makes of them what is run and recorded.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.candidate.sandbox import Ended, Limits, Sandbox
from hawkeye_mcp.chips import CHIPS, DEFAULT_TPU
from hawkeye_mcp.intake import parsing, signature, specification, stand_in_reply
from hawkeye_mcp.intake.capture import LARGEST_RECORD_BYTES, CaptureFailed
from hawkeye_mcp.intake.inside import record, source
from hawkeye_mcp.intake.job import Job, Specification, Tensor
from hawkeye_mcp.intake.stand_in_reply import Array
from hawkeye_mcp.intake.trace_port import PortRefused, SandboxFailed, cleaned
from hawkeye_mcp.workloads import Size

_CHIP = CHIPS[DEFAULT_TPU]  # it is traced for no chip
_MOST_GIVEN_BYTES = 128 << 20  # of the file's inputs in one answer
_LONGEST = 1 << 40


@dataclass(frozen=True)
class AtSize:
    """The program at one size. shapes: of its arguments and results, by name. program: its checked source.

    own: arrays of its own that it takes after the arguments, in their order.
    """

    lengths: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    program: str
    own: Sequence[Array]


@dataclass(frozen=True)
class StandIn:
    """sizes: one for both where they are the same.

    inputs: by seed, then argument, at the check size; None where the file gives none, so that they are drawn. kept: by place,
    arguments at full size that are never drawn.
    """

    sizes: Mapping[Size, AtSize]
    inputs: Mapping[int, Sequence[Array]] | None = None
    kept: Mapping[int, Array] = field(default_factory=dict)


async def taken(job: Job, text: str) -> StandIn:
    """What the sandbox says of a file.

    job: as asked for. text: the source that `specification` makes of the file.

    Raises:
        PortRefused: the file is at fault. SandboxFailed. specification.UnusableSource: it cannot be read.
    """
    asked = _Asked(job, text)
    for attempt in (1, 2):
        box = await Sandbox.start(_CHIP, Limits(reply_bytes=asked.reply_bytes))
        try:
            if asked.gives_inputs:
                from hawkeye_mcp.intake.inside import draws  # noqa: F401  # scipy takes a second, and the sandbox starts meanwhile
            return await asked.all_of(box)
        except _Killed as killed:  # it says nothing of the file, which gets one more
            if attempt == 2:
                raise stand_in_reply.none_came(killed.ended, asked.name) from None
        finally:
            await box.close()
    raise AssertionError


class _Killed(Exception):
    def __init__(self, ended: Ended) -> None:
        self.ended = ended


class _Asked:
    """One file, and what is asked of it."""

    def __init__(self, job: Job, text: str) -> None:
        declared = job.input.specification
        assert declared and job.made_from
        self._job, self._declared, self.name = job, declared, job.made_from.rpartition("/")[2]
        self._text, self._own_names = text, specification.own_names(job)
        self._arguments = signature.arguments(declared)
        tensors = {tensor.name: tensor for tensor in declared.tensors}
        self._tensors = [tensors[name] for name in self._arguments]
        self.gives_inputs = job.input.inputs_fn in self._own_names
        # as text, and integers of twice the declared width
        self.reply_bytes = stand_in_reply.LEAST_BYTES + 3 * _MOST_GIVEN_BYTES * self.gives_inputs

    async def all_of(self, box: Sandbox) -> StandIn:
        check = await self._lengths(box, "check")
        inputs = await self._inputs(box, check) if self.gives_inputs else None
        at_check = await self._program(box, check, "check")
        if (again := await self._program(box, check, "check")) and not _same(at_check, again):
            raise PortRefused(
                f"Two traces of {self.name} are not one program.",
                "Make it a function of its arguments alone. Look for random numbers that are not from jax.random.",
            )
        if self._job.sizes["check"] == self._job.sizes["full"]:
            return StandIn({"check": at_check, "full": at_check}, inputs)
        full = await self._lengths(box, "full")
        kept = await self._kept(box, full, inputs) if inputs else {}
        return StandIn({"check": at_check, "full": await self._program(box, full, "full")}, inputs, kept)

    async def _lengths(self, box: Sandbox, size: Size) -> dict[str, int]:
        """Load the file at a size; the values of all names that shapes have there."""
        names = {dim for tensor in self._declared.tensors for dim in tensor.shape if isinstance(dim, str)}
        given = self._job.sizes[size]
        asked = sorted(name for name in names if name not in given and name in self._own_names)
        reply = await self._ask(box, {"lengths": asked}, source=self._sized(size))
        told = reply.get("lengths")
        known: dict[str, Any] = {
            **self._declared.constants,
            **self._job.sizes["check"],
            **self._job.sizes["full"],
            **given,
        }
        known |= {name: told.get(name) if isinstance(told, dict) else None for name in asked}
        for name in names:
            if type(known[name]) is not int or not 1 <= known[name] < _LONGEST:
                raise PortRefused(
                    f"{name} is {cleaned(known[name], 100)} at {size} size, and is to be a length.",
                    "Give it a whole number above 0.",
                )
        return {name: known[name] for name in names}

    def _sized(self, size: Size) -> str:
        try:
            tree = parsing.parse(self._text)
            return source.replaced(self._text, tree, self._job.sizes[size], self.name)  # type: ignore[arg-type]
        except parsing.NotPython as error:
            raise PortRefused(f"{self.name} is no Python: {error}.", "Mend the file.") from None
        except CaptureFailed as error:
            raise PortRefused(error.message, error.fix) from None

    async def _program(self, box: Sandbox, lengths: Mapping[str, int], size: Size) -> AtSize:
        shapes = _shapes(self._declared, lengths)
        arguments = [[list(shapes[tensor.name]), tensor.dtype] for tensor in self._tensors]
        reply = await self._ask(box, {"trace": {"arguments": arguments, "names": self._arguments}})
        text, own = stand_in_reply.program(reply.get("program"), len(arguments), self.name)
        return AtSize(lengths, shapes, text, own)

    async def _inputs(self, box: Sandbox, lengths: Mapping[str, int]) -> dict[int, list[Array]]:
        from hawkeye_mcp.intake.inside import draws

        trials = self._job.correctness.trials
        self._fits(self._tensors, lengths, "check", min(LARGEST_RECORD_BYTES // trials, _MOST_GIVEN_BYTES))
        seeds = [self._job.correctness.seed + number for number in range(max(trials, draws.SEEDS))]
        return {seed: await self._given(box, lengths, seed, None) for seed in seeds}

    async def _kept(
        self, box: Sandbox, lengths: Mapping[str, int], inputs: Mapping[int, Sequence[Array]]
    ) -> dict[int, Array]:
        """What of the arguments is not drawn, at full size: as `inside.jax_source` will find on the same arrays."""
        from hawkeye_mcp.intake.inside import draws

        with np.errstate(all="ignore"):
            places = [
                place
                for place, samples in enumerate(zip(*inputs.values(), strict=True))
                if not draws.choose(list(samples)).draw
            ]
        if not places:
            return {}
        self._fits([self._tensors[place] for place in places], lengths, "full", _MOST_GIVEN_BYTES)
        found = await self._given(box, lengths, self._job.correctness.seed, places)
        return dict(zip(places, found, strict=True))

    @staticmethod
    def _fits(tensors: Sequence[Tensor], lengths: Mapping[str, int], size: Size, most: int) -> None:
        if _bytes(tensors, lengths) > most:
            raise PortRefused(
                f"At {size} size the inputs that the file gives ({', '.join(tensor.name for tensor in tensors)}) take more "
                f"than {most / 1e6:.4g} MB.",
                f"Give `sizes` smaller numbers at `{size}`, or `correctness` fewer trials, or leave the inputs to be drawn.",
            )

    async def _given(
        self, box: Sandbox, lengths: Mapping[str, int], seed: int, places: list[int] | None
    ) -> list[Array]:
        """The file's inputs at one seed, all or those at some places."""
        function = self._job.input.inputs_fn
        tensors = self._tensors if places is None else [self._tensors[place] for place in places]
        dtypes = [tensor.dtype for tensor in tensors]
        asked = {"function": function, "seed": seed, "dtypes": dtypes, "places": places}
        found = (await self._ask(box, {"inputs": asked})).get("inputs")
        if not isinstance(found, list) or len(found) != len(tensors):
            count = len(found) if isinstance(found, list) else 0
            raise PortRefused(
                f"{function} in {self.name} gives {count} arrays instead of {len(tensors)}.",
                f"Let it return {', '.join(tensor.name for tensor in tensors)} as a list, in their order.",
            )
        shapes = _shapes(self._declared, lengths)
        return [
            self._declared_as(stand_in_reply.array(each, self.name), tensor, shapes[tensor.name])
            for each, tensor in zip(found, tensors, strict=True)
        ]

    def _declared_as(self, array: Array, tensor: Tensor, shape: tuple[int, ...]) -> Array:
        try:
            array = record.narrowed(array, tensor.name)
        except CaptureFailed as error:
            raise PortRefused(error.message, error.fix) from None
        if array.shape == shape and array.dtype == stand_in_reply.dtype_of(tensor.dtype):
            return array
        raise PortRefused(
            f"{self._job.input.inputs_fn} in {self.name} gives {tensor.name} as {array.dtype.name} {list(array.shape)}, and it is "
            f"declared as {tensor.dtype} {list(shape)}.",
            "Mend the file, or the specification's tensors.",
        )

    async def _ask(self, box: Sandbox, asked: dict[str, Any], source: str | None = None) -> dict[str, Any]:
        """Raises PortRefused, SandboxFailed, _Killed."""
        request: dict[str, Any] = {"stand_in": {"folder": isolation.port_folder(), **asked}}
        ended = await box.ask(request if source is None else {"source": source, **request}, _CHIP)
        if ended.killed:
            raise _Killed(ended)
        if not ended.started:
            raise SandboxFailed(f"the sandbox did not get ready: {ended.why}. {ended.stderr_tail[-1000:]}")
        if ended.reply is None:
            raise stand_in_reply.none_came(ended, self.name)
        if isinstance(failed := ended.reply.get("failed"), dict):
            own_lines = specification.lines_of(self._job)
            raise stand_in_reply.fault(failed, self.name, own_lines, self._job.input.inputs_fn)
        return ended.reply


def _same(one: AtSize, other: AtSize) -> bool:
    return one.program == other.program and all(
        mine.dtype == its.dtype and mine.tobytes() == its.tobytes()
        for mine, its in zip(one.own, other.own, strict=True)
    )


def _shapes(declared: Specification, lengths: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {
        tensor.name: tuple(lengths[dim] if isinstance(dim, str) else dim for dim in tensor.shape)
        for tensor in declared.tensors
    }


def _bytes(tensors: Sequence[Tensor], lengths: Mapping[str, int]) -> int:
    """Of arrays as declared."""
    lengths_of = ([lengths[dim] if isinstance(dim, str) else dim for dim in tensor.shape] for tensor in tensors)
    return sum(
        math.prod(of) * stand_in_reply.dtype_of(tensor.dtype).itemsize
        for of, tensor in zip(lengths_of, tensors, strict=True)
    )
