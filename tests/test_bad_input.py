"""Everything that a kernel file can do wrong, end to end, on one judge that must survive it all.

The files are in tests/hostile; each says in its first line which defence stops it.
"""

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.candidate.isolation import isolation
from hawkeye_mcp.candidate.sandbox import Limits, Sandbox
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.judge import evaluate as judging
from hawkeye_mcp.judge.evaluate import open_judge
from hawkeye_mcp.judge.work import Work
from hawkeye_mcp.sanitizer import run as sanitizing
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.sanitizer.run import Sanitizer
from hawkeye_mcp.workloads import Workload

HOSTILE = Path(__file__).parent / "hostile"
GOOD = (Path(__file__).parent / "kernels" / "12p_RMSNorm.py").read_text()
NORM, GEMM = "12p_RMSNorm", "41k_Gemm_Add_ReLU"
SECRET = "HAWKEYE_TEST_SECRET"


@dataclass(frozen=True)
class Case:
    """What one file must get: the status, and phrases of the message and of the next step."""

    file: str
    status: str
    message: str
    next_step: str
    workload: str = NORM


WORK = "Do the work inside pl.pallas_call"
MEND = "Mend the Python"
ALONE = "the file must stand on its own"
ON_TPU = "right in the interpreter and not on the TPU"
SAME = "Both must be the same computation"
CASES = [
    Case("syntax_error", "trace_error", "SyntaxError: expected ':' (line 3", MEND),
    Case("missing_workload", "trace_error", "no function `workload`; it defines: rms_norm", MEND),
    Case("wrong_arity", "trace_error", "takes 1 positional argument but 2 were given", "exactly the workload's inputs"),
    Case("wrong_shape", "incorrect", "bfloat16[32768, 8192] and must return bfloat16[8, 4096, 8192]", "these shapes"),
    Case("wrong_dtype", "incorrect", "returns float32[8, 4096, 8192] and must return bfloat16", "shapes and dtypes"),
    Case("exception", "trace_error", "'undefined_width' is not defined (line 5, in workload", MEND),
    Case("system_exit", "trace_error", "SystemExit: leaving early (line 7", MEND),
    Case("os_exit", "trace_error", "ended by itself with exit code 0", "without os._exit or ctypes"),
    Case("segfault", "trace_error", "SIGSEGV (a native crash)", "without os._exit or ctypes"),
    Case("allocate_100gb", "trace_error", "Unable to allocate 100. GiB", "Do not allocate real arrays"),
    Case("flood_stdout", "trace_error", "wrote more than 64 MiB of output", "Remove what prints"),
    Case("surrogate_message", "trace_error", "half of a pair: ?", MEND),
    Case("lowering_rules", "rejected", "right in the interpreter and not on the TPU", "the same computation"),
    Case("forged_reply", "rejected", "the artifact cannot be read", WORK),
    Case("forged_base64", "rejected", "base64", WORK),
    Case("forged_nesting", "trace_error", "ended by itself with exit code 0", "without os._exit or ctypes"),
    Case("vmem_overflow", "compile_error", "Ran out of memory|CompileTimeScopedVmemOom", "use smaller blocks"),
    Case("misaligned_block", "compile_error", "block shape (Blocked(block_size=12)", "divisible by 8 and 128"),
    Case("unaligned_copy", "compile_error", "must be aligned to tiles", "not provably aligned"),
    Case("nan_output", "incorrect", "is nan at [0, 0, 0] where", "compare the worst element"),
    Case("zero_output", "incorrect", "is all zeros: it does not depend on the inputs", "compare the worst element"),
    Case("plain_xla", "rejected", "no Mosaic kernel in the artifact: it is plain XLA", WORK),
    Case("token_unused", "rejected", "no Mosaic kernel", WORK),
    Case("token_beside_dot", "rejected", "stablehlo.dot_general outside the Pallas kernels", WORK, GEMM),
    Case("interpret", "rejected", "traced with interpret=True", WORK),
    Case("host_callback", "compile_error", "cannot be traced", "Remove callbacks"),
    Case("callback_in_kernel", "trace_error", "serialization of host_callbacks", "Remove callbacks"),
    Case("runtime_memory", "runtime_error", "Out of memory allocating", "need less memory"),
    Case("patch_comparison", "incorrect", "is nan at [0, 0, 0] where", "compare the worst element"),
    Case("low_precision", "incorrect", "limit 0.01. Worst element", "compare the worst element"),
    Case("skip_last_tile", "incorrect", "is nan at [1, 32, 0] where", "compare the worst element"),
    Case("unwritten_output", "incorrect", "(1048576 such elements of 1048576)", "compare the worst element"),
    Case("platform_unchecked", "rejected", ON_TPU, "the same computation"),
    Case(
        "missing_wait", "rejected", f"{ON_TPU}. The kernel for the TPU computes something else. Output 0 is nan", SAME
    ),
    Case(
        "revisited_block",
        "rejected",
        f"{ON_TPU}. The kernel for the TPU computes something else. Output 0 is nan",
        SAME,
    ),
]
# These end before anything is compiled or run, so that they can be judged together.
ABSTRACT = "Python needed the value of an array"
TRACED = [
    Case("forge_result_file", "trace_error", "ended by itself with exit code 0", "without os._exit"),
    Case("forge_printed_score", "trace_error", "ended by itself with exit code 0", 'printed: {"status": "correct"'),
    Case("cache_by_identity", "trace_error", "KeyError", MEND),
    Case("cache_by_fingerprint", "trace_error", "called on traced array with shape bfloat16[4]", ABSTRACT),
    Case("cache_by_lru", "trace_error", "unhashable type: 'DynamicJaxprTracer'", MEND),
    Case("table_of_answers", "rejected", "above 4194304: it carries large constants", WORK),
    Case("debug_callback_in_kernel", "trace_error", "serialization of host_callbacks", "Remove callbacks"),
    Case(
        "tuple_output", "incorrect", "returns bfloat16[8, 4096, 8192], bfloat16[8192] and must return", "these shapes"
    ),
    Case("lazy_output", "trace_error", "kernel.Later'>, which is not a valid JAX type", MEND),
    Case("platform_in_kernel", "trace_error", "jax.lax.platform_dependent is not allowed", MEND),
]
TRACED_ISOLATED = [
    Case("import_baseline", "trace_error", "No module named 'hawkeye_mcp.", "can be imported"),
    Case("drop_startup_code", "trace_error", "Read-only file system", ALONE),
    Case("write_workload", "trace_error", "No such file or directory", ALONE),
]
ISOLATED = [
    Case("write_outside", "trace_error", "Read-only file system", ALONE),
    Case("read_oracle", "trace_error", "neither workloads nor cells nor the judge can be seen", ALONE),
    Case("fork_bomb", "trace_error", "Resource temporarily unavailable", ALONE),
    Case("kill_parent", "correct", "Correct on 3 fresh draws", "Profile it"),
]
needs_bubblewrap = pytest.mark.skipif(
    isolation() != "bubblewrap", reason="bubblewrap does not work here: rlimits alone do not keep a candidate from this"
)


