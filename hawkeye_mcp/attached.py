"""Whether TPUs are attached to this machine, from its device nodes: no jax, no libtpu, nothing is opened."""

from pathlib import Path

_GOOGLE = "0x1ae0"  # PCI vendor


def tpus(root: Path = Path("/")) -> list[Path]:
    """The device nodes of attached TPUs.

    A vfio group counts only beside a PCI device of Google's: other devices are passed through the same way.
    """
    nodes = [*(root / "dev").glob("accel*"), *(root / "dev/accel").glob("accel*")]
    nodes = [node for node in nodes if not node.is_dir()]
    vendors = [file.read_text().strip() for file in (root / "sys/bus/pci/devices").glob("*/vendor")]
    if _GOOGLE in vendors:
        nodes += (root / "dev/vfio").glob("[0-9]*")
    return nodes
