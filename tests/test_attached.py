from pathlib import Path

import pytest
from jax._src import hardware_utils

from hawkeye_mcp import attached


@pytest.fixture
def root(tmp_path):
    """A machine with PCI devices (vendor, device)."""

    def machine(*devices):
        for slot, (vendor, device) in enumerate(devices):
            folder: Path = tmp_path / f"sys/bus/pci/devices/0000:00:{slot:02}.0"
            folder.mkdir(parents=True)
            (folder / "vendor").write_text(f"{vendor}\n")
            (folder / "device").write_text(f"{device}\n")
        return tmp_path

    return machine


def test_each_chip_is_named_by_its_generation(root):
    assert attached.tpus(root(("0x1ae0", "0x0063"), ("0x8086", "0x1237"), ("0x1ae0", "0x0063"))) == ["v5e", "v5e"]


@pytest.mark.parametrize("device", [("0x1ae0", "0x0042"), ("0x10de", "0x0063")])
def test_a_network_card_of_googles_or_a_device_of_others_is_none(root, device):
    assert attached.tpus(root(device)) == []


def test_a_machine_without_pci_has_none(tmp_path):
    assert attached.tpus(tmp_path) == []


def test_the_devices_are_those_that_jax_knows():
    names = {"tpu7x": "7x"}
    known = {device: names.get(kind.name, kind.name) for device, kind in hardware_utils._TPU_PCI_DEVICE_IDS.items()}
    del known["0x0056"]  # without a public name
    assert known == attached._GENERATIONS
    assert hardware_utils._GOOGLE_PCI_VENDOR_ID == attached._GOOGLE