@pytest.fixture(scope="module")
def submit() -> Iterator[Callable[..., Future[Evaluation]]]:
    """Start an evaluation on the module's one judge: (source, workload name) -> its future Evaluation.

    No verdict depends on the sanitizer; where it is not the subject it is left out, for time.
    """
    sanitize = Sanitizer.beside

    async def beside(self: Sanitizer, box: Sandbox, source: str, workload: Workload, tpu: str) -> Sanitized | None:
        return await sanitize(self, box, source, workload, tpu) if source == _source("parallel_axis") else None

    with (
        pytest.MonkeyPatch.context() as patch,
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_judge()) as judge,
    ):
        patch.setenv(SECRET, "seen")
        patch.setattr(Sanitizer, "beside", beside)
        patch.setattr(sanitizing, "QUICK_S", 600.0)  # what a slow machine leaves out is no subject here
        yield lambda source, name=NORM: portal.start_task_soon(judge.evaluate, source, workloads.load(name), "v5e")


@pytest.fixture
def judge_it(submit) -> Callable[..., Evaluation]:
    return lambda *args: submit(*args).result()


def _check(case: Case, found: Evaluation) -> None:
    assert found.status == case.status, found.message
    assert any(phrase in found.message for phrase in case.message.split("|")), found.message
    assert case.next_step in found.next_step
    if case.status != "correct":
        assert found.speedup is None
    if case.status == "compile_error":
        assert found.timing is None
        assert len(found.compiler_message) >= len(found.message) // 2  # the compiler's own words, verbatim
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def _source(file: str) -> str:
    (path,) = HOSTILE.glob(f"{file}.*")
    return path.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_a_bad_file_gets_its_status_and_says_what_to_do(judge_it, case):
    _check(case, judge_it(_source(case.file), case.workload))


