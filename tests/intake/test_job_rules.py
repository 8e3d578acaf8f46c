"""Every rule of the job file: what breaks it, what it says, and that the way out that it offers is one."""

from pathlib import Path
from typing import Any, NamedTuple

import job_files
import pytest
from job_files import JOBS, REMOVED, SPECIFICATION, changed

from hawkeye_mcp.intake import rules
from hawkeye_mcp.intake.rule import Rule

DONOR = [{"type": "cuda", "path": "kernel.cu"}]
INSIDE = "input.specification"


class Case(NamedTuple):
    """says: a part of the message. fixed: the changes that the fix tells to make, after those that broke it."""

    kind: str
    broken: dict[str, Any]
    field: str
    says: str
    fix_says: str
    fixed: dict[str, Any]


ERRORS = {
    # The seven that every job format of this kind has to tell
    "a reference without any": Case(
        "jax", {"has_reference": True}, "has_reference", "references names none", "set has_reference to false",
        {"has_reference": False},
    ),
    "references without a word of them": Case(
        "jax", {"references": DONOR}, "has_reference", "would be ignored", "Set has_reference to true", {"has_reference": True}
    ),
    "torchax for cuda": Case(
        "cuda", {"conversion": {"method": "torchax"}}, "conversion.method", "torchax converts PyTorch",
        'Set conversion.method to "port"', {"conversion": {"method": "port", "port": "port.py"}},
    ),
    "pytorch without conversion": Case(
        "pytorch", {"needs_jax_conversion": False, "conversion": REMOVED}, "needs_jax_conversion", "not JAX",
        'true, and conversion.method to "torchax"', {"needs_jax_conversion": True, "conversion": {"method": "torchax"}},
    ),
    "no readable reference": Case(
        "pytorch", {"conversion.emit_readable_reference": False}, "conversion.emit_readable_reference",
        "no choice", "Remove", {"conversion.emit_readable_reference": REMOVED},
    ),
    "jax that needs conversion": Case(
        "jax", {"needs_jax_conversion": True}, "needs_jax_conversion", "its own reference", "to false",
        {"needs_jax_conversion": False},
    ),
    "comparison with cuda": Case(
        "cuda", {"evaluation.compare_against_source": True}, "evaluation.compare_against_source", "CUDA", "to false",
        {"evaluation.compare_against_source": False},
    ),
    # Further ones
    "comparison with a description": Case(
        "specification", {"evaluation.compare_against_source": True}, "evaluation.compare_against_source", "no source",
        "to false", {"evaluation.compare_against_source": False},
    ),
    "a description that needs conversion": Case(
        "specification", {"needs_jax_conversion": True, "conversion.method": "torchax"}, "needs_jax_conversion",
        "without a conversion", "to false, and remove conversion", {"needs_jax_conversion": False, "conversion": REMOVED},
    ),
    "a method without need": Case(
        "jax", {"conversion.method": "torchax"}, "conversion.method", "needs_jax_conversion is false", 'to "none"',
        {"conversion.method": "none"},
    ),
    "need without a method": Case(
        "pytorch", {"conversion": REMOVED}, "conversion.method", "does not say how", '"torchax"',
        {"conversion": {"method": "torchax"}},
    ),
    "a port without a file": Case(
        "pytorch", {"conversion.method": "port"}, "conversion.port", "names no file", "Set conversion.port",
        {"conversion.port": "port.py"},
    ),
    "a port beside torchax": Case(
        "pytorch", {"conversion.port": "port.py"}, "conversion.port", "would be ignored", 'to "port"',
        {"conversion.method": "port"},
    ),
    "a port of itself": Case(
        "pytorch", {"conversion": {"method": "port", "port": "torch_module.py"}}, "conversion.port", "own file",
        "written from it", {"conversion.port": "port.py"},
    ),
    "no path": Case(
        "jax", {"input.path": REMOVED}, "input.path", "missing", "Name the source file", {"input.path": "jax.py"}
    ),
    "a path for a description": Case(
        "specification", {"input.path": "jax.py"}, "input.path", "no source", "Remove input.path", {"input.path": REMOVED}
    ),
    "an entry point of a description": Case(
        "specification", {"input.entry_point": "f"}, "input.entry_point", "has none", "Remove",
        {"input.entry_point": REMOVED},
    ),
    "no specification": Case(
        "specification", {INSIDE: REMOVED}, INSIDE, "missing", "Add it",
        {INSIDE: {**SPECIFICATION, "reference_formula": "x"}},
    ),
    "a specification of a program": Case(
        "jax", {INSIDE: SPECIFICATION}, INSIDE, "would be ignored", "Remove it", {INSIDE: REMOVED}
    ),
    "nothing to compute with": Case(
        "specification", {f"{INSIDE}.reference_formula": REMOVED}, f"{INSIDE}.reference_formula", "neither",
        "Give the formula", {f"{INSIDE}.reference_formula": "x"},
    ),
    "two things to compute with": Case(
        "specification", {f"{INSIDE}.baseline": "port.py"}, f"{INSIDE}.baseline", "cannot be told", "Remove one",
        {f"{INSIDE}.reference_formula": REMOVED},
    ),
    "a formula beside a port": Case(
        "cuda", {f"{INSIDE}.reference_formula": "x"}, INSIDE, "would be ignored", "Remove",
        {f"{INSIDE}.reference_formula": REMOVED},
    ),
    "no input": Case(
        "cuda", {f"{INSIDE}.tensors.0.role": "output"}, f"{INSIDE}.tensors", "No tensor is an input", "role",
        {f"{INSIDE}.tensors.0.role": "input"},
    ),
    "no output": Case(
        "specification", {f"{INSIDE}.tensors.1.role": "parameter"}, f"{INSIDE}.tensors", "No tensor is an output", "role",
        {f"{INSIDE}.tensors.1.role": "output"},
    ),
    "two tensors of one name": Case(
        "specification", {f"{INSIDE}.tensors.1.name": "x"}, f"{INSIDE}.tensors", "Two tensors are called x", "own",
        {f"{INSIDE}.tensors.1.name": "y"},
    ),
    "a tensor called like a constant": Case(
        "specification", {f"{INSIDE}.constants": {"x": 1}}, f"{INSIDE}.tensors", "x is a tensor and also", "own",
        {f"{INSIDE}.constants": {"y": 1}},
    ),
    "a dimension without a length": Case(
        "specification", {"sizes.check": {"ROWS": 1.5}}, f"{INSIDE}.tensors", "ROWS, which is no positive integer",
        "Give it a length", {"sizes.check": {"ROWS": 1}},
    ),
    "a name that Python has": Case(
        "cuda", {f"{INSIDE}.tensors.0.name": "lambda"}, INSIDE, "lambda cannot be a name", "another",
        {f"{INSIDE}.tensors.0.name": "x"},
    ),
    "no formula": Case(
        "specification", {f"{INSIDE}.reference_formula": "2 * z"}, f"{INSIDE}.reference_formula",
        "z is no tensor that goes in", "one JAX expression", {f"{INSIDE}.reference_formula": "2 * x"},
    ),
    "a size of nothing": Case(
        "specification", {"sizes.full": {"ROWS": 64, "COLS": 2}}, "sizes", "to COLS", "Remove it",
        {"sizes.full": {"ROWS": 64}},
    ),
    "a size that Python has": Case(
        "cuda", {"sizes.full": {"ROWS": 64, "if": 2}, "sizes.check": {"ROWS": 8, "if": 1}}, "sizes", "if is a word of Python's",
        "Name constants", {"sizes": {"full": {"ROWS": 64}}},
    ),
}  # fmt: skip
WARNINGS = {
    "an input that the formula forgets": Case(
        "specification", {f"{INSIDE}.reference_formula": "jnp.ones((ROWS, 128))"}, f"{INSIDE}.reference_formula",
        "does not use x", "Use it", {f"{INSIDE}.reference_formula": "x"},
    ),
    "integers of unknown meaning": Case(
        "specification", {f"{INSIDE}.tensors.0.dtype": "int32"}, f"{INSIDE}.tensors", "drawn as 0 or 1", "baseline",
        {f"{INSIDE}.tensors.0.dtype": "float32"},
    ),
    "a larger check": Case(
        "jax", {"sizes.check": {"ROWS": 65}}, "sizes.check", "ROWS is larger at check", "small",
        {"sizes.check": {"ROWS": 63}},
    ),
    "no sizes": Case("jax", {"sizes": REMOVED}, "sizes", "at full size", "smaller", {"sizes": {"check": {"ROWS": 1}}}),
    "one size": Case("jax", {"sizes.check": REMOVED}, "sizes", "at full size", "smaller", {"sizes.check": {"ROWS": 1}}),
    "sizes alike": Case(
        "jax", {"sizes.check": {"ROWS": 64}}, "sizes", "at full size", "smaller", {"sizes.check": {"ROWS": 63}}
    ),
    "a loose atol": Case(
        "cuda", {"correctness.atol": 0.51}, "correctness.atol", "wrong results pass", "0.01 is usual",
        {"correctness.atol": 0.5},
    ),
    "a loose rtol": Case(
        "cuda", {"correctness.rtol": 0.51}, "correctness.rtol", "wrong results pass", "0.01 is usual",
        {"correctness.rtol": 0.5},
    ),
    "one set of results": Case(
        "pytorch", {"conversion": {"method": "port", "port": "port.py"}, "correctness.trials": 1}, "correctness.trials",
        "written down", "3 is usual", {"correctness.trials": 3},
    ),
    "tolerances without a port": Case(
        "pytorch", {"correctness.atol": 0.001}, "correctness", "gate for ports", "Remove", {"correctness": REMOVED}
    ),
    "comparison with itself": Case(
        "jax", {"evaluation.compare_against_source": True}, "evaluation.compare_against_source", "already", "to false",
        {"evaluation": REMOVED},
    ),
    "a reference to itself": Case(
        "pytorch", {"has_reference": True, "references": [{"type": "pytorch", "path": "torch_module.py"}]}, "references",
        "also a reference", "another", {"references": DONOR},
    ),
}  # fmt: skip
NEW_RULES_OF_A_BROKEN_JOB = {"two tensors of one name", "a name that Python has", "a size that Python has"}


