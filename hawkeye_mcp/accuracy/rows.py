"""The published on-chip measurements that predictions are scored on: where they come from, and how they are split.

tokamax ships medians of device time (XProf) with exact shapes and tile configurations in its package data; they are
read where it is installed (`pip install hawkeye-mcp[accuracy]`). `measured.csv` beside this file holds the rows of the
JAX documentation's Pallas matmul notebook, which are means of wall clock and say so.
"""

import csv
import hashlib
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources, util
from pathlib import Path
from typing import Any, Literal

EXTRA = "tokamax==0.0.12"
# Wall clock of a call this short is mostly dispatch.
SHORT_US = 300.0
CHIP_FOLDERS = {"v5e": "tpu_v5_lite", "7x": "tpu7x"}
# tokamax's files by the operation and the implementation that they measure
FILES = {
    "pallas_mosaic_tpu_ragged_dot": ("ragged_dot", "mosaic"),
    "pallas_mosaic_tpu_flash_attention": ("attention", "mosaic"),
    "pallas_mosaic_tpu_flash_attention_vjp": ("attention_vjp", "mosaic"),
    "pallas_mosaic_tpu_linear_softmax_cross_entropy_loss": ("cross_entropy", "mosaic"),
    "pallas_mosaic_tpu_linear_softmax_cross_entropy_loss_vjp": ("cross_entropy_vjp", "mosaic"),
    "ragged_dot": ("ragged_dot", "xla"),
    "dot_product_attention": ("attention", "xla"),
    "xla_chunked_dot_product_attention": ("attention_chunked", "xla"),
    "linear_softmax_cross_entropy_loss": ("cross_entropy", "xla"),
    "linear_softmax_cross_entropy_loss_vjp": ("cross_entropy_vjp", "xla"),
    "normalization": ("normalization", "xla"),
    "normalization_vjp": ("normalization_vjp", "xla"),
    "triangle_multiplication": ("triangle_multiplication", "xla"),
}
# XLA's own programs for whole operations: hundreds, of which none says more of kernels
XLA_OPERATIONS = {
    "dot_product_attention",
    "xla_chunked_dot_product_attention",
    "linear_softmax_cross_entropy_loss",
    "linear_softmax_cross_entropy_loss_vjp",
}
# of an argument specification, what says only how one shape was run
_VARIANTS = ("return_residuals", "reduction", "precision", "preferred_element_type", "residuals", "out", "dout")


@dataclass(frozen=True)
class Row:
    """One measurement. spec, config: tokamax's JSON of the arguments and the tiles. timing: device or wall_clock."""

    id: str
    chip: str
    kernel: str
    implementation: Literal["mosaic", "xla"]
    file: str
    spec: str
    config: str
    measured_us: float
    timing: Literal["device", "wall_clock"]
    source: str
    group: str
    split: Literal["fit", "held_out"] = "fit"

    @property
    def mostly_dispatch(self) -> bool:
        return self.timing == "wall_clock" and self.measured_us < SHORT_US

    @property
    def looks_ahead(self) -> bool:
        """Whether it was run with more than two buffers, whose pipeline searches for the next block; built with two."""
        return int(json.loads(self.config).get("input_buffer_count", 2)) > 2


def tokamax_version() -> str | None:
    return metadata.version("tokamax") if util.find_spec("tokamax") else None


def rows() -> list[Row]:
    """All rows, split by shape: every variant of one shape, forward and backward, falls on the same side.

    Without tokamax those of its rows that are in the package.
    """
    if tokamax_version():
        return _split([*_from_csv(), *_from_tokamax()])
    from hawkeye_mcp.accuracy import shipped

    own = _split(list(_from_csv()))
    return [*own, *(row for row in shipped.load().rows if row.file != "measured.csv")]


def _from_csv() -> Iterator[Row]:
    text = (Path(__file__).with_name("measured.csv")).read_text(encoding="utf-8")
    for line in csv.DictReader(text.splitlines()):
        implementation: Literal["mosaic", "xla"] = "xla" if line["kernel"].startswith("xla") else "mosaic"
        spec: dict[str, int | bool] = {key: int(line[key]) for key in ("m", "k", "n")}
        group = f"matmul {sorted(spec.items())}"
        spec |= {option: True for option in ("rhs_transposed", "relu") if line["kernel"].endswith(option)}
        config = {key: int(line[key]) for key in ("block_m", "block_k", "block_n") if line[key]}
        yield Row(
            id=line["id"],
            chip=line["chip"],
            kernel="matmul",
            implementation=implementation,
            file="measured.csv",
            spec=json.dumps(spec),
            config=json.dumps(config),
            measured_us=float(line["measured_us"]),
            timing="wall_clock",
            source=line["source"],
            group=group,
        )


