import dataclasses
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from hawkeye_mcp import doctor
from hawkeye_mcp.candidate import isolation
from hawkeye_mcp.chips import CHIPS


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


# --- the whole


def test_this_machine_can_do_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    checks = {check.name: check for check in doctor.diagnose()}
    assert doctor.exit_code(list(checks.values())) == 0
    assert checks["TPU compiler"].found == "compiles for v5e, v5p, v6e, 7x"
    assert checks["compile for v6e"].found == "TPU v6 lite"
    assert checks["libtpu"].found == f"{metadata.version('libtpu')} (the pinned version)"
    assert "cells for v5e" in checks["taxonomy"].found
    assert checks["state folder"].found.startswith(str(tmp_path))
    for check in checks.values():
        assert bool(check.fix) != check.ok, check
    json.dumps([check.model_dump() for check in checks.values()])


def test_diagnosing_imports_no_jax() -> None:
    code = "import sys; from hawkeye_mcp import doctor; doctor.diagnose(); assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def check(name: str, ok: bool, level: doctor.Level) -> doctor.Check:
    return doctor.Check(name=name, ok=ok, level=level, found="[x]", fix="" if ok else f"bring {name}")


def test_only_something_required_fails_the_exit_code() -> None:
    assert doctor.exit_code([check("a", True, "required"), check("b", False, "recommended")]) == 0
    assert doctor.exit_code([check("a", False, "required"), check("b", True, "recommended")]) == 1


def test_show_ends_with_one_whole_command_per_missing_thing() -> None:
    out = io.StringIO()
    checks = [check("a", True, "required"), check("b", False, "recommended"), check("c", False, "required")]
    doctor.show(checks, Console(file=out, width=40))
    assert "[x]" in out.getvalue()
    assert "MISSING  c" in out.getvalue()
    assert out.getvalue().endswith("\nb (recommended):\n  bring b\n\nc (required):\n  bring c\n")


# --- packages


def test_pins_come_from_the_metadata() -> None:
    assert doctor.pin("jax") in metadata.requires("hawkeye-mcp")
    assert doctor.pin("jax") != doctor.pin("jaxlib")
    assert doctor.pin("flatbuffers") == "flatbuffers"
    assert doctor.pin("no-such-package") is None


def test_missing_package_brings_its_pip_line() -> None:
    found = doctor.package("no-such-package")
    assert not found.ok
    assert found.found == "not installed"
    assert found.fix == f"{sys.executable} -m pip install no-such-package"


def test_package_at_another_version_than_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "pin", lambda name: "jax==0.0.1")
    found = doctor.package("jax")
    assert not found.ok
    assert found.found == f"{metadata.version('jax')}, pinned at 0.0.1"
    assert found.fix.endswith("pip install jax==0.0.1")


def test_pytorch_is_optional_and_what_is_lacking_of_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.13.0+cpu", "torchax": "0.0.13"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert doctor.pytorch() == doctor.Check(
        name="PyTorch", ok=True, level="optional", found="torch 2.13.0+cpu, torchax 0.0.13"
    )
    versions["torch"] = "2.9.0"
    del versions["torchax"]
    found = doctor.pytorch()
    assert (found.ok, found.level) == (False, "optional")
    assert found.found == "torch 2.9.0; lacking: torch==2.13.0 instead, torchax"
    assert found.fix == f"{sys.executable} -m pip install torch==2.13.0 torchax==0.0.13"


# --- the compiler


def test_generation_that_libtpu_does_not_know() -> None:
    found = doctor.generation(dataclasses.replace(CHIPS["v5e"], name="v99", topology="v99:2x2"))
    assert not found.ok
    assert found.name == "compile for v99"
    assert found.found
    assert "libtpu==" in found.fix


def test_compiler_that_aborts_is_a_finding(tmp_path: Path) -> None:
    program(tmp_path, "python", "echo 'libtpu is broken' >&2; kill -ABRT $$")
    found = doctor.generation(CHIPS["v5e"], interpreter=str(tmp_path / "python"))
    assert not found.ok
    assert found.found == "libtpu is broken"


# --- the sandbox


@pytest.fixture(autouse=True)
def found_afresh() -> Iterator[None]:
    """What stands around a candidate is looked for once per process; tests change the answer."""
    isolation.isolation.cache_clear()
    yield
    isolation.isolation.cache_clear()


