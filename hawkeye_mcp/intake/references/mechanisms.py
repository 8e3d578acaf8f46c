"""Means by which GPU kernels are fast, each with what does the same on a TPU, or none."""

from dataclasses import dataclass, field

from hawkeye_mcp.intake.references.model import MatrixUnit, Mechanism, Place

_PLACES_SHOWN = 8
_CODE_SHOWN = 100
_MOST_FACTS = 500

# name: (counterpart or None, one sentence)
COUNTERPARTS: dict[str, tuple[str | None, str]] = {
    "shared_memory_tiling": (
        "pl.BlockSpec",
        "A block that the BlockSpec names is in VMEM when the kernel body runs, so no load loop is written for it.",
    ),
    "block_windows": (
        "pl.BlockSpec",
        "A pointer to a block with its offsets becomes a BlockSpec with its index map.",
    ),
    "dynamic_shared_memory": (
        "pltpu.VMEM in scratch_shapes",
        "Sizes are known when the kernel is traced: scratch_shapes declares each array with its shape and dtype.",
    ),
    "asynchronous_copy": (
        "pltpu.make_async_copy",
        "The grid's pipeline copies blocks ahead by itself; copies that it cannot express are started and waited for by hand.",
    ),
    "bulk_tensor_copy": (
        "pltpu.make_async_copy",
        "The DMA engine moves whole tiles given by a slice of an HBM reference.",
    ),
    "double_buffering": (
        "pl.BlockSpec",
        "Windows of the grid are double-buffered by the compiler; by hand, two VMEM slots and two DMA semaphores.",
    ),
    "software_pipelining": (
        "pl.BlockSpec",
        "The compiler overlaps the copies of the next grid step with the work of this one; pl.Buffered asks for more slots.",
    ),
    "warp_shuffle": (
        "jnp.sum or jnp.max over the last axis",
        "A reduction over lanes is one operation of the cross-lane unit on whole vectors; pltpu.roll moves lanes.",
    ),
    "warp_vote": (
        None,
        "There are no threads that could vote: conditions are masks of whole vectors, for jnp.where.",
    ),
    "block_reduction": (
        "jnp.sum or jnp.max",
        "A tree over shared memory becomes one reduction of the block in VMEM.",
    ),
    "reduction": ("jnp.sum or jnp.max", "A reduction of a block is the same operation on the block in VMEM."),
    "scan": (
        None,
        "The TPU compiler has no scan over a block in a kernel: carry the running value over grid steps, or multiply by a "
        "triangular matrix of ones.",
    ),
    "atomics": (
        None,
        "A core runs its grid steps one after another, so a block that all of them revisit is summed without atomics.",
    ),
    "vectorised_access": (
        None,
        "Nothing has to be asked for: every load takes whole registers of 8 x 128 elements.",
    ),
    "register_tiling": (
        "values held in the kernel body",
        "Small arrays of a thread become values of whole blocks, which the compiler keeps in vector registers while they fit.",
    ),
    "split_k": (
        "a grid axis over K that revisits the output block",
        "One core sums over K in VMEM scratch in order; parts worked on at once need a second core and a second pass.",
    ),
    "persistent_kernel": (
        "the grid of pl.pallas_call",
        "A core walks the grid by itself and keeps its scratch between steps: every Pallas kernel is persistent.",
    ),
    "grid_stride_loop": (
        "the grid of pl.pallas_call",
        "Blocks for all elements become grid steps; the loop over them is the grid.",
    ),
    "online_softmax": (
        "running maximum and sum in pltpu.VMEM scratch",
        "The same recurrence over grid steps of the key axis, with jnp.exp on whole blocks.",
    ),
    "grid_synchronisation": (
        None,
        "Grid steps of a core are in order, and kernels of a program follow one another: split it in two pallas_calls.",
    ),
    "thread_block_cluster": (
        None,
        "Blocks share no memory across cores; what one core leaves in VMEM scratch, its next grid step reads.",
    ),
    "block_synchronisation": (
        None,
        "The body is one instruction stream, so it needs no barrier; only copies by hand have semaphores to wait for.",
    ),
    "memory_barrier_object": (
        "pltpu.SemaphoreType.DMA",
        "Each copy signals a semaphore that its consumer waits for.",
    ),
    "memory_fence": (None, "No other thread reads along, so there is nothing to fence off."),
    "warp_specialisation": (
        None,
        "Copies run on the DMA engines beside the one instruction stream, so no part of it is set aside to start them.",
    ),
    "matrix_unit": (
        "lax.dot_general with preferred_element_type=jnp.float32",
        "The MXU multiplies blocks of 128 or 256 a side; operands in bfloat16, sums in float32.",
    ),
    "bank_conflict_padding": (None, "VMEM has no banks to collide in: pad to whole tiles of 8 x 128 instead."),
    "swizzled_layout": (
        None,
        "The compiler lays arrays out in tiles; an index that is shuffled by hand costs it that.",
    ),
    "grid_reordering": (
        "the index map of pl.BlockSpec",
        "No cache is shared, so an order of blocks only pays where a block is kept from one step to the next.",
    ),
    "read_only_cache": (None, "There is no cache: what is read again is held in VMEM, as a block or as scratch."),
    "cache_hint": (None, "There is no cache to hint at: what stays on chip is what blocks and scratch hold."),
    "constant_memory": (
        "pltpu.PrefetchScalarGridSpec",
        "Small tables go into SMEM ahead of the grid, where index maps and the body read scalars.",
    ),
    "scalar_prefetch": ("pltpu.PrefetchScalarGridSpec", "It is the TPU's own."),
    "masked_access": (
        "jnp.where with pl.program_id and lax.broadcasted_iota",
        "Blocks at the edge are padded by the pipeline; what must not count is masked in the body.",
    ),
    "loop_unrolling": ("lax.fori_loop with unroll", "A Python loop over a known count is unrolled when it is traced."),
    "fast_math": (
        "jnp.exp and lax.rsqrt",
        "The transcendental unit computes them at one rate; there are no faster variants.",
    ),
    "random_numbers": ("pltpu.prng_random_bits", "Seeded by pltpu.prng_seed, in the kernel."),
    "dynamic_parallelism": (None, "A kernel starts no kernel: branches of one program do, by lax.cond outside of it."),
    "library_primitives": (None, "The library's templates hide what is done: read what they expand to."),
    "inline_assembly": (None, "Its instructions are another machine's: what they do has to be said in jnp and pltpu."),
    "revisited_output": (
        "pl.when on pl.program_id",
        "It is the TPU's own: a block whose index does not change from one step to the next stays in VMEM.",
    ),
    "dimension_semantics": (
        "pltpu.CompilerParams(dimension_semantics=...)",
        "It is the TPU's own: axes that are parallel may be shared by two cores.",
    ),
    "inner_pipeline": ("pltpu.emit_pipeline", "It is the TPU's own: a pipeline over blocks inside a kernel."),
    "remote_copy": ("pltpu.make_async_remote_copy", "It is the TPU's own: copies to another chip's memory."),
    "autotuned_constants": (
        "named integers of the kernel, for hawkeye autotune",
        "Block sizes are searched again: those of a GPU say nothing of a TPU's.",
    ),
}