@pytest.mark.parametrize("name", ERRORS)
def test_a_broken_rule_names_the_field_and_a_way_out_that_works(name: str, tmp_path: Path) -> None:
    case = ERRORS[name]
    broken = changed(JOBS[case.kind], case.broken)
    report = rules.check(job_files.write(tmp_path, broken))
    assert report.exit_code == 1
    assert not report.valid
    assert report.plan is None
    (found,) = (each for each in report.errors if each.field == case.field)
    assert case.says in found.message
    assert case.fix_says in found.fix
    assert len(report.errors) == 1 or name in NEW_RULES_OF_A_BROKEN_JOB

    fixed = rules.check(job_files.write(tmp_path, changed(broken, case.fixed)))
    assert [each.message for each in fixed.errors] == []
    assert fixed.exit_code == 0


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_leaves_the_job_valid(name: str, tmp_path: Path) -> None:
    case = WARNINGS[name]
    broken = changed(JOBS[case.kind], case.broken)
    report = rules.check(job_files.write(tmp_path, broken))
    assert report.exit_code == 0
    (found,) = report.warnings
    assert (found.field, case.says in found.message, case.fix_says in found.fix) == (case.field, True, True)

    fixed = rules.check(job_files.write(tmp_path, changed(broken, case.fixed)))
    assert fixed.warnings == ()
    assert fixed.exit_code == 0


