import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hawkeye_mcp.cli import app
from hawkeye_mcp.intake import original
from hawkeye_mcp.intake.original import Side

PUBLIC = Path(__file__).parent / "public"
KERNEL = (PUBLIC / "kernels" / "rms_norm.py").read_text()
RIGHT = Side(us=20.0, source="measured", on="TPU v5e")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Compare a kernel's text with torch.nn.RMSNorm, which is run once for all."""
    folder = tmp_path_factory.mktemp("original")
    declared = json.loads((PUBLIC / "rms_norm.json").read_text())
    declared["input"]["path"] = str(PUBLIC / "rms_norm.py")
    declared["sizes"] = {"full": {"ROWS": 128}, "check": {"ROWS": 64}}
    declared["correctness"] = {"trials": 1}
    (folder / "job.json").write_text(json.dumps(declared))

    def run(kernel: str, *more: str) -> tuple[int, dict]:
        (folder / "kernel.py").write_text(kernel)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("hawkeye_mcp.state.folder", lambda: folder / "state")
            given = ["--job", str(folder / "job.json"), "--kernel", str(folder / "kernel.py"), "--json", *more]
            done = CliRunner().invoke(app, ["compare", *given])
        return done.exit_code, json.loads(done.stdout)

    return run


def test_a_right_kernel_agrees_and_no_ratio_is_made_of_two_devices(compared):
    code, found = compared(KERNEL)
    assert (code, found["status"]) == (0, "agrees"), found
    assert found["outputs"][0]["elements"] == 64 * 1024
    assert found["original"]["source"] == "measured"
    assert found["original"]["on"].startswith("CPU")
    assert 0 < found["original"]["interval_us"][0] <= found["original"]["us"] <= found["original"]["interval_us"][1]
    assert (found["kernel"]["us"], found["kernel"]["source"], found["ratio"]) == (None, None, None)
    assert "--workload" in found["kernel"]["note"]


def test_times_of_two_sizes_do_not_stand_side_by_side(compared):
    code, found = compared(KERNEL, "--workload", "12p_RMSNorm")
    assert (code, found["kernel"]["us"], found["ratio"]) == (0, None, None)
    assert "x is bfloat16[8, 4096, 8192], the module's bfloat16[128, 1024]" in found["kernel"]["note"]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ((" * weight_ref[...].astype(jnp.float32)", " * 1.1"), "differs", "elements are wrong"),
        (("x.shape, x.dtype", "x.shape, jnp.float32"), "differs", "has dtype float32 and must have bfloat16"),
        (("inverse * weight_ref", "jnp.nan * weight_ref"), "differs", "NaN or infinite on one side alone"),
        (
            ("def workload(x, norm_weight)", "def workload(x, norm_weight, more)"),
            "failed",
            "It must take x, norm_weight",
        ),
    ],
)
def test_a_wrong_kernel_is_told_what_is_wrong(compared, change, status, said):
    assert change[0] in KERNEL
    code, found = compared(KERNEL.replace(*change))
    assert (code, found["status"]) == (1, status), found
    assert said in found["message"]
    assert (found["original"]["us"], found["kernel"]["us"]) == (None, None)


@pytest.mark.parametrize(
    ("first", "kernel", "ratio"),
    [
        (Side(us=50.0, source="measured", on="TPU by torch_xla 2.13, torch 2.13 eager, 9 runs"), RIGHT, 2.5),
        (Side(us=50.0, source="measured", on="CPU (x), 2 threads"), RIGHT, None),
        (
            Side(us=50.0, source="measured", on="TPU by torch_xla 2.13"),
            Side(us=20.0, source="predicted", on="TPU v5e"),
            None,
        ),
        (Side(note="not measured: it does not run"), RIGHT, None),
    ],
)
def test_a_ratio_is_of_one_device_and_of_measurements(first, kernel, ratio):
    assert original._ratio(first, kernel)[0] == ratio


@pytest.mark.parametrize(
    "options", [[], ["--torch", str(PUBLIC / "rms_norm.py"), "--job", str(PUBLIC / "rms_norm.json")]]
)
def test_the_module_is_named_in_one_way(tmp_path, options):
    (tmp_path / "kernel.py").write_text(KERNEL)
    done = CliRunner().invoke(app, ["compare", "--kernel", str(tmp_path / "kernel.py"), *options])
    assert done.exit_code == 2
    assert "one of the two" in done.stderr


def test_a_file_that_is_no_module_is_told(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text("def get_inputs():\n    return []\n")
    (tmp_path / "kernel.py").write_text(KERNEL)
    monkeypatch.setattr("hawkeye_mcp.state.folder", lambda: tmp_path / "state")
    arguments = ["--torch", str(tmp_path / "model.py"), "--kernel", str(tmp_path / "kernel.py")]
    done = CliRunner().invoke(app, ["compare", *arguments])
    assert done.exit_code == 1
    assert "model.py has no Model" in done.stderr
    assert "Next: " in done.stderr