def test_no_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.sandbox()
    assert not found.ok
    assert found.level == "recommended"
    assert "rlimits only" in found.found
    assert found.fix == "apt-get install bubblewrap"


@pytest.mark.parametrize(
    ("switch", "value", "fix"),
    [
        ("kernel/unprivileged_userns_clone", "0\n", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1\n",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0\n", "sysctl -w user.max_user_namespaces=15000"),
        (
            "kernel/unprivileged_userns_clone",
            "1\n",
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined IMAGE",
        ),
    ],
)
def test_bubblewrap_that_may_not_make_namespaces(
    switch: str, value: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / switch).parent.mkdir()
    (tmp_path / switch).write_text(value)
    found = doctor.sandbox(proc_sys=tmp_path)
    assert not found.ok
    assert found.fix == fix


def test_bubblewrap_that_cannot_make_the_judges_own_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes namespaces, but not with what a candidate needs: the judge falls back, and so must this."""
    program(tmp_path, "bwrap", 'case "$*" in *--remount-ro*) exit 1;; esac')
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.sandbox(proc_sys=tmp_path)
    assert (found.ok, isolation.isolation()) == (False, "rlimits")
    assert found.found == "rlimits only: bubblewrap cannot make the sandbox here"


def test_bubblewrap_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "bwrap", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.sandbox()
    assert found.ok
    assert found.found.startswith("bubblewrap")
    assert found.fix == ""


# --- the machine


def test_no_tpu_means_predicted(tmp_path: Path) -> None:
    found = doctor.tpu(root=tmp_path)
    assert not found.ok
    assert found.level == "optional"
    assert "predicted" in found.found
    assert "tpu-vm create" in found.fix


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("0x0063", "2 x v5e: times for it are measured, which was never tried on a TPU"),
        ("0x005e", "2 x v4: all times are predicted"),
    ],
)
def test_attached_tpus_are_named(tmp_path: Path, device: str, found: str) -> None:
    for slot in range(2):
        pci = tmp_path / f"sys/bus/pci/devices/0000:00:0{slot}.0"
        pci.mkdir(parents=True)
        (pci / "vendor").write_text("0x1ae0\n")
        (pci / "device").write_text(f"{device}\n")
    assert doctor.tpu(root=tmp_path).ok
    assert doctor.tpu(root=tmp_path).found == found


def test_memory_is_the_tighter_of_machine_and_group(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 16777216 kB\nMemAvailable:    8388608 kB\n")
    assert doctor.memory(root=tmp_path).found == "8.0 GiB (wants 4)"
    assert doctor.memory(root=tmp_path).ok
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("0\n")
    assert doctor.memory(root=tmp_path).found == "8.0 GiB (wants 4)"
    (group / "memory.max").write_text(f"{3 << 30}\n")
    (group / "memory.current").write_text(f"{1 << 30}\n")
    found = doctor.memory(root=tmp_path)
    assert found.found == "2.0 GiB (wants 4)"
    assert not found.ok
    assert "swapon" in found.fix


def test_full_disk(tmp_path: Path) -> None:
    assert doctor.disk(tmp_path / "not" / "yet", need_bytes=1).ok
    found = doctor.disk(tmp_path / "not" / "yet", need_bytes=1 << 60)
    assert not found.ok
    assert str(tmp_path) in found.fix


def test_cores() -> None:
    have = len(os.sched_getaffinity(0))
    assert doctor.cores(need=have).ok
    assert doctor.cores(need=have + 1).fix == f"docker update --cpuset-cpus 0-{have} CONTAINER"


def test_state_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor.writable(tmp_path / "file" / "state")
    assert not found.ok
    assert found.level == "required"
    assert "Not a directory" in found.found
    assert doctor.writable(tmp_path / "new" / "state").ok
    assert list((tmp_path / "new/state").iterdir()) == []


def test_installation_without_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hawkeye_mcp.content._PACKAGE", tmp_path / "hawkeye_mcp")
    assert [c.ok for c in doctor.contents()] == [False, False, False, False]
    for name in ("workloads", "taxonomy", "agent_configs"):
        (tmp_path / name).mkdir()
    assert [c.found for c in doctor.contents()] == ["the folder is empty"] * 4
    (tmp_path / "agent_configs/claude_code").mkdir()
    assert [c.ok for c in doctor.contents()] == [False, False, False, True]