@needs_bubblewrap
@pytest.mark.parametrize("case", ISOLATED, ids=lambda case: case.file)
def test_a_file_that_reaches_out_of_the_sandbox_finds_nothing(judge_it, case):
    _check(case, judge_it(_source(case.file), case.workload))
    assert not list(Path(os.sep).glob("hawkeye_was_here"))


@pytest.mark.parametrize(
    "cases", [TRACED, pytest.param(TRACED_ISOLATED, marks=needs_bubblewrap)], ids=["anywhere", "isolated"]
)
def test_what_ends_before_it_is_run_is_told_apart(submit, cases):
    declaration = workloads.load(NORM).folder / "workload.toml"
    before = declaration.read_bytes()
    started = [submit(_source(case.file).replace("/workload.toml", str(declaration))) for case in cases]
    for case, found in zip(cases, started, strict=True):
        _check(case, found.result())
    assert declaration.read_bytes() == before


def test_what_no_verdict_sees_is_named_by_the_sanitizer(judge_it):
    found = judge_it(_source("parallel_axis"), GEMM)
    assert found.status == "correct", found.message
    assert [(finding.kind, finding.line) for finding in found.sanitized.findings] == [
        ("parallel_carry", 19),
        ("parallel_carry", 37),
    ]
    assert "races" in found.sanitized.checks


def test_neither_clock_nor_environment_nor_an_authors_estimate_changes_the_time(submit):
    honest, *others = (
        each.result() for each in [submit(s) for s in (GOOD, *map(_source, ("patch_clock", "lying_cost")))]
    )
    assert honest.timing.candidate_us
    for found in others:
        assert found.status == "correct", found.message
        assert found.timing == honest.timing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "note"),
    [
        ("loop_by_data", "branches or loop bounds depend on data, so its time is a lower bound"),
        ("loop_around_kernel", "runs in a loop of unknown length, so its time is a lower bound"),
    ],
)
def test_work_whose_amount_cannot_be_known_claims_no_speedup(judge_it, file, note):
    found = judge_it(_source(file))
    assert found.status == "correct", found.message
    assert (found.speedup, found.timing.speedup_interval, found.timing.lower_bound) == (None, None, True)
    assert any(note in each for each in found.timing.notes)
    assert "no speedup is claimed" in found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case("copy_first_operand", "incorrect", "This is more than rounding", "compare the worst element"),
        Case("half_row", "incorrect", "Output 0: R is 0.0", "compare the worst element"),
        Case("scratch_reuse", "incorrect", "(524288 such elements of 1048576)", "compare the worst element"),
        Case("precomputed_answer", "incorrect", "limit 0.01. Worst element", "compare the worst element"),
        Case("zero_inputs", "incorrect", "is all zeros: it does not depend on the inputs", "compare the worst element"),
        Case("half_contraction", "incorrect", "This is more than rounding", "compare the worst element", GEMM),
    ],
    ids=lambda case: case.file,
)
def test_a_slower_bad_file_gets_its_status_too(judge_it, case):
    _check(case, judge_it(_source(case.file), case.workload))


@pytest.mark.slow
def test_work_left_to_xla_beside_a_kernel_is_timed_with_it(judge_it):
    found = judge_it(_source("token_beside_norm"))
    assert found.status == "correct", found.message
    assert {op.kind for op in found.timing.ops} >= {"mosaic", "xla"}
    assert found.speedup < 1


