import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hawkeye_mcp import content, taxonomy, workloads

CELLS = [(tpu, cell.row) for tpu in taxonomy.tpus() for cell in taxonomy.rows(tpu)]
SEEDS = (11, 12, 13)
PEAK_FLOPS = 197e12
HBM_BYTES_PER_S = 820e9


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
    assert sorted((p.parent.name, p.name) for p in folders) == sorted(CELLS)
    needed = {"naive_kernel.py", "optimized_kernel.py", "config.json", "guide.md"}
    for folder in folders:
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
    with pytest.raises(taxonomy.UnknownCell, match=r"Nearest: 01_mxu_feed.*All: 01_mxu_feed, 05_fused_epilogue"):
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


# --- the configuration


def floor_us(config: dict) -> float:
    """Time that no kernel can beat: FLOP over peak, or inputs and output once over bandwidth."""
    shapes = list(config["shapes"]["full"].values())
    (m, k), n = shapes[0], shapes[1][1]
    sizes = [math.prod(s) * np.dtype(dtype(config, name)).itemsize for name, s in config["shapes"]["full"].items()]
    least_bytes = sum(sizes) + m * n * np.dtype(dtype(config, "output")).itemsize
    return 1e6 * max(2 * m * k * n / PEAK_FLOPS, least_bytes / HBM_BYTES_PER_S)


@pytest.mark.parametrize(("tpu", "row"), CELLS)
def test_config_is_complete_and_sized_above_launch_cost(tpu: str, row: str) -> None:
    config = taxonomy.cell(tpu, row).config
    assert set(config) == {
        *("title", "one_line", "shapes", "dtypes", "draw", "tolerance", "counters", "predicted_speedup")
    }
    assert list(config["shapes"]["full"]) == list(config["shapes"]["check"]) == list(config["draw"])
    assert list(config["dtypes"]) == [*config["draw"], "output"]
    assert floor_us(config) >= 50
    assert all(set(claim) == {"name", "direction", "least_ratio"} for claim in config["counters"])
    low, high = config["predicted_speedup"]["range"]
    assert 1 < low < high < 2.5 * low
    installed = {name: metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}
    assert config["predicted_speedup"]["versions"] == installed


# --- the numbers both kernels give, against a float64 reference


def dtype(config: dict, name: str) -> type:
    return {"bfloat16": ml_dtypes.bfloat16, "float32": np.float32}[config["dtypes"][name]]


