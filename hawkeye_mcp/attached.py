"""The TPUs attached to this machine, from its PCI devices: no jax, no libtpu, nothing is opened."""

from pathlib import Path

_GOOGLE = "0x1ae0"  # its network cards have it too
# By PCI device, as in jax._src.hardware_utils, with the names that this package uses.
_GENERATIONS = {
    "0x0027": "v3",
    "0x005e": "v4",
    "0x0062": "v5p",
    "0x0063": "v5e",
    "0x006f": "v6e",
    "0x0076": "7x",
}


def tpus(root: Path = Path("/")) -> list[str]:
    """The generation of each attached TPU chip."""
    found = []
    for vendor in sorted((root / "sys/bus/pci/devices").glob("*/vendor")):
        if vendor.read_text().strip() == _GOOGLE:
            found.append(_GENERATIONS.get((vendor.parent / "device").read_text().strip()))
    return [generation for generation in found if generation]
