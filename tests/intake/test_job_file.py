"""Job files that are none, single fields that are wrong, files that are not there, and arbitrary ones."""

import json
import os
from pathlib import Path
from typing import Any

import job_files
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_files import JOBS, REMOVED, changed
from pydantic import ValidationError

from hawkeye_mcp.intake import fields, reading, rules
from hawkeye_mcp.intake.job import Job
from hawkeye_mcp.intake.report import InvalidJob


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (b"", "not_json", "line 1, column 1"),
        (b"{", "not_json", "line 1, column 2"),
        (b'{"a": 1, "a": 1}', "not_json", "'a' is declared twice"),
        (b'{"x": {"b": 1, "b": 2}}', "not_json", "'b' is declared twice"),
        (b'{"a": NaN}', "not_json", "NaN is no number"),
        (b'{"a": -Infinity}', "not_json", "-Infinity is no number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not_json", "limit"),
        (b'{"a": "\\ud800"}', "not_json", "lone surrogate"),
        (b"\xff\xfe", "not_utf8", "byte 0"),
        (b"[" * 200_000, "too_deep", "nested too deeply"),
        (b'{"a":' * 200_000, "too_deep", "nested too deeply"),
        (b" " * (reading.LARGEST_BYTES + 1), "too_large", "1000000 bytes"),
        (b"[]", "not_an_object", "a list"),
        (b"true", "not_an_object", "a truth value"),
        (b"null", "not_an_object", "null"),
        (b"3", "not_an_object", "a number"),
    ],
)
def test_what_is_no_job_says_why(tmp_path: Path, text: bytes, kind: str, says: str) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(text)
    with pytest.raises(reading.UnreadableJob, match=says) as raised:
        reading.read(path)
    assert raised.value.kind == kind
    report = rules.check(path)
    assert (report.exit_code, report.valid, len(report.errors), report.plan) == (1, False, 1, None)
    assert report.errors[0].fix == raised.value.fix != ""


def test_what_is_no_file_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    kinds = {}
    for name in ("none", ".", "pipe", "n" * 300):
        with pytest.raises(reading.UnreadableJob) as raised:
            reading.read(tmp_path / name)
        kinds[name[:4]] = raised.value.kind
    assert kinds == {"none": "not_found", ".": "not_a_file", "pipe": "not_a_file", "nnnn": "unreadable"}


