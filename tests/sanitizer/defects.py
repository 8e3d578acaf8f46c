"""Seeded defects: each is one small change of a right kernel in families/, and the kind of finding that it must give.

A defect may be told as any of the kinds in `also` too, where two describe the same thing.
"""

from dataclasses import dataclass
from pathlib import Path

FAMILIES = Path(__file__).parent / "families"


@dataclass(frozen=True)
class Defect:
    family: str
    kind: str
    name: str
    old: str
    new: str
    also: tuple[str, ...] = ()

    def source(self) -> str:
        text = (FAMILIES / f"{self.family}.py").read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (self.family, self.name, text.count(self.old))
        return text.replace(self.old, self.new)

    @property
    def line(self) -> int:
        """The first line that differs."""
        text = (FAMILIES / f"{self.family}.py").read_text(encoding="utf-8")
        return text[: text.index(self.old)].count("\n") + 1


_PARALLEL = '("parallel", "parallel", "arbitrary")'
_TWO = '("parallel", "arbitrary")'

DEFECTS = (
    # memory read before anything was written to it
    Defect("matmul", "uninitialised_read", "the sum is never set to zero", "pl.program_id(2) == 0", "pl.program_id(2) < 0"),
    Defect("row_sum", "uninitialised_read", "the output block is never set to zero", "k == 0", "k == -1"),
    Defect("attention", "uninitialised_read", "the running maximum has no start", "        m_ref[...] = jnp.full_like(m_ref, -1e30)\n", ""),
    Defect("attention", "uninitialised_read", "the running sum has no start", "        l_ref[...] = jnp.zeros_like(l_ref)\n", ""),
    Defect("scan", "uninitialised_read", "the state has no start", "pl.program_id(1) == 0", "pl.program_id(1) == 9"),
    Defect("grouped", "uninitialised_read", "only the first block of rows is set to zero", "pl.program_id(1) == 0", "pl.program_id(0) + pl.program_id(1) == 0"),
    Defect("stencil", "uninitialised_read", "fewer rows are copied than read", "copy = pltpu.make_async_copy(x_ref.at[pl.ds(first, ROWS + 2)], block, sem)", "copy = pltpu.make_async_copy(x_ref.at[pl.ds(first, ROWS)], block.at[pl.ds(0, ROWS)], sem)"),
    Defect("signals", "uninitialised_read", "half of a scratch is written", "half[...] = x_ref[...] * 0.5", "half[:64] = x_ref[:64] * 0.5"),
    # outputs of which not all is written
    Defect("matmul", "unwritten_output", "the result is stored at a step that never comes", "pl.num_programs(2) - 1", "pl.num_programs(2)"),
    Defect("matmul", "unwritten_output", "half of the output blocks are stored", "@pl.when(pl.program_id(2) == pl.num_programs(2) - 1)", "@pl.when((pl.program_id(2) == pl.num_programs(2) - 1) & (pl.program_id(1) == 0))"),
    Defect("row_sum", "unwritten_output", "the last rows have no grid step", "grid=(rows // ROWS, ", "grid=(rows // ROWS - 1, "),
    Defect("stream", "unwritten_output", "the last chunk is left out", "jax.lax.fori_loop(0, chunks, step, 0)", "jax.lax.fori_loop(0, chunks - 1, step, 0)", ("dma_never_waited",)),
    Defect("attention", "unwritten_output", "half of an output block is written", "o_ref[0] = acc_ref[...] / l_ref[...]", "o_ref[0, :32] = acc_ref[:32] / l_ref[:32]"),
    Defect("scan", "unwritten_output", "the last row of each block is not stored", "jax.lax.fori_loop(0, ROWS, row, state_ref[...])", "jax.lax.fori_loop(0, ROWS - 1, row, state_ref[...])"),
    Defect("stencil", "unwritten_output", "odd blocks are not stored", "    o_ref[...] = total", "    @pl.when(pl.program_id(0) % 2 == 0)\n    def _():\n        o_ref[...] = total"),
    # what lies past an array's edge
    Defect("row_sum", "ragged_edge", "no mask", "jnp.where(column < columns, x_ref[...], 0.0)", "x_ref[...]"),
    Defect("row_sum", "ragged_edge", "the mask is one column too wide", "column < columns", "column <= columns"),
    Defect("row_sum", "ragged_edge", "a mask by multiplication", "jnp.where(column < columns, x_ref[...], 0.0)", "x_ref[...] * (column < columns)"),
    Defect("attention", "ragged_edge", "scores are not masked", "s = jnp.where(column < length, s, -1e30)", "s = s + 0.0"),
    Defect("attention", "ragged_edge", "values are not masked", "jnp.where(row < length, v_ref[0], 0.0)", "v_ref[0]"),
    Defect("edge", "ragged_edge", "what a copy brings from past the edge is not masked", "jnp.where(column < x_ref.shape[1], block[...], 0.0)", "block[...]"),
    # what one point of a parallel axis leaves for another
    Defect("matmul", "parallel_carry", "the reduced axis is parallel", _PARALLEL, '("parallel", "parallel", "parallel")'),
    Defect("row_sum", "parallel_carry", "the reduced axis is parallel", _TWO, '("parallel", "parallel")'),
    Defect("attention", "parallel_carry", "the keys' axis is parallel", _PARALLEL, '("parallel", "parallel", "parallel")'),
    Defect("scan", "parallel_carry", "the scanned axis is parallel", _TWO, '("parallel", "parallel")'),
    Defect("grouped", "parallel_carry", "the reduced axis is parallel", _TWO, '("arbitrary", "parallel")'),
    # out of bounds
    Defect("stencil", "out_of_bounds", "a shift too far at the last block", "pl.ds(shift, ROWS)", "pl.ds(shift + pl.program_id(0) // 3, ROWS)"),
    Defect("scan", "out_of_bounds", "reads one row ahead", "x_ref[0, pl.ds(i, 1), :]", "x_ref[0, pl.ds(i + 1, 1), :]"),
    Defect("scan", "out_of_bounds", "writes one row ahead", "o_ref[0, pl.ds(i, 1), :] = state", "o_ref[0, pl.ds(i + 1, 1), :] = state"),
    Defect("stream", "out_of_bounds", "fetches one chunk too many", "@pl.when(i + 1 < chunks)", "@pl.when(i < chunks)"),
    Defect("stream", "out_of_bounds", "writes one chunk too far", "o_ref.at[pl.ds(i * CHUNK, CHUNK)]", "o_ref.at[pl.ds((i + 1) * CHUNK, CHUNK)]"),
    Defect("edge", "out_of_bounds", "copies from the tile after the last", "x_ref.at[:, pl.ds(step * LANES, LANES)]", "x_ref.at[:, pl.ds((step + 1) * LANES, LANES)]"),
    Defect("grouped", "out_of_bounds", "reads the table past its end", "lambda i, k, group: (group[i], k, 0)", "lambda i, k, group: (group[i + 1], k, 0)"),
    Defect("matmul", "block_out_of_bounds", "the input's map is one block off", "lambda i, j, k: (k, j))]", "lambda i, j, k: (k + 1, j))]"),
    Defect("row_sum", "block_out_of_bounds", "the output's map is one block off", "lambda i, k: (i, 0)", "lambda i, k: (i + 1, 0)"),
    Defect("grouped", "block_out_of_bounds", "a group that there is not", "(group[i], k, 0)", "(group[i] + 2, k, 0)"),
    Defect("attention", "block_out_of_bounds", "one step of keys too many", "pl.cdiv(length, K))", "pl.cdiv(length, K) + 1)"),
    # output blocks left and visited again
    Defect("row_sum", "revisited_out_of_order", "the reduced axis comes first", "grid=(rows // ROWS, pl.cdiv(columns, COLUMNS)),\n        in_specs=[pl.BlockSpec((ROWS, COLUMNS), lambda i, k: (i, k))],\n        out_specs=pl.BlockSpec((ROWS, 1), lambda i, k: (i, 0)),", "grid=(pl.cdiv(columns, COLUMNS), rows // ROWS),\n        in_specs=[pl.BlockSpec((ROWS, COLUMNS), lambda k, i: (i, k))],\n        out_specs=pl.BlockSpec((ROWS, 1), lambda k, i: (i, 0)),", ("parallel_carry", "uninitialised_read")),
    Defect("matmul", "revisited_out_of_order", "output blocks alternate", "out_specs=pl.BlockSpec((B, B), lambda i, j, k: (i, j))", "out_specs=pl.BlockSpec((B, B), lambda i, j, k: (i, (j + k) % 2))", ("parallel_carry",)),
    Defect("scan", "revisited_out_of_order", "blocks of the output alternate", "out_specs=pl.BlockSpec((1, ROWS, width), lambda b, i: (b, i, 0))", "out_specs=pl.BlockSpec((1, ROWS, width), lambda b, i: (b, i % 2, 0))", ("unwritten_output",)),
    Defect("grouped", "revisited_out_of_order", "the output's block follows the group", "out_specs=pl.BlockSpec((ROWS, 128), lambda i, k, group: (i, 0))", "out_specs=pl.BlockSpec((ROWS, 128), lambda i, k, group: ((i + k) % 2, 0))", ("parallel_carry", "unwritten_output")),
    # copies and their waits
    Defect("stream", "read_before_wait", "the copy in is read before it is waited for", "        fetch(i, slot).wait()\n        result[...] = buffer[slot] * 2.0\n", "        result[...] = buffer[slot] * 2.0\n        fetch(i, slot).wait()\n", ("race", "uninitialised_read")),
    Defect("stencil", "read_before_wait", "the block is read before its copy is waited for", "    copy.wait()\n    total = block[pl.ds(0, ROWS), :]\n", "    total = block[pl.ds(0, ROWS), :]\n    copy.wait()\n", ("race", "uninitialised_read")),
    Defect("stream", "read_before_wait", "the wrong slot is read", "buffer[slot] * 2.0", "buffer[1 - slot] * 2.0", ("race", "uninitialised_read")),
    Defect("stream", "dma_never_waited", "the copy out is not waited for", "        back.wait()\n", "", ("race",)),
    Defect("stream", "dma_never_waited", "one fetch too many is started", "@pl.when(i + 1 < chunks)\n        def _():\n            fetch(i + 1, 1 - slot).start()", "@pl.when(i >= 0)\n        def _():\n            fetch(jnp.minimum(i + 1, chunks - 1), 1 - slot).start()"),
    Defect("stencil", "dma_never_waited", "the copy is started and forgotten", "    copy.wait()\n", "", ("read_before_wait",)),
    Defect("stream", "wait_never_ends", "the first fetch is not started", "    fetch(0, 0).start()\n", ""),
    Defect("stencil", "wait_never_ends", "the copy is waited for twice", "    copy.wait()\n", "    copy.wait()\n    copy.wait()\n"),
    Defect("signals", "wait_never_ends", "waits for more than was sent", "pl.semaphore_wait(ready, 2)", "pl.semaphore_wait(ready, 3)"),
    Defect("signals", "semaphore_not_zero", "waits for less than was sent", "pl.semaphore_wait(ready, 2)", "pl.semaphore_wait(ready, 1)"),
    Defect("stencil", "semaphore_not_zero", "a wait for fewer rows than were copied", "    copy.wait()\n", "    pltpu.make_async_copy(x_ref.at[pl.ds(first, ROWS)], block.at[pl.ds(0, ROWS)], sem).wait()\n"),
    Defect("stream", "race", "what is copied out is overwritten before it has left", "        back.start()\n        back.wait()\n", "        back.start()\n        result[...] = jnp.zeros_like(result)\n        back.wait()\n"),
    Defect("stream", "race", "both fetches use one slot", "fetch(i + 1, 1 - slot).start()", "fetch(i + 1, slot).start()", ("read_before_wait", "uninitialised_read", "wait_never_ends")),
    # what belongs to the caller
    Defect("matmul", "input_written", "an input block is changed", "    acc_ref[...] += ", "    x_ref[...] = x_ref[...] * 1.0\n    acc_ref[...] += "),
    Defect("stream", "input_written", "the copy goes back into the input", "o_ref.at[pl.ds(i * CHUNK, CHUNK)]", "x_ref.at[pl.ds(i * CHUNK, CHUNK)]"),
    Defect("signals", "undeclared_alias", "the workload's input is overwritten", ")(doubled)", ")(x)"),
    Defect("scan", "undeclared_alias", "the workload's input is overwritten", "out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32),", "out_shape=jax.ShapeDtypeStruct(x.shape, jnp.float32),\n        input_output_aliases={0: 0},"),
)  # fmt: skip