def _from_tokamax() -> Iterator[Row]:
    version = tokamax_version()
    root = resources.files("tokamax").joinpath("data", "autotuning")
    written = _written_sizes(root)
    for chip, folder in CHIP_FOLDERS.items():
        for name, (kernel, implementation) in FILES.items():
            file = root.joinpath(folder, f"{name}.json")
            if not file.is_file():
                continue
            for spec, config, times_ms in _measured(file.read_text(encoding="utf-8")):
                spec = _with_sizes(spec, written)
                mark = hashlib.sha256(f"{chip} {name} {spec} {config}".encode()).hexdigest()[:8]
                yield Row(
                    id=f"{chip}-{name.replace('pallas_mosaic_tpu_', 'mosaic_')}-{mark}",
                    chip=chip,
                    kernel=kernel,
                    implementation=implementation,  # type: ignore[arg-type]
                    file=name,
                    spec=spec,
                    config=config,
                    measured_us=statistics.median(times_ms) * 1e3,
                    timing="device",
                    source=f"tokamax {version} data/autotuning/{folder}/{name}.json",
                    group=group_of(kernel, json.loads(spec)),
                )


def _measured(text: str) -> Iterator[tuple[str, str, list[float]]]:
    """Every configuration of a file that has times."""
    try:
        entries = json.loads(text or "{}")
    except ValueError:  # one file of 0.0.12 has unescaped quotes around its group sizes
        text = text.replace('{"num_groups":', '{\\"num_groups\\":').replace(',"total_size":', ',\\"total_size\\":')
        entries = json.loads(text)
    for spec, configs in entries.items():
        for config, result in configs.items():
            if times := result.get("evaluation_times_ms"):
                yield spec, config, times


def _written_sizes(root: Any) -> dict[tuple[int, int], list[int]]:
    """Group sizes that somebody wrote, all equal or all rows in one group, by (groups, rows); drawn ones are left out."""
    found = {}
    for folder in CHIP_FOLDERS.values():
        file = root.joinpath(folder, "ragged_dot.json")
        for spec, _, _ in _measured(file.read_text(encoding="utf-8")) if file.is_file() else ():
            sizes = json.loads(spec)["group_sizes"]
            if isinstance(sizes, list) and (len(set(sizes)) == 1 or max(sizes) == sum(sizes)):
                found[len(sizes), sum(sizes)] = sizes
    return found


def _with_sizes(spec: str, written: dict[tuple[int, int], list[int]]) -> str:
    """The 7x files name only totals; where tokamax names sizes for these totals elsewhere, those were run.

    Other totals stay, for which tokamax itself draws sizes from a fixed seed.
    """
    arguments = json.loads(spec)
    sizes = arguments.get("group_sizes")
    if not isinstance(sizes, dict) or (key := (sizes["num_groups"], sizes["total_size"])) not in written:
        return spec
    return json.dumps(arguments | {"group_sizes": written[key]})


def group_of(kernel: str, spec: dict[str, Any]) -> str:
    """What rows of one shape have in common, whatever the implementation, the direction and the options."""
    if "lhs" in spec:  # a gradient of a grouped matmul is another grouped matmul of the same three dimensions
        sizes = [spec[key].split("[")[1].rstrip("]").split(",")[-2:] for key in ("lhs", "rhs")]
        return f"ragged_dot {sorted({int(n) for dims in sizes for n in dims})}"
    shapes = {key: _dims(value) for key, value in spec.items() if key not in _VARIANTS}
    return f"{kernel.removesuffix('_vjp').removesuffix('_chunked')} {json.dumps(shapes, sort_keys=True)}"


def _dims(value: Any) -> Any:
    return (
        value[value.index("[") :]
        if isinstance(value, str) and "[" in value
        else value
        if isinstance(value, str)
        else None
    )


def _split(found: list[Row]) -> list[Row]:
    """Half of the shapes of each kernel family to each side, by the order of a hash of their names."""
    sides: dict[str, Literal["fit", "held_out"]] = {}
    families: dict[str, set[str]] = {}
    for row in found:
        sides[row.group] = "fit"
        if not row.mostly_dispatch:  # else it is not scored and would take the place of one that is
            families.setdefault(row.group.split(" ", 1)[0], set()).add(row.group)
    for groups in families.values():
        ordered = sorted(groups, key=lambda group: hashlib.sha256(group.encode()).hexdigest())
        for number, group in enumerate(ordered):
            sides[group] = "held_out" if number % 2 else "fit"
    return [Row(**{**row.__dict__, "split": sides[row.group]}) for row in found]
