"""Do the speedups that rows of the taxonomy claim multiply in a kernel that is built from several of them?

Of three workloads each there are two kernels: in one every row's idiom is in its naive form, in the other in its optimized
one, as the cells show them side by side. Times are predicted for a v5e. `pytest tests/composition -m slow -s` prints the table.
"""

import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio.from_thread
import pytest

from hawkeye_mcp import taxonomy, workloads
from hawkeye_mcp.judge.evaluate import Examined, Known, open_judge
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.taxonomy_check.runner import figure

TPU = "v5e"
HERE = Path(__file__).parent
ROWS = {
    "41k_Gemm_Add_ReLU": ("09_block_size_and_vmem_budget", "05_fused_epilogue"),
    "12p_RMSNorm": ("03_vectorized_vmem", "06_lane_reduction"),
    "50k_Matmul_GELU_Softmax": ("08_k_blocked_accumulation", "05_fused_epilogue", "06_lane_reduction"),
}
SECOND = {
    "41k_Gemm_Add_ReLU": {"M": 512, "K": 512, "N": 1024},
    "12p_RMSNorm": {"B": 1, "S": 96, "D": 1024},
    "50k_Matmul_GELU_Softmax": {"M": 512, "K": 2048, "N": 1024},
}

# How far the gain may lie from what is expected of it, either way. A combined kernel stands above its floor by the start of
# its pipeline, steps between blocks and a second pass over the result: 7 to 12 % in these three. Ends of the claimed ranges
# lie 1.2 to 1.5 from their middles. What a floor hides of one row's gain shows in that row's counter only.
MARGIN = 1.25


@dataclass(frozen=True)
class Composition:
    """naive_us, combined_us: predicted. floor_us: the least that the chip needs for the workload, at the rates by which
    times are predicted. claims: product of the middles of the rows' claimed speedups."""

    naive_us: float
    combined_us: float
    floor_us: float
    claims: float

    @property
    def gain(self) -> float:
        return self.naive_us / self.combined_us

    @property
    def limit(self) -> float:
        """What no kernel gains over the naive one."""
        return self.naive_us / self.floor_us


@pytest.fixture(scope="module")
def examine():
    """(source, workload, second) -> a future of what the judge finds: results at both sizes, then time and counters."""
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(open_judge()) as judge:
        print(
            f"\n| on {TPU}, predicted | rows | naive us | combined us | gain | product of claims | floor us | naive / floor |"
        )
        yield lambda source, workload, second: portal.start_task_soon(
            judge.examine, source, workload, second, TPU, Known()
        )


# One test for each workload: what the judge finds takes many seconds, and tests of one module may run in several processes.
@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_gains_multiply_until_a_floor_binds(examine, tmp_path, name):
    workload, second = workloads.load(name), _second(name, tmp_path / f"second_{name}")
    sources = [(HERE / f"{name}_{form}.py").read_text(encoding="utf-8") for form in ("naive", "combined")]
    futures = [examine(source, workload, second) for source in sources]
    naive, combined = (future.result() for future in futures)
    for each in (naive, combined):
        _is_right_and_has_a_time(each)
    for row in ROWS[name]:
        _shows_in_its_counter(row, naive.profile, combined.profile)

    it = _composition(name, naive.profile, combined.profile)
    print(_line(name, it))
    assert it.gain > 1.5
    assert min(it.claims, it.limit) / MARGIN <= it.gain <= min(it.claims, it.limit) * MARGIN
    if not it.claims / MARGIN <= it.gain <= it.claims * MARGIN:
        assert it.limit < it.claims  # no kernel could have reached the product
        assert it.combined_us <= MARGIN * it.floor_us
        for row in ROWS[name]:
            _guide_says_why_not(row)


def _second(name: str, folder: Path) -> workloads.Workload:
    """The workload with its second size in place of both of its own."""
    shutil.copytree(workloads.load(name).folder, folder)
    declared = folder / "workload.toml"
    sizes = f"{{ {', '.join(f'{key} = {length}' for key, length in SECOND[name].items())} }}"
    text, replaced = re.subn(r"^(full|check) = .*$", rf"\1 = {sizes}", declared.read_text(encoding="utf-8"), flags=re.M)
    assert replaced == 2
    declared.write_text(text, encoding="utf-8")
    return workloads.find(f"{folder}/")


def _is_right_and_has_a_time(it: Examined) -> None:
    assert it.profile.status == "profiled", it.profile.message
    assert it.seeds == 6  # three draws at each size
    assert it.profile.predicted_us
    assert not it.profile.timing.lower_bound


def _shows_in_its_counter(row: str, naive: Profile, combined: Profile) -> None:
    """The first that the cell claims, in its direction; by how much depends on the problem's shape."""
    moved = figure(taxonomy.cell(TPU, row).config["counters"][0], naive, combined)
    assert moved.ratio is not None
    assert moved.ratio > 1.9, moved


def _guide_says_why_not(row: str) -> None:
    composes = taxonomy.cell(TPU, row).guide.split("## How it composes")[1].split("\n## ")[0]
    assert "until a floor binds" in " ".join(composes.split()), row


def _composition(name: str, naive: Profile, combined: Profile) -> Composition:
    ranges = [taxonomy.cell(TPU, row).config["predicted_speedup"]["range"] for row in ROWS[name]]
    return Composition(
        naive_us=naive.predicted_us,
        combined_us=combined.predicted_us,
        floor_us=combined.roofline.best_us,
        claims=math.prod(sum(ends) / 2 for ends in ranges),
    )


def _line(name: str, it: Composition) -> str:
    rows = " ".join(row[:2] for row in ROWS[name])
    return (
        f"| {name} | {rows} | {it.naive_us:,.0f} | {it.combined_us:,.0f} | {it.gain:.2f} | {it.claims:.2f}"
        f" | {it.floor_us:,.0f} | {it.limit:.2f} |"
    )
