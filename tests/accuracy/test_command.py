import dataclasses
import json

import pytest
from typer.testing import CliRunner

from hawkeye_mcp.accuracy import collect, command, shipped
from hawkeye_mcp.accuracy import rows as of_rows
from hawkeye_mcp.cli import app
from hawkeye_mcp.profiler import interval

PEAKS = {"clock_hz": 1.503e9, "hbm_bytes_per_s": 8.2e11}


def features(us):
    job = {"points": [[100]], "cycles": [us * 1503], "count": 100}
    kernel = {
        "name": "k", "calls": 1, "weights": [1.0], "jobs": [job], "window_bytes": 0, "by_hand_bytes": 0,
        "first_bytes": 0, "last_bytes": 0, "transfers": [[0, 0, 100]],
    }  # fmt: skip
    return {"kernels": [kernel], "ops": [], "peaks": PEAKS}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command over the notebook's rows, each predicted at 80 % of what it took beyond 100 us of dispatch."""
    monkeypatch.setattr(of_rows, "tokamax_version", lambda: None)
    monkeypatch.setattr(command, "tokamax_version", lambda: None)
    monkeypatch.setattr(interval, "path", lambda: tmp_path / "residuals.json")
    monkeypatch.setattr(shipped, "path", lambda: tmp_path / "predicted.jsonl")
    shipped.load.cache_clear()

    async def collected(rows, progress, *, fresh=False, known_only=False):
        progress("asked")
        return {row.id: features(max(1.0, 0.8 * (row.measured_us - 100))) for row in rows}

    monkeypatch.setattr(collect, "collect", collected)
    monkeypatch.setattr(of_rows, "_from_tokamax", lambda: iter(()))

    def run(*arguments):
        result = CliRunner().invoke(app, ["accuracy", *arguments])
        assert result.exit_code == 0, result.output
        return result

    yield run
    shipped.load.cache_clear()


def test_json_has_every_row_and_both_halves(run):
    result = run("--json")
    found = json.loads(result.stdout)
    assert result.stderr == "asked\n"
    assert len(found["rows"]) == 13
    row = next(row for row in found["rows"] if row["id"] == "jaxdoc-6")
    assert {"id", "chip", "kernel", "measured_us", "predicted_us", "ratio", "class", "split"} <= set(row)
    assert row["ratio"] == pytest.approx(row["predicted_us"] / row["measured_us"])
    assert found["scored"].keys() == {"n", "groups", "median_abs_error", "spearman"}
    assert found["scored"]["n"] + found["fit"]["n"] == found["covered"] == 10
    assert [row["status"] for row in found["rows"]].count("not_scored") == 3


def test_without_tokamax_the_table_says_what_to_install(run):
    text = run().stdout
    assert "pip install tokamax==0.0.12" in " ".join(text.split())
    assert "held out" in text


def test_a_chip_without_rows_is_not_scored(run):
    found = json.loads(run("--json", "--chip", "v6e").stdout)
    assert found["rows"] == []
    assert found["scored"] == {"n": 0, "groups": 0, "median_abs_error": None, "spearman": None}


def test_fit_prints_what_the_fit_half_gives(run):
    found = json.loads(run("--fit", "--json").stdout)
    assert found["v5e"]["clock"] == pytest.approx(0.8, abs=0.01)
    assert "7x" not in found


def test_write_keeps_the_intervals(run, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "tokamax_version", lambda: "9.9")
    run("--write", "--json")
    table = json.loads((tmp_path / "residuals.json").read_text())
    assert table["measurements"] == "tokamax 9.9, JAX Pallas matmul notebook"
    assert all(entry["tpu"] == "v5e" for entry in table["classes"])


def test_write_refuses_what_would_make_intervals_worse(run, tmp_path, monkeypatch):
    result = CliRunner().invoke(app, ["accuracy", "--write"])
    assert result.exit_code == 2
    assert "pip install tokamax==0.0.12" in result.stderr
    monkeypatch.setattr(command, "tokamax_version", lambda: "9.9")
    result = CliRunner().invoke(app, ["accuracy", "--write", "--chip", "7x"])
    assert result.exit_code == 2
    assert "--chip" in result.stderr
    assert not (tmp_path / "residuals.json").exists()


def test_what_is_written_is_scored_again_without_tokamax_and_without_predicting(run, monkeypatch):
    monkeypatch.setattr(command, "tokamax_version", lambda: "9.9")
    theirs = of_rows.Row(
        id="theirs", chip="7x", kernel="attention", implementation="mosaic", file="a", spec="{}", config="{}",
        measured_us=500.0, timing="device", source="tokamax 9.9", group="attention x",
    )  # fmt: skip
    lacking = dataclasses.replace(theirs, id="lacking", split="held_out")
    monkeypatch.setattr(of_rows, "tokamax_version", lambda: "9.9")
    monkeypatch.setattr(of_rows, "_from_tokamax", lambda: iter([theirs]))
    before = json.loads(run("--write", "--json").stdout)
    kept, kept_path = shipped.load(), shipped.path()
    shipped.write([*kept.rows, lacking], kept.features, "9.9")

    monkeypatch.undo()
    monkeypatch.setattr(of_rows, "tokamax_version", lambda: None)
    monkeypatch.setattr(collect, "tokamax_version", lambda: None)
    monkeypatch.setattr(command, "tokamax_version", lambda: None)
    monkeypatch.setattr(collect, "_row", None)  # nothing may be predicted
    monkeypatch.setattr(shipped, "path", lambda: kept_path)
    result = CliRunner().invoke(app, ["accuracy", "--json"])
    assert result.exit_code == 0, result.output
    after = json.loads(result.stdout)
    rows = {row["id"]: row for row in after["rows"]}
    assert rows.pop("lacking")["reason"].startswith("it was not predicted yet")
    assert rows == {row["id"]: row for row in before["rows"]}
    assert rows["theirs"]["predicted_us"] == pytest.approx(320, rel=0.2)
    assert (after["tokamax"], after["covered"]) == ("9.9", before["covered"])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokamax_version": "1"}\n{'])
def test_damaged_predictions_are_as_good_as_none(run, text):
    shipped.path().write_text(text)
    assert shipped.load() == shipped.Shipped()


@pytest.mark.parametrize("changed", [{"method": "0"}, {"libtpu": "0.0.1"}])
def test_predictions_of_other_versions_are_as_good_as_none(run, monkeypatch, changed):
    monkeypatch.setattr(command, "tokamax_version", lambda: "9.9")
    run("--write")
    head, *lines = shipped.path().read_text().splitlines()
    shipped.path().write_text("\n".join([json.dumps(json.loads(head) | changed), *lines]))
    shipped.load.cache_clear()
    assert shipped.load() == shipped.Shipped()
