import json
from pathlib import Path

import pytest
from rows import CELL, FACTS, TOML, taxonomy_of

from hawkeye_mcp import workloads
from hawkeye_mcp.taxonomy_check import source
from hawkeye_mcp.versions import versions


def config(tpu: str) -> dict:
    return json.loads(source.cell("01_copy", {"name": tpu, "mxu_side": 128}, versions())["config.json"])


def test_a_cell_is_rendered_with_its_chips_facts_and_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taxonomy_of(tmp_path, monkeypatch)
    old, new = (source.cell("01_copy", FACTS[tpu], versions()) for tpu in ("v5e", "7x"))
    assert set(old) == set(source.FILES)
    assert old["guide.md"] == "# 01 Copy (v5e)\n\nAn MXU here has a side of 128.\n"
    assert "side of 256" in new["guide.md"]
    assert "BLOCK = 8\n" in old["optimized_kernel.py"]
    assert "BLOCK = 16\n" in new["optimized_kernel.py"]
    assert old["naive_kernel.py"] == new["naive_kernel.py"]


def test_what_is_claimed_is_the_chips_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taxonomy_of(tmp_path, monkeypatch)
    assert config("v5e")["counters"] == [{"name": "grid_steps", "direction": "down", "least_ratio": 4.0}]
    assert config("7x")["counters"] == [{"name": "dma_starts", "direction": "up", "least_ratio": 2.0}]
    assert config("v6e")["counters"] == []
    assert [config(tpu)["applies"] for tpu in ("v5e", "v6e")] == [True, False]
    assert config("7x")["predicted_speedup"]["range"] == [3.0, 5.0]
    assert config("7x")["predicted_speedup"]["versions"]["libtpu"] == versions().libtpu
    assert config("v5e")["shapes"] == {
        "full": {"x": [64, 128], "out": [64, 128]},
        "check": {"x": [16, 128], "out": [16, 128]},
        "second": {"x": [32, 128], "out": [32, 128]},
    }


def test_the_problem_is_a_workload_at_either_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taxonomy_of(tmp_path, monkeypatch)
    for second, sizes in ((False, {"full": 64, "check": 16}), (True, {"full": 32, "check": 32})):
        folder = tmp_path / f"{second}" / "own"
        folder.mkdir(parents=True)
        for name, text in source.problem("01_copy", FACTS["v5e"], second=second).items():
            (folder / name).write_text(text)
        found = workloads.find(f"{folder}/")
        assert {name: dims["M"] for name, dims in found.sizes.items()} == sizes
        assert found.tolerance.limit == 0.001


def test_a_problem_may_differ_by_chip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = taxonomy_of(tmp_path, monkeypatch)
    template = TOML.replace('dtype = "float32"', 'dtype = "{{ "bfloat16" if chip.mxu_side == 256 else "float32" }}"')
    (root / "source" / "01_copy" / "workload.toml.j2").write_text(template)
    told = [source.problem("01_copy", FACTS[tpu])["workload.toml"] for tpu in ("v5e", "7x")]
    assert ["bfloat16" in text for text in told] == [False, True]
    assert config("v5e")["dtypes"] == {"x": "float32", "out": "float32"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"guide.md.j2": "{{ chip.warp_size }}"}, r"01_copy/guide.md.j2 does not render for v5e.*warp_size"),
        ({"guide.md.j2": "{% if %}"}, r"guide.md.j2 line 1 does not render"),
        ({"cell.toml": CELL.replace("second = { M = 32 }", "second = { N = 32 }")}, r"second has the dimensions N"),
        ({"cell.toml": CELL.replace("least_ratio = 4", "least_ratio = 0")}, r"counters.0.least_ratio"),
        ({"cell.toml": CELL.replace("[v5e]", "[v5q]")}, r"01_copy/cell.toml has no table for v5e"),
        ({"cell.toml": CELL.replace("title =", "titel =")}, r"title: Field required.*chips.titel"),
        ({"cell.toml": "title ="}, r"cell.toml cannot be read"),
        (
            {"workload.toml": TOML.replace("[sizes]\nfull", "sizes.full").replace("\ncheck", "\nsizes.check")},
            "lines of",
        ),
    ],
)
def test_a_broken_source_is_named_with_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], said: str
):
    taxonomy_of(tmp_path, monkeypatch, **files)

    def use() -> None:
        source.cell("01_copy", FACTS["v5e"], versions())
        source.problem("01_copy", FACTS["v5e"], second=True)

    with pytest.raises(source.BrokenSource, match=said):
        use()


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = taxonomy_of(tmp_path, monkeypatch)
    (root / "source" / "01_copy" / "guide.md.j2").unlink()
    with pytest.raises(source.BrokenSource, match=r"guide.md.j2 cannot be read: No such file"):
        source.cell("01_copy", FACTS["v5e"], versions())