@dataclass
class Found:
    """What is being collected of one file."""

    places: dict[str, list[Place]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    matrix: list[MatrixUnit] = field(default_factory=list)

    def note(self, name: str, line: int, kernel: str | None, code: str) -> None:
        """A place that shows a mechanism; a line counts once for each."""
        assert name in COUNTERPARTS, name
        places = self.places.setdefault(name, [])
        if places and places[-1].line == line:
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        if len(places) < _MOST_FACTS:
            places.append(Place(line=line, kernel=kernel, code=shortened(code)))

    def note_matrix(self, instruction: str, shape: str | None, line: int, kernel: str | None, code: str) -> None:
        self.note("matrix_unit", line, kernel, code)
        known = MatrixUnit(instruction=shortened(instruction), shape=shape, line=line, kernel=kernel)
        if known not in self.matrix[-3:] and len(self.matrix) < _MOST_FACTS:
            self.matrix.append(known)

    def mechanisms(self) -> list[Mechanism]:
        """In the order of COUNTERPARTS."""
        return [
            Mechanism(
                name=name,
                tpu_counterpart=counterpart,
                on_tpu=sentence,
                places=sorted(self.places[name], key=lambda place: place.line)[:_PLACES_SHOWN],
                count=self.counts[name],
            )
            for name, (counterpart, sentence) in COUNTERPARTS.items()
            if name in self.places
        ]


def shortened(code: str) -> str:
    text = " ".join(code.split())
    return text if len(text) <= _CODE_SHOWN else f"{text[:_CODE_SHOWN]}..."
