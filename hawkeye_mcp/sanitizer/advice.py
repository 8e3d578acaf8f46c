"""What each kind of finding does on a real TPU, how to mend it, and which check sees it."""

from dataclasses import dataclass

from hawkeye_mcp.sanitizer.model import Check, Kind

# Chips on which one kernel's parallel axes may be split between two TensorCores (jax's TpuInfo: v4 and v5p devices
# have two cores that share the grid; 7x has two per chip).
TWO_CORES = ("v5p", "7x")


@dataclass(frozen=True)
class Advice:
    check: Check
    on_tpu: str
    advice: str


ADVICE: dict[Kind, Advice] = {
    "uninitialised_read": Advice(
        "uninitialised",
        "VMEM holds whatever an earlier kernel or grid step left there: the result is garbage, and another one each time.",
        "Write the memory before the first read: `@pl.when(k == 0)` and a store of zeros, k being the axis that accumulates.",
    ),
    "unwritten_output": Advice(
        "uninitialised",
        "The output keeps what its HBM or its window held before, often an earlier result that looks right.",
        "Write every element of every output block at its last visit; look at the grid, the index map and each `pl.when`.",
    ),
    "ragged_edge": Advice(
        "uninitialised",
        "The part of a block past the array's edge holds garbage on a TPU, NaN included, and it reaches the result.",
        "Mask it before it is reduced or multiplied: compare an iota plus the block's start with the array's size in `jnp.where`.",
    ),
    "parallel_carry": Advice(
        "parallel",
        "Points of a parallel axis have no order and may run on two cores with memory of their own: what one left the other"
        " does not see, and both write the same block.",
        'Declare the axis that accumulates "arbitrary" in dimension_semantics, and keep "parallel" for independent ones.',
    ),
    "out_of_bounds": Advice(
        "out_of_bounds",
        "A TPU does not clamp: it reads or overwrites neighbouring memory, or halts where the access is a copy.",
        "Bound the index, or mask the access; size - block is the last legal start.",
    ),
    "block_out_of_bounds": Advice(
        "out_of_bounds",
        "The pipeline copies from or to memory outside the array: garbage, or the core halts.",
        "Make the index map return block numbers below ceil(size / block), also at the last grid step.",
    ),
    "revisited_out_of_order": Advice(
        "revisits",
        "A block is written back when the next one begins and never read in again: what was accumulated in it is lost.",
        "Order the grid so that all visits of an output block follow each other: the reduced axis last.",
    ),
    "read_before_wait": Advice(
        "dma",
        "The copy is still running: the read sees old data, new data or a mixture, depending on timing.",
        "Wait for the copy (`copy.wait()`) before the first read of what it writes.",
    ),
    "dma_never_waited": Advice(
        "dma",
        "The kernel may end while the copy runs, and its semaphore breaks whichever kernel uses it next.",
        "Wait once for every copy that was started, on every path, also for the last one of a loop.",
    ),
    "wait_never_ends": Advice(
        "dma",
        "The core waits for ever and the TPU hangs until it is reset.",
        "Start the copy, or send the signal, before waiting for it, and wait for it once, with its own semaphore.",
    ),
    "semaphore_not_zero": Advice(
        "semaphores",
        "The next user of the semaphore goes on too early; the runtime may halt the core when the kernel ends.",
        "Let waits take off exactly what signals and copies put on.",
    ),
    "race": Advice(
        "races",
        "Which access comes first depends on timing: the result may be right in every test and wrong in production.",
        "Put a wait between the two, or give each its own buffer slot.",
    ),
    "input_written": Advice(
        "out_of_bounds",
        "The caller's array, or the pipeline's window on it, changes under whoever reads it next.",
        "Write to a scratch or to an output; declare input_output_aliases where the input is meant to be replaced.",
    ),
    "undeclared_alias": Advice(
        "static",
        "The workload's inputs belong to the caller: XLA copies the whole array first, or the caller's data is overwritten.",
        "Return a new array; alias only arrays that the workload itself has computed.",
    ),
}