@needs_bubblewrap
def test_a_listener_on_this_machine_is_out_of_reach(judge_it):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        source = _source("open_socket").replace("PORT = 9", f"PORT = {listener.getsockname()[1]}")
        _check(Case("open_socket", "trace_error", "Network is unreachable", ALONE), judge_it(source))
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_the_judges_environment_is_out_of_reach(judge_it):
    if isolation() != "bubblewrap":
        pytest.skip("bubblewrap does not work here: other processes of this user can be seen in /proc")
    found = judge_it(_source("read_environment"))
    names = found.message.partition("names: ")[2].partition(" (line")[0].split()
    assert "JAX_PLATFORMS" in names
    assert not {SECRET, "USER", "VIRTUAL_ENV", "PYTHONPATH"} & set(names)


def test_evaluations_at_once_do_not_disturb_each_other(submit):
    started = [submit(source) for source in (GOOD, _source("segfault"), _source("zero_output"))]
    assert [each.result().status for each in started] == ["correct", "trace_error", "incorrect"]


def test_an_endless_trace_ends_with_the_sandboxs_wall_clock():
    async def main() -> Evaluation:
        async with open_judge(limits=Limits(wall_s=2)) as judge:
            return await judge.evaluate(_source("infinite_loop"), workloads.load(NORM), "v5e")

    found = anyio.run(main)
    _check(Case("infinite_loop", "timeout", "still running after 2 s", "Remove endless"), found)


@pytest.mark.slow
def test_an_endless_run_ends_with_the_verifiers_limit_and_the_next_one_works(judge_it, monkeypatch):
    monkeypatch.setitem(judging.LIMITS_S, "check", 8.0)
    found = judge_it(_source("endless_run"))
    _check(Case("endless_run", "timeout", "took longer than 8 s", "Remove endless"), found)
    monkeypatch.undo()
    assert judge_it(GOOD).status == "correct"


def test_after_all_that_the_same_judge_still_judges(judge_it):
    """Last on purpose: by now it has seen every file above that this run selected."""
    judge_it(_source("segfault"))
    judge_it(_source("forged_reply"))
    found = judge_it(GOOD)
    assert found.status == "correct", found.message
    assert found.isolation == isolation()
    assert found.speedup > 1


@pytest.mark.parametrize("file", ["size_gated", "two_programs"])
def test_a_program_that_does_less_than_the_verified_one_takes_less_time_than_the_hardware_allows(judge_it, file):
    found = judge_it(_source(file))
    assert found.status == "rejected", found.message
    # Of several that see it at the same time, the first one speaks.
    assert any(said in found.message for said in ("does not do the work", "not on the TPU", "do less work"))
    assert found.speedup is None


@pytest.mark.parametrize("file", ["size_gated_plausible", "work_never_reached"])
def test_a_program_that_does_less_at_full_size_is_refused_however_long_it_takes(judge_it, file):
    found = judge_it(_source(file))
    assert found.status == "rejected", found.message
    assert "do less work than at check size, where they are verified: division, reduction, root." in found.message
    assert "the same work at every size" in found.next_step


def test_who_fails_to_trace_at_the_check_size_is_not_taken_for_evaluated_as_on_a_tpu():
    class Pool:
        async def call(self, task: str, limit_s: float, **given: object) -> dict[str, object]:
            if task == "verify":
                assert given["size"] == "full"
                return {"ok": True, "seeds": 1, "outputs": [], "problem": None}
            assert (task, list(given["artifacts"])) == ("same_work", ["full"])
            return {"problem": None, "note": "and slow"}

    judge = judging.Judge(None, dict.fromkeys(("verifier", "compiler", "profiler"), Pool()))
    work = Work(GOOD, workloads.load(NORM), "v5e", lambda stage: None)
    work.artifacts, work.verify_at = {"full": {"tpu": "", "cpu": ""}}, "full"
    anyio.run(judge._verify_both, work)
    assert (work.correctness.ok, work.correctness.on_tpu) == (True, "exhausted")
    assert "cannot be traced at its check size" in work.correctness.on_tpu_note
    assert work.correctness.on_tpu_note.endswith("; and slow")


def test_a_program_that_asks_for_its_platform_is_refused(judge_it):
    found = judge_it(_source("platform_dependent"))
    assert found.status == "trace_error", found.message
    assert "platform_dependent" in found.message