def draw(config: dict, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = config["shapes"]["check"]
    k = shapes["x"][1]
    scale = {"normal(0, 1)": 1.0, "normal(0, 1) / sqrt(k)": 1 / math.sqrt(k)}
    return {
        name: (rng.standard_normal(shape, dtype=np.float32) * np.float32(scale[config["draw"][name]])).astype(
            dtype(config, name)
        )
        for name, shape in shapes.items()
    }


REFERENCE = {
    "01_mxu_feed": lambda x, y: x @ y,
    "05_fused_epilogue": lambda x, y, bias: np.maximum(x @ y + bias, 0),
}


def error_e(out: np.ndarray, ref: np.ndarray) -> float:
    return float(np.linalg.norm(out - ref) / np.linalg.norm(ref - ref.mean(axis=0)))


def run_interpreted(source: str, arguments: list[np.ndarray]) -> np.ndarray:
    import jax
    from jax.experimental.pallas import tpu as pltpu

    namespace: dict = {}
    exec(compile(source, "kernel.py", "exec"), namespace)
    with pltpu.force_tpu_interpret_mode():
        return np.asarray(jax.jit(namespace["kernel"])(*arguments))


@pytest.mark.parametrize("which", ["naive_kernel", "optimized_kernel"])
@pytest.mark.parametrize(("tpu", "row"), CELLS)
def test_kernel_agrees_with_float64(tpu: str, row: str, which: str) -> None:
    cell = taxonomy.cell(tpu, row)
    for seed in SEEDS:
        inputs = draw(cell.config, seed)
        ref = REFERENCE[row](*(value.astype(np.float64) for value in inputs.values()))
        out = run_interpreted(getattr(cell, which), list(inputs.values()))
        assert out.shape == ref.shape
        assert out.dtype == dtype(cell.config, "output")
        assert cell.config["tolerance"]["metric"] == "E"
        assert error_e(out.astype(np.float64), ref) <= cell.config["tolerance"]["limit"]


@pytest.mark.parametrize(("tpu", "row"), CELLS)
def test_limit_refuses_a_dropped_sixteenth(tpu: str, row: str) -> None:
    """The limit has teeth: a kernel that leaves out the end of the contraction is far above it."""
    config = taxonomy.cell(tpu, row).config
    inputs = {name: value.astype(np.float64) for name, value in draw(config, SEEDS[0]).items()}
    ref = REFERENCE[row](**inputs)
    keep = inputs["x"].shape[1] * 15 // 16
    wrong = REFERENCE[row](**(inputs | {"x": inputs["x"][:, :keep], "y": inputs["y"][:keep]}))
    assert error_e(wrong, ref) > 10 * config["tolerance"]["limit"]


# --- what the TPU compiler says of them at full size

# A kernel with too many grid steps to unroll is profiled on output tiles of (rows, columns) and scaled.
SAMPLED_TILE = {("01_mxu_feed", "naive_kernel"): (128, 512)}


def schedule(tpu: str, row: str, which: str) -> dict[str, float]:
    assert tpu == "v5e"
    config = taxonomy.cell(tpu, row).config
    shapes = {name: list(shape) for name, shape in config["shapes"]["full"].items()}
    extra = []
    if tile := SAMPLED_TILE.get((row, which)):
        extra = [str(shapes["x"][0] // tile[0] * (shapes["y"][1] // tile[1]))]
        shapes["x"][0], shapes["y"][1] = tile
    listed = json.dumps([[shape, config["dtypes"][name]] for name, shape in shapes.items()])
    file = content.folder("taxonomy") / tpu / row / f"{which}.py"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cell_schedule.py")), str(file), listed, *extra],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_claims_hold_on_the_compilers_schedule() -> None:
    """Both kernels of every cell compile for v5e at full size; every claimed counter and speedup is there."""
    pairs = [(tpu, row, which) for tpu, row in CELLS for which in ("naive_kernel", "optimized_kernel")]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(pairs, pool.map(lambda pair: schedule(*pair), pairs), strict=True))
    for tpu, row in CELLS:
        config = taxonomy.cell(tpu, row).config
        naive, optimized = found[tpu, row, "naive_kernel"], found[tpu, row, "optimized_kernel"]
        for claim in config["counters"]:
            before, after = naive.get(claim["name"], 0), optimized.get(claim["name"], 0)
            over, under = (before, after) if claim["direction"] == "down" else (after, before)
            assert over > 0, (row, claim)
            assert over >= claim["least_ratio"] * under, (row, claim, before, after)
        low, high = config["predicted_speedup"]["range"]
        assert low <= naive["time_us"] / optimized["time_us"] <= high, (row, naive, optimized)


# --- nothing in a cell may point at what an agent is judged on

MODELS = (
    "llama|mixtral|mistral|deepseek|qwen|gemma|gemini|claude|gpt|palm|bert|retnet|mamba|alphafold|transformer|"
    "maxtext|tokamax|mixture.of.experts|moe|mla|gqa|swiglu"
)
PROJECT = "hawkeye|jaxbench|kernelbench|benchmark|leaderboard|workload|agent"


def leaks(text: str) -> list[str]:
    """Words and shapes that tie a text to the workloads, to models or to this project."""
    found = [m.group() for m in re.finditer(rf"\b({MODELS}|{PROJECT})s?\b", text, re.I)]
    for name in workloads.names():
        workload = workloads.load(name)
        _, _, words = name.partition("_")
        # A one-word name such as GEMM is a common term; with its number it is not.
        patterns = [re.escape(name)] + ([words.replace("_", r"[\s_-]*")] if "_" in words else [])
        found += [m.group() for p in patterns for m in re.finditer(rf"(?<![a-z0-9]){p}(?![a-z0-9])", text, re.I)]
        for shape, _ in workload.shapes(workload.inputs + workload.outputs, "full"):
            large = [dim for dim in shape if dim >= 512]
            for a, b in zip(large, large[1:], strict=False):
                found += re.findall(rf"\b{a}\b\s*(?:,|x|×|\*|by)\s*\b{b}\b", text)
            for dim in large:
                if dim > 4096 and dim.bit_count() > 1:  # 28672 gives a model away by itself, 8192 does not
                    found += re.findall(rf"\b{dim}\b", re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    return found


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