@pytest.mark.parametrize(
    ("changes", "field", "says", "fix"),
    [
        ({"schema": REMOVED}, "schema", "is missing", "Add it"),
        ({"schema": "hawkeye.job/2"}, "schema", "hawkeye.job/1", "version"),
        ({"has_reference": REMOVED}, "has_reference", "is missing", "Whether"),
        ({"has_reference": "true"}, "has_reference", "boolean (got 'true')", "Whether"),
        ({"needs_jax_conversion": 0}, "needs_jax_conversion", "boolean (got 0)", "Whether"),
        ({"name": "8p_GEMM"}, "name", "is shipped", "letters, digits"),
        ({"name": "../up"}, "name", "no name for a workload", "letters, digits"),
        ({"input": REMOVED}, "input", "is missing", "The program"),
        ({"input": []}, "input", "should be an object", "The program"),
        ({"input.type": "fortran"}, "input.type", "'jax', 'pytorch', 'cuda' or 'specification' (got 'fortran')", "written in"),
        ({"input.pth": "x"}, "input.pth", "no field", "Did you mean 'path'?"),
        ({"extra": 1}, "extra", "no field", "Remove it. There are schema, name"),
        ({"references": [{"type": "cuda"}]}, "references[0].path", "is missing", "Its source file"),
        ({"references": [{"type": "cuda", "path": ""}]}, "references[0].path", "at least 1 character", "source file"),
        ({"references": [{"type": "c", "path": "x"}]}, "references[0].type", "'cuda', 'triton'", "written in"),
        (
            {"references": [{"type": "cuda", "path": "x", "relationship": "cousin"}]},
            "references[0].relationship", "'same_operation', 'same_family' or 'unknown'", "Whether",
        ),
        ({"references": [{"type": "cuda", "path": "x", "role": "oracle"}]}, "references[0].role", "'donor'", "ideas"),
        ({"conversion.method": "llm"}, "conversion.method", "'torchax', 'port' or 'none'", "mechanically"),
        ({"correctness.atol": 0}, "correctness.atol", "greater than 0 (got 0)", "Absolute"),
        ({"correctness.rtol": -1.0}, "correctness.rtol", "greater than 0 (got -1.0)", "Relative"),
        ({"correctness.trials": 0}, "correctness.trials", "greater than or equal to 1", "Sets"),
        ({"correctness.trials": 2.0}, "correctness.trials", "integer", "Sets"),
        ({"correctness.seed": -1}, "correctness.seed", "greater than or equal to 0", "recorded"),
        ({"target.tpu": "v4"}, "target.tpu", "'v4' is not one of v5e, v5p, v6e, 7x", "One of"),
        ({"budget.evaluations": 0}, "budget.evaluations", "greater than or equal to 1", "Judged"),
        ({"sizes": {"small": {}}}, "sizes.small", "'full' or 'check'", "top level"),
        ({"sizes.full": {"ROWS": "many"}}, "sizes.full.ROWS", "got 'many'", "top level"),
        ({"sizes.full": {"A B": 1}}, "sizes.full.A B", "pattern", "top level"),
        ({"sizes.full": {"ROWS": 2**63}}, "sizes.full.ROWS", "64 bits", "top level"),
        ({"input.specification": {}}, "input.specification.tensors", "is missing", "Every array"),
        (
            {"input.specification": {"description": "", "tensors": [{"name": "x", "role": "input", "shape": [0]}]}},
            "input.specification.tensors[0].dtype", "is missing", "elements",
        ),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_told_what_it_is(
    tmp_path: Path, changes: dict[str, Any], field: str, says: str, fix: str
) -> None:
    report = rules.check(job_files.write(tmp_path, changed(JOBS["jax"], changes)))
    told = {each.field: each for each in report.errors}
    assert report.exit_code == 1
    assert says in told[field].message
    assert fix in told[field].fix


def test_missing_files_are_told_with_their_fields_and_the_plan_stands(tmp_path: Path) -> None:
    job = changed(
        JOBS["pytorch"],
        {
            "input.path": "nowhere.py",
            "has_reference": True,
            "references": [{"type": "cuda", "path": "kernel.cu"}, {"type": "triton", "path": "/nowhere/t.py"}],
            "conversion": {"method": "port", "port": "deep/port.py"},
        },
    )
    report = rules.check(job_files.write(tmp_path, job))
    assert {missing.field: missing.path for missing in report.missing_paths} == {
        "input.path": str(tmp_path / "nowhere.py"),
        "conversion.port": str(tmp_path / "deep/port.py"),
        "references[1].path": "/nowhere/t.py",
    }
    assert (report.exit_code, report.valid, report.errors) == (2, False, ())
    assert report.plan
    with pytest.raises(InvalidJob, match=r"input\.path: there is no file"):
        rules.load(tmp_path / "job.json")


@pytest.mark.parametrize(
    ("changes", "field", "says", "fix"),
    [
        ({"input.path": "."}, "input.path", "no regular file", "Name"),
        ({"input.path": "n" * 300}, "input.path", "File name too long", "Name"),
        ({"input.path": "broken.py"}, "input.path", "no Python: '(' was never closed (line 2)", "Mend"),
        ({"input.path": "latin.py"}, "input.path", "not UTF-8", "Name"),
        ({"input.entry_point": "kernel"}, "input.entry_point", "does not define kernel", "workload, get_inputs"),
        ({"input.inputs_fn": "inputs"}, "input.inputs_fn", "does not define inputs", "workload, get_inputs"),
        ({"sizes.full": {"COLS": 3}}, "sizes.full.COLS", "no number to COLS", "ROWS"),
    ],
)
def test_a_source_that_is_not_what_the_job_says_is_told(
    tmp_path: Path, changes: dict[str, Any], field: str, says: str, fix: str
) -> None:
    (tmp_path / "broken.py").write_text("ROWS = 1\nf(", encoding="utf-8")
    (tmp_path / "latin.py").write_bytes(b"# \xe9")
    report = rules.check(job_files.write(tmp_path, changed(JOBS["jax"], changes)))
    told = {each.field: each for each in report.errors}
    assert report.exit_code == 1
    assert says in told[field].message
    assert fix in told[field].fix


def test_a_baseline_has_to_define_the_workload_and_shares_no_constant(tmp_path: Path) -> None:
    job = changed(
        JOBS["specification"],
        {
            "input.specification.reference_formula": REMOVED,
            "input.specification.baseline": "b.py",
            "input.specification.constants": {"EPS": 1.0},
        },
    )
    (tmp_path / "b.py").write_text("def f(x): return x", encoding="utf-8")
    (found,) = rules.check(job_files.write(tmp_path, job)).errors
    assert (found.field, "does not define workload" in found.message) == ("input.specification.baseline", True)
    (tmp_path / "b.py").write_text("EPS = 2.0\ndef workload(x): return x", encoding="utf-8")
    (found,) = rules.check(tmp_path / "job.json").errors
    assert (found.field, "also gives EPS a value" in found.message) == ("input.specification.constants.EPS", True)


def test_a_star_import_may_define_the_entry_point(tmp_path: Path) -> None:
    (tmp_path / "star.py").write_text("from elsewhere import *\nROWS = 3", encoding="utf-8")
    report = rules.check(job_files.write(tmp_path, changed(JOBS["jax"], {"input.path": "star.py"})))
    assert report.valid


def test_the_schema_and_the_table_have_every_field_and_say_what_it_is() -> None:
    schema = Job.model_json_schema(by_alias=True)
    assert schema["properties"]["schema"]["const"] == "hawkeye.job/1"
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"schema", "name", "input", "has_reference", "needs_jax_conversion"}
    table = fields.table()
    assert {"references[].path", "input.specification.tensors[].shape", "evaluation.compare_against_source"} <= set(
        table
    )
    assert [name for name, field in table.items() if not field.description] == []
    lines = fields.markdown().splitlines()
    assert len(lines) == len(table) + 2
    assert all(line.count(" | ") == 3 for line in lines[2:])
    assert "| `conversion.method` | `torchax`, `port`, `none` | `none` |" in fields.markdown()


def test_check_is_as_full_unless_it_says_otherwise(tmp_path: Path) -> None:
    job = changed(JOBS["jax"], {"sizes": {"full": {"ROWS": 4}}})
    assert rules.load(job_files.write(tmp_path, job)).sizes == {"full": {"ROWS": 4}, "check": {"ROWS": 4}}
    job = changed(JOBS["jax"], {"sizes": {"check": {"ROWS": 4}}})
    assert rules.load(job_files.write(tmp_path, job)).sizes == {"full": {}, "check": {"ROWS": 4}}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.sampled_from(["jax", "cuda", "pytorch", "specification", "port", "torchax", "jax.py", "x", "hawkeye.job/1"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "path", "tensors", "name", "role", "shape", "dtype", "full"]), inner, max_size=4),
    max_leaves=6,
)  # fmt: skip
_PLACES = [name.replace("[]", ".0") for name in fields.table()]


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(list(JOBS)),
    changes=st.dictionaries(st.sampled_from(_PLACES), _VALUES | st.just(REMOVED), min_size=1, max_size=3),
)
def test_no_job_whatever_ends_the_check_and_each_error_says_what_to_do(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    try:
        job = changed(JOBS[kind], changes)
        path = job_files.write(tmp_path, job)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError):
        return  # the place is not there in this job, or the text is none
    report = rules.check(path)
    assert report.exit_code in (0, 1, 2)
    assert all(each.message and each.fix for each in (*report.errors, *report.warnings))
    assert (report.plan is None) == bool(report.errors)
    json.loads(report.model_dump_json())
    try:
        Job.model_validate_json(json.dumps(job))
    except ValidationError:
        assert report.exit_code == 1  # what the models refuse is never taken for valid


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_whatever_end_the_check(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "job.json").write_bytes(data)
    assert rules.check(tmp_path / "job.json").exit_code == 1