def test_every_rule_has_a_case() -> None:
    def breaks(rule: Rule, case: Case) -> bool:
        raw = changed(JOBS[case.kind], case.broken)
        return rule.broken(rules.Declared(raw, [])) is not None and rule.field == case.field

    untested = [
        f"{rule.field}: {rule.message}"
        for rule in rules.RULES
        if not any(breaks(rule, case) for case in (WARNINGS if rule.warning else ERRORS).values())
    ]
    assert untested == []


@pytest.mark.parametrize("kind", JOBS)
def test_a_valid_job_of_each_kind_breaks_none(kind: str, tmp_path: Path) -> None:
    report = rules.check(job_files.write(tmp_path, JOBS[kind]))
    assert (report.errors, report.warnings, report.missing_paths, report.valid) == ((), (), (), True)
    job = rules.load(tmp_path / "job.json")
    assert all(Path(path).is_absolute() and Path(path).is_file() for path in job.paths().values())


def test_a_check_that_stays_as_in_the_file_is_not_called_large(tmp_path: Path) -> None:
    assert (
        rules.check(
            job_files.write(tmp_path, changed(JOBS["jax"], {"sizes": {"full": {"ROWS": 64}, "check": {}}}))
        ).warnings
        == ()
    )


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    broken = changed(
        JOBS["pytorch"],
        {
            "schema": "hawkeye.job/9",
            "has_reference": True,
            "conversion.method": "port",
            "correctness.atol": 0,
            "target.tpu": "v9",
        },
    )
    report = rules.check(job_files.write(tmp_path, broken))
    fields = {"schema", "has_reference", "conversion.port", "correctness.atol", "target.tpu"}
    assert {each.field for each in report.errors} == fields
    assert all(each.fix for each in report.errors)


def test_a_rule_says_nothing_of_fields_that_have_faults_of_their_own(tmp_path: Path) -> None:
    broken = changed(JOBS["pytorch"], {"conversion.method": "by hand", "input.type": 3, "has_reference": "no"})
    report = rules.check(job_files.write(tmp_path, broken))
    assert {each.field for each in report.errors} == {"conversion.method", "input.type", "has_reference"}
