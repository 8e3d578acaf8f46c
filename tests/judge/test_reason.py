import pytest

from hawkeye_mcp.judge.reason import MOST, lasting, reason, some
from hawkeye_mcp.judge.workers import WorkerDied, WorkerError, WorkerTimeout

DIED = "profile_point: the worker ended with code -6. "
LOGGED = "F1130 09:16:34.369763   10068 llo_dumper.cc:1778] Static LLO profiling of fusion failed: UNIMPLEMENTED: kX"

WOUND_UP = (
    "E1130 10:44:05.637028   27328 coredump_hook.cc:467] RAW: Dumping core locally. | "
    "E1130 10:44:05.825707   27328 process_state.cc:796] RAW: Raising signal 6 with default behavior"
)


def test_a_log_line_is_told_once_without_time_process_and_place():
    told = reason(WorkerDied(f"{DIED}{LOGGED} | {LOGGED}"))
    assert told == "Static LLO profiling of fusion failed: UNIMPLEMENTED: kX"


def test_how_a_crash_was_wound_up_is_no_reason():
    assert reason(WorkerDied(DIED + WOUND_UP)) == DIED.strip()
    assert reason(WorkerDied(f"{DIED}{LOGGED} | {WOUND_UP}")).startswith("Static LLO profiling")


def test_other_texts_are_told_as_they_are():
    assert reason(WorkerTimeout("plan ran longer than 60 s")) == "plan ran longer than 60 s"
    assert reason(WorkerError("ValueError", "ValueError: two\n  lines", "")) == "ValueError: two lines"


def test_a_long_reason_ends_between_words():
    told = reason(WorkerDied("word " * 200))
    assert told.endswith("word …")
    assert MOST - 5 < len(told) <= MOST + 2


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (WorkerDied(DIED + LOGGED), True),
        (WorkerError("JaxRuntimeError", "JaxRuntimeError: UNIMPLEMENTED", ""), True),
        (WorkerTimeout("compile_baseline ran longer than 400 s"), False),
        (WorkerDied("compile_baseline: the worker ended with code -9. "), False),  # the kernel's memory killer
        (WorkerDied(DIED + WOUND_UP), False),
        (WorkerDied(DIED + "terminate called after throwing an instance of 'std::bad_alloc'"), False),
        (WorkerDied(DIED + "F1130 09:16:34.369763 1 tcmalloc.cc:9] Allocation failed"), False),
        (WorkerError("MemoryError", "MemoryError: ", ""), False),
    ],
)
def test_only_refusals_of_the_compiler_are_the_same_everywhere(error, expected):
    assert lasting(error) is expected


def test_long_lists_are_cut():
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcde")) == "a, b, c and 2 more"
