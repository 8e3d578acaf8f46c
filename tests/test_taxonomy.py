"""The shipped taxonomy: its loader, its files against their source, every claim against the compiler, and what it must not say."""

import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import anyio
import pytest

from hawkeye_mcp import content, taxonomy, workloads
from hawkeye_mcp.chips import TPUS
from hawkeye_mcp.taxonomy_check import readme, render, runner, source
from hawkeye_mcp.taxonomy_check.report import Verified

CELLS = [(tpu, cell.row) for tpu in taxonomy.tpus() for cell in taxonomy.rows(tpu)]


# --- the loader


def test_rows_are_in_order_and_whole() -> None:
    cells = taxonomy.rows("v5e")
    assert [cell.row for cell in cells][:1] == ["01_mxu_feed"]
    assert [cell.row for cell in cells] == sorted(cell.row for cell in cells)
    for cell in cells:
        assert cell.tpu == "v5e"
        assert "def kernel(" in cell.naive_kernel
        assert "def kernel(" in cell.optimized_kernel
        assert cell.naive_kernel != cell.optimized_kernel
        assert cell.guide.startswith("# " + cell.row[:2])
        assert "\n" not in cell.one_line


def test_every_folder_is_a_whole_cell() -> None:
    folders = [p for p in content.folder("taxonomy").glob("*/*/") if p.is_dir()]
    assert sorted((p.parent.name, p.name) for p in folders if p.parent.name in TPUS) == sorted(CELLS)
    needed = {"naive_kernel.py", "optimized_kernel.py", "config.json", "guide.md"}
    for folder in (folder for folder in folders if folder.parent.name in TPUS):
        assert {p.name for p in folder.iterdir() if p.is_file()} == needed


def test_guides_have_every_section() -> None:
    wanted = [
        "Rule",
        "Hardware reason",
        "When it applies",
        "Protocol",
        "Gotchas",
        "How it composes",
        "What it costs",
    ]
    for tpu, row in CELLS:
        assert re.findall(r"^## (.*)$", taxonomy.cell(tpu, row).guide, re.M) == wanted


def test_unknown_row_names_nearest_and_all() -> None:
    with pytest.raises(taxonomy.UnknownCell, match=r"Nearest: 01_mxu_feed.*All: 01_mxu_feed, 02_"):
        taxonomy.cell("v5e", "mxu_fed")


def test_row_cannot_leave_the_folder() -> None:
    with pytest.raises(taxonomy.UnknownCell):
        taxonomy.cell("v5e", "../v5e/01_mxu_feed")


def test_chip_without_cells_is_empty_and_says_so() -> None:
    assert taxonomy.rows("v1") == []
    with pytest.raises(taxonomy.UnknownCell, match="no cells for 'v1'. Chips with cells: .*v5e"):
        taxonomy.cell("v1", "01_mxu_feed")


def test_loading_does_not_import_jax() -> None:
    code = "import sys; from hawkeye_mcp import taxonomy; taxonomy.rows('v5e'); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the cells against their source


def test_every_row_has_a_cell_on_every_chip() -> None:
    assert len(source.rows()) >= 14
    assert CELLS == [(tpu, row) for tpu in sorted(TPUS) for row in source.rows()]


