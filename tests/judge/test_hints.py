import pytest

from hawkeye_mcp.judge.hints import hint


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        (
            "The Pallas TPU lowering currently requires that the last two dimensions of your block shape are divisible"
            " by 8 and 128 respectively, or be equal to the respective dimensions of the overall array.",
            "divisible by 8 and 128",
        ),
        (
            "RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem",
            "smaller blocks",
        ),
        (
            "RESOURCE_EXHAUSTED: Allocation (size=268435456) would exceed memory (size=134217728) ::"
            " #allocation3 [shape = 'u8[268435456]{0}', space=vmem, size = 0x10000000]",
            "smaller blocks",
        ),
        ("E1000: CompileTimeHbmOom: Ran out of memory in memory space hbm", "large intermediates"),
        ("Unimplemented primitive in Pallas TPU lowering for KernelType.TC: sort.", "no lowering for that primitive"),
        ("Mosaic failed: Expected matmul acc to be 32-bit", "preferred_element_type=jnp.float32"),
        ("TypeError: workload() takes 1 positional argument but 2 were given", "exactly the workload's inputs"),
        ("TracerBoolConversionError: Attempted boolean conversion of traced array", "jnp.where or pl.when"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 100. GiB", "Do not allocate real arrays"),
        ("OSError: [Errno 101] Network is unreachable", "must stand on its own"),
        ("OSError: [Errno 30] Read-only file system: '/x'", "must stand on its own"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "must stand on its own"),
        ("ModuleNotFoundError: No module named 'torch'", "Only jax, numpy"),
        ("NotImplementedError: serialization of host_callbacks is not yet implemented", "Remove callbacks"),
        ("Tracing failed: the process died of SIGSEGV (a native crash) before", "ended or crashed its own process"),
        ("Tracing failed: the candidate wrote more than 64 MiB of output.", "prints without end"),
    ],
)
def test_a_known_message_gets_advice(message, phrase):
    assert phrase in hint(message)


def test_an_unknown_message_gets_none():
    assert hint("ZeroDivisionError: division by zero") is None
    assert hint("") is None
