"""What the compiler's and the tracer's words mean for the author of a kernel, in one line."""

import re

# (pattern in the message, advice); the first that matches is given.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"divisible by 8 and 128|last two dimensions of your block shape",
        "The last two dimensions of a block must be divisible by 8 and 128, or equal the array's own: choose such a block.",
    ),
    (
        r"E1001|CompileTimeScopedVmemOom|scoped vmem|memory space vmem|space=vmem",
        "Blocks, double buffers, scratch and spills do not fit in VMEM: use smaller blocks, or raise vmem_limit_bytes in"
        " pltpu.CompilerParams (the chip has 128 MiB on v5e and v6e, 64 MiB per core on v5p and 7x).",
    ),
    (
        r"E1000|CompileTimeHbmOom|memory space hbm",
        "The program needs more HBM than the chip has: drop large intermediates.",
    ),
    (
        r"E2001|UnsupportedRhsType",
        "This chip's MXU does not take that operand type: use bfloat16, or int8 where it exists.",
    ),
    (
        r"E2003|UnprovenMemoryAccessAlignment|[Uu]nproven.*align|aligned to tiles",
        "A dynamic index is not provably aligned: use pl.multiple_of, aligned starts, or a mask.",
    ),
    (
        r"Unimplemented primitive in Pallas TPU lowering",
        "Pallas on TPU has no lowering for that primitive: index refs instead of slicing values, write cumsum as a product"
        " with a triangular matrix, a gather as a one-hot product.",
    ),
    (
        r"matmul acc to be 32-bit",
        "Matmuls accumulate in 32 bits: pass preferred_element_type=jnp.float32 and cast the result.",
    ),
    (
        r"single \(1\) and double \(2\) buffering",
        "pallas_call pipelines take one or two buffers; deeper ones need emit_pipeline.",
    ),
    (
        r"take_along_axis-like gathers",
        "Row gathers are not supported: use a one-hot matmul or scalar prefetch in the index map.",
    ),
    (r"32-bit scalar", "Scalars are read as 32 bits: cast to float32 or int32 first."),
    (
        r"TracerArrayConversion|ConcretizationTypeError|TracerBoolConversion",
        "Python needed the value of an array while tracing: branch with jnp.where or pl.when, and read sizes from .shape.",
    ),
    (r"positional argument", "Define workload with exactly the workload's inputs as positional arguments."),
    (
        r"MemoryError|Unable to allocate|bad_alloc",
        "Do not allocate real arrays while tracing: only shapes are known there.",
    ),
    (
        r"Read-only file system|Permission denied|File too large|No such file|Network is unreachable|Connection refused"
        r"|Resource temporarily unavailable|socket",
        "Kernels are traced in a sandbox without files, network or further processes: the file must stand on its own.",
    ),
    (
        r"host_callbacks|backend cpu is different from the lowering platform",
        "Remove callbacks and debug prints: a kernel cannot call Python on the host.",
    ),
    (r"MiB of output", "Remove what prints without end."),
    (
        r"ended by itself|SIGSEGV|SIGABRT",
        "The file ended or crashed its own process: workload must only build and return arrays, without os._exit or ctypes.",
    ),
    (r"No module named", "Only jax, numpy and the standard library can be imported."),
)


def hint(message: str) -> str | None:
    """Advice for a message, or None where nothing is known."""
    for pattern, advice in _HINTS:
        if re.search(pattern, message):
            return advice
    return None
