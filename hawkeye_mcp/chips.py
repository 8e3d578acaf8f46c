"""Chip facts. Peaks, bandwidths and memories come from jax's own TpuInfo; only what it lacks is written here."""

from dataclasses import dataclass
from typing import Literal, get_args

Tpu = Literal["v5e", "v5p", "v6e", "7x"]
TPUS: tuple[str, ...] = get_args(Tpu)
DEFAULT_TPU = "v5e"


@dataclass(frozen=True)
class Chip:
    """One generation as libtpu's topology presents it: figures are per JAX device.

    topology: name for jax.experimental.topologies. device_kind: what jax calls the device. cores: TensorCores
    per device. clock_hz: peak bf16 FLOP/s of the device over FLOP per cycle of its MXUs; no official clock is
    published for most of them. hbm_gb: capacity of one device in 1e9 bytes (Google Cloud TPU documentation).
    """

    name: str
    topology: str
    device_kind: str
    cores: int
    clock_hz: float
    clock_source: str


CHIPS: dict[str, Chip] = {
    "v5e": Chip("v5e", "v5e:2x2", "TPU v5 lite", 1, 1.503e9, "197e12 FLOP/s / (4 MXU * 2 * 128**2)"),
    "v5p": Chip("v5p", "v5p:2x2x1", "TPU v5", 2, 1.751e9, "459e12 FLOP/s / (8 MXU * 2 * 128**2)"),
    "v6e": Chip("v6e", "v6e:2x2", "TPU v6 lite", 1, 1.751e9, "918e12 FLOP/s / (2 MXU * 2 rows * 2 * 256**2)"),
    "7x": Chip("7x", "tpu7x:2x2x1", "TPU7x", 1, 2.203e9, "1155e12 FLOP/s / (2 MXU * 2 rows * 2 * 256**2)"),
}