def test_cells_are_what_their_source_gives() -> None:
    texts = anyio.run(render.cells, source.rows())
    stale = [str(path) for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "hawkeye taxonomy render --write"
    assert render.left_over(texts) == []


@pytest.mark.parametrize(("tpu", "row"), CELLS)
def test_config_says_what_is_claimed(tpu: str, row: str) -> None:
    config = taxonomy.cell(tpu, row).config
    assert list(config["shapes"]) == ["full", "check", "second"]
    assert all(list(shapes) == list(config["dtypes"]) for shapes in config["shapes"].values())
    assert config["shapes"]["check"] != config["shapes"]["second"]
    low, high = config["predicted_speedup"]["range"]
    if config["applies"]:
        assert config["counters"]
        assert all(claim["least_ratio"] > 1 for claim in config["counters"])
        assert 1 < low < high <= 2.5 * low
    else:
        assert config["counters"] == []
        assert 0.9 <= low < 1 < high <= 1.1
    installed = {name: metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}
    assert config["predicted_speedup"]["versions"] == installed


# --- what the compiler of each chip says of them


@pytest.mark.minutes
def test_every_claim_holds_and_the_page_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kernels of every cell: right on three draws at two sizes, compiled and profiled for its chip. Minutes."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path))

    async def verify() -> list[Verified]:
        return await runner.verify(CELLS, fresh=True, done=lambda found: print(found.row, found.tpu, found.problems))

    found = anyio.run(verify)
    assert [f"{each.row} on {each.tpu}: {problem}" for each in found for problem in each.problems] == []
    assert all(each.seeds == 6 for each in found)
    page = readme.page_path().read_text(encoding="utf-8")
    assert page == readme.page(found), "hawkeye taxonomy verify --write"


# --- nothing in a cell may point at what an agent is judged on

MODELS = (
    "llama|mixtral|mistral|deepseek|qwen|gemma|gemini|claude|gpt|palm|bert|retnet|mamba|alphafold|transformer|"
    "maxtext|tokamax|mixture.of.experts|moe|mla|gqa|swiglu"
)
PROJECT = "hawkeye|jaxbench|kernelbench|benchmark|leaderboard|workload|agent"


@cache
def traces() -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
    """What names a workload or two of its lengths side by side, and what gives one away by a single number."""
    named, numbers = set[str](), set[int]()
    for name in workloads.names():
        workload = workloads.load(name)
        _, _, words = name.partition("_")
        # A one-word name such as GEMM is a common term; with its number it is not.
        patterns = [re.escape(name)] + ([words.replace("_", r"[\s_-]*")] if "_" in words else [])
        named |= {rf"(?i:(?<![a-z0-9]){p}(?![a-z0-9]))" for p in patterns}
        for shape, _ in workload.shapes(workload.inputs + workload.outputs, "full"):
            large = [dim for dim in shape if dim >= 512]
            named |= {rf"\b{a}\b\s*(?:,|x|×|\*|by)\s*\b{b}\b" for a, b in zip(large, large[1:], strict=False)}
            # 28672 gives a model away by itself, 8192 does not
            numbers |= {dim for dim in large if dim > 4096 and dim.bit_count() > 1}
    return [re.compile(p) for p in sorted(named)], [re.compile(rf"\b{dim}\b") for dim in sorted(numbers)]


def leaks(text: str) -> list[str]:
    """Words and shapes that tie a text to the workloads, to models or to this project."""
    found = [m.group() for m in re.finditer(rf"\b({MODELS}|{PROJECT})s?\b", text, re.I)]
    named, numbers = traces()
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    found += [m.group() for pattern in named for m in pattern.finditer(text)]
    return found + [m.group() for pattern in numbers for m in pattern.finditer(plain)]


def test_cells_leak_nothing() -> None:
    assert workloads.names()
    for tpu, row in CELLS:
        folder = content.folder("taxonomy") / tpu / row
        for file in folder.iterdir():
            if file.is_file():
                assert leaks(file.read_text(encoding="utf-8")) == [], file.name


@pytest.mark.parametrize(
    "text",
    [
        "as in 8p_GEMM",
        "a fused gemm add relu tail",
        "the Llama projection",
        "on the benchmark",
        "(8192, 28672)",
    ],
)
def test_lint_finds_a_planted_leak(text: str) -> None:
    assert leaks(f"Choose blocks of 512. {text} it helps.")


def test_lint_finds_every_workload_by_name_and_by_shape() -> None:
    for name in workloads.names():
        workload = workloads.load(name)
        assert leaks(f"see {name}")
        pairs = [s for s, _ in workload.shapes(workload.inputs, "full") if sum(dim >= 512 for dim in s) >= 2]
        for shape in pairs:
            assert leaks(f"x of shape {list(shape)}"), (name, shape)
