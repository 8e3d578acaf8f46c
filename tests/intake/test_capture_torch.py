"""PyTorch modules recorded; each test runs the real PyTorch and torchax."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capturing import captured, run, typed

from hawkeye_mcp.intake.capture import CaptureFailed, Kept, Normal, Uniform

BLOCK = """
import torch
from torch import nn

B, D = 4, 16
H = D * 2

class Model(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(d, h), nn.Linear(h, d)])
        self.norm = nn.LayerNorm(h)
        self.register_buffer("table", torch.arange(float(h)) / h, persistent=False)
        self.never_used = nn.Parameter(torch.randn(3))
        self.scale = torch.tensor(0.5)

    def forward(self, x, keep):
        y = torch.relu(self.norm(self.layers[0](x)) + self.table)
        return self.layers[1](y) * self.scale * keep, keep.sum()

def get_init_inputs():
    return [D, H]

def get_inputs():
    return [torch.randn(B, D) * 3, torch.rand(B, 1) > 0.4]
"""

ARGUMENTS = [
    "x", "keep", "layers_0_weight", "layers_0_bias", "layers_1_weight", "layers_1_bias", "norm_weight", "norm_bias",
    "table", "scale",
]  # fmt: skip


def test_the_order_of_arguments_what_is_recorded_and_that_the_emitted_program_computes_it(tmp_path: Path) -> None:
    found, goldens = captured(tmp_path, BLOCK, check={"B": 8}, full={"B": 512, "D": 256})
    check, full = found.sizes["check"], found.sizes["full"]
    assert [a.name for a in check.arrays] == ARGUMENTS == [a.name for a in full.arrays]
    assert [a.role for a in check.arrays] == ["input"] * 2 + ["parameter"] * 6 + ["buffer"] * 2
    assert any("never_used" in note for note in found.notes)
    assert found.route == "torchax"
    assert found.deterministic
    assert [(o.shape, o.dtype) for o in check.outputs] == [((8, 16), "float32"), ((), "int32")]
    assert [(o.shape, o.dtype) for o in full.outputs] == [((512, 256), "float32"), ((), "int32")]
    # the program is that of the arrays beside it, whichever way they are permuted
    for trial in range(2):
        first, second = run(found, goldens, trial)
        np.testing.assert_allclose(first, goldens[f"check/{trial}/out/0"], rtol=1e-4, atol=1e-5)
        assert second == goldens[f"check/{trial}/out/1"]
        assert goldens[f"check/{trial}/out64/0"].dtype == np.float64
        np.testing.assert_allclose(goldens[f"check/{trial}/out64/0"], first, rtol=1e-4, atol=1e-5)
    assert found.eager_check
    assert found.eager_check.ok
    assert found.eager_check.checked == 2 * (8 * 16 + 1)
    assert 0 < found.eager_check.worst_abs < 1e-5
    assert found.tolerance
    assert 1e-6 <= found.tolerance.atol < 1e-4
    assert check.flops and full.flops
    products = 2 * 2 * 512 * 256 * 512
    assert products < full.flops < 1.1 * products
    assert check.structure and full.structure


def test_how_fresh_arguments_are_drawn(tmp_path: Path) -> None:
    found, goldens = captured(tmp_path, BLOCK, check={"B": 64}, full={"B": 64, "D": 1024})
    check = {a.name: a.draw for a in found.sizes["check"].arrays}
    full = {a.name: a.draw for a in found.sizes["full"].arrays}
    x, weight, norm, table = check["x"], check["layers_0_weight"], check["norm_weight"], check["table"]
    assert isinstance(x, Normal) and x.mean == pytest.approx(0, abs=0.2) and x.std == pytest.approx(3, abs=0.2)
    assert isinstance(weight, Uniform) and (weight.low, weight.high) == pytest.approx((-0.25, 0.25), abs=0.01)
    assert norm == Normal(mean=1, std=0.1)
    assert check["norm_bias"] == Normal(mean=0, std=0.1)
    assert check["scale"] == Normal(mean=0.5, std=0.05)
    # a ramp says something, and so does a mask: at both sizes they are what the module made
    assert isinstance(table, Kept)
    assert np.array_equal(goldens[table.key], np.arange(32, dtype=np.float32) / 32)
    assert isinstance(check["keep"], Kept) and isinstance(full["keep"], Kept) and isinstance(full["table"], Kept)
    assert goldens[check["keep"].key].dtype == np.bool_
    assert goldens[full["table"].key].shape == (2048,)
    # ones were perturbed before they were run, so that leaving them out shows
    recorded = goldens["check/0/in/norm_weight"]
    assert 0.03 < recorded.std() < 0.3
    assert not np.array_equal(recorded, goldens["check/1/in/norm_weight"])
    # what a layer draws its weights from is another matter in another size
    wider = full["layers_0_weight"]
    assert isinstance(wider, Uniform) and (wider.low, wider.high) == pytest.approx((-1 / 32, 1 / 32), rel=0.02)


BFLOAT16 = """
import torch
D = 256
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(D, D, bias=False), torch.nn.Linear(D, D, bias=False)
        self.to(torch.bfloat16)
    def forward(self, x):
        return self.down(torch.relu(self.up(x))).float() + x.to(torch.float32), (x.float() / 3).to(torch.bfloat16)
def get_inputs():
    return [torch.randn(16, D, dtype=torch.bfloat16)]
"""


def test_bfloat16_is_stored_as_it_is_and_held_against_its_own_rounding(tmp_path: Path) -> None:
    found, goldens = captured(tmp_path, BFLOAT16)
    assert [a.dtype for a in found.sizes["check"].arrays] == ["bfloat16"] * 3
    assert goldens["check/0/in/x"].dtype == np.uint16
    results = run(found, goldens, 0)
    out, exact = goldens["check/0/out/0"], goldens["check/0/out64/0"]
    own = np.abs(out - exact).max()
    assert own > 1e-4
    # what forward casts to bfloat16 itself is wide there too
    third = goldens["check/0/out64/1"] * 3
    assert np.array_equal(third.astype(np.float32), typed(goldens["check/0/in/x"], "bfloat16").astype(np.float32))
    assert np.abs(results[0] - exact).max() < 4 * own
    assert found.eager_check and found.eager_check.ok
    assert found.eager_check.worst_abs > 0
    assert "times its own rounding" in found.eager_check.tolerance


def wrong(monkeypatch: pytest.MonkeyPatch, function: Any, by: Any) -> None:
    """torchax lowers an operation to something else."""
    import dataclasses

    from hawkeye_mcp.intake.inside.torchax_program import import_torchax

    environment = import_torchax().default_env()
    right = environment._ops[function]
    monkeypatch.setitem(
        environment._ops, function, dataclasses.replace(right, func=lambda *a, **k: by(right.func(*a, **k)))
    )


@pytest.mark.parametrize("by", [lambda y: y * 1.001, lambda y: y.at[3, 5].add(np.float32("nan")), lambda y: y + 1e-3])
def test_a_wrong_conversion_is_found(by: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    wrong(monkeypatch, torch.ops.aten.relu, by)
    with pytest.raises(CaptureFailed) as failed:
        captured(tmp_path, BLOCK)
    assert failed.value.kind == "eager_disagrees"
    assert "output 0 of trial 0" in failed.value.message
    assert "`port`" in failed.value.fix
    assert not (tmp_path / "goldens.npz").exists()


def test_a_conversion_that_is_off_by_more_than_bfloat16s_rounding_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    wrong(monkeypatch, torch.ops.aten.relu, lambda y: y * 1.05)
    with pytest.raises(CaptureFailed, match="elements differ from eager PyTorch"):
        captured(tmp_path, BFLOAT16)


def test_a_port_is_held_against_results_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torchax converts the module, its structure is told as well; where it does not, nothing but a note is."""
    found, goldens = captured(tmp_path, BLOCK, convert=False)
    check = found.sizes["check"]
    assert (found.route, check.program, check.constants) == ("golden", None, {})
    assert check.structure
    assert [a.name for a in check.arrays] == ARGUMENTS
    assert goldens["check/1/out64/0"].shape == (4, 16)
    import torch

    def refuse(y: Any) -> Any:
        raise NotImplementedError("no lowering of that")

    wrong(monkeypatch, torch.ops.aten.relu, refuse)
    found, goldens = captured(tmp_path, BLOCK, convert=False, full={"B": 32})
    assert found.sizes["check"].structure is None
    assert found.sizes["full"].outputs[0].shape == (32, 16)
    assert "never_used" in [a.name for a in found.sizes["check"].arrays]  # nobody knows that it is not
    assert any("no lowering of that" in note for note in found.notes)
    with pytest.raises(CaptureFailed) as failed:
        captured(tmp_path, BLOCK)
    assert failed.value.kind == "not_convertible"
    assert "no lowering of that" in failed.value.message


ONE = """
import torch
calls = []
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        INIT
    def forward(self, x, *others):
        return FORWARD
def get_inputs():
    return INPUTS
"""


def one(forward: str, inputs: str = "[torch.randn(8, 32)]", init: str = "pass") -> str:
    return ONE.replace("FORWARD", forward).replace("INPUTS", inputs).replace("INIT", init)


REFUSED = [
    ("non_deterministic", one("torch.nn.functional.dropout(x, 0.1)"), "dropout"),
    ("non_deterministic", one("x + (calls.append(1) or len(calls))"), "256 of 256 elements, by up to 1"),
    ("source_fails", one("x * float('nan')"), "NaN or infinite in every element"),
    ("source_fails", one("x @ x"), "model.py line 9, in forward: RuntimeError: mat1 and mat2 shapes"),
    ("source_fails", one("x", "[torch.randn(len(calls) or calls.append(1) or 2)]"), "other shapes"),
    ("source_fails", one("x", "torch.randn(8)"), "returns Tensor instead of a list"),
    ("source_fails", one("x", "[torch.arange(3) + 2**40]"), "beyond int32"),
    ("source_fails", one("x", init="import no_such_module"), "model.py line 7, in __init__: ModuleNotFoundError"),
    ("source_fails", one("3.5"), "returns no tensor"),
    ("not_convertible", one("x * 2 if x.sum() > 0 else x"), "model.py line 9, in forward"),
    ("no_entry_point", one("x").replace("Model", "Modell"), "it defines Modell, get_inputs"),
    ("no_entry_point", "def Model(): return 3\ndef get_inputs(): return []", "makes int"),
    ("no_entry_point", one("x").replace("get_inputs", "inputs"), "get_inputs to call"),
    ("too_big", one("x", "[torch.randn(1 << 40)]"), "not enough memory"),
    ("too_big", one("x", "[torch.randn(1000, 1200)]"), "check/0/in/x [1000, 1200] 4.8 MB"),
]


@pytest.mark.parametrize(("kind", "text", "told"), REFUSED)
def test_what_cannot_be_recorded_says_why(kind: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureFailed) as failed:
        captured(tmp_path, text)
    assert failed.value.kind == kind, failed.value.message
    assert told in str(failed.value)
    assert failed.value.fix


def test_integers_and_double_precision_are_narrowed_and_partly_nan_is_noted(tmp_path: Path) -> None:
    text = one("(torch.log(x), others[0].sum())", "[torch.randn(64, 32).double(), torch.arange(5)]")
    found, goldens = captured(tmp_path, text)
    assert [a.dtype for a in found.sizes["check"].arrays] == ["float32", "int32"]
    assert [o.dtype for o in found.sizes["check"].outputs] == ["float32", "int32"]
    assert [a.name for a in found.sizes["check"].arrays] == ["x", "input_1"]
    assert any("NaN or infinite in 5" in note or "NaN or infinite in 4" in note for note in found.notes)
    assert goldens["check/0/out64/0"].dtype == np.float64
    assert int(goldens["check/0/out/1"]) == 10


def test_a_module_of_a_package_whose_inputs_no_seed_changes(tmp_path: Path) -> None:
    package = tmp_path / "brought" / "nets"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "scaling.py").write_text("def scaled(x, by):\n    return x * by\n")
    text = one("scaled(x, others[0])", "[torch.randn(64, 32), torch.ones(32).expand(64, 32)]")
    text = "from ..scaling import scaled\n" + text.replace(
        "def get_inputs():", "def get_inputs():\n    torch.manual_seed(3)"
    )
    found, goldens = captured(package, text, trials=3)
    assert found.imported["../scaling.py"] == hashlib.sha256((package.parent / "scaling.py").read_bytes()).hexdigest()
    assert not any("site-packages" in file or "hawkeye_mcp" in file for file in found.imported)
    for name in ("x", "input_1"):  # one set recorded three times would let pass whatever returns its results
        first, second, third = (goldens[f"check/{trial}/in/{name}"] for trial in range(3))
        assert not ((first == second) | (second == third)).any()
    np.testing.assert_array_equal(goldens["check/2/out/0"], third * goldens["check/2/in/x"])


@pytest.mark.parametrize("convert", [True, False])
def test_nothing_big_is_made_at_full_size(convert: bool, tmp_path: Path) -> None:
    """275 GB of weights, which are drawn as those of the check size."""
    found, _ = captured(tmp_path, BLOCK, convert=convert, check={"D": 64}, full={"B": 4096, "D": 1 << 17})
    full = {a.name: a for a in found.sizes["full"].arrays}
    assert full["layers_0_weight"].shape == (1 << 18, 1 << 17)
    assert full["layers_0_weight"].draw == {a.name: a.draw for a in found.sizes["check"].arrays}["layers_0_weight"]
    assert found.sizes["full"].outputs[0].shape == (4096, 1 << 17)
    assert any("drawn there as at the check size: layers_0_weight, layers_1_weight." in note for note in found.notes)
    assert full["keep"].draw == Kept(key="full/0/in/keep")


def test_a_module_that_looks_at_values_while_it_is_made_is_made_with_them(tmp_path: Path) -> None:
    text = one(
        "self.m(x) * self.k",
        "[torch.randn(N, 8)]",
        "self.m = torch.nn.Linear(8, 8); self.k = float(torch.ones(3).sum())",
    )
    found, _ = captured(tmp_path, f"N = 4\n{text}", full={"N": 64})
    assert [a.shape for a in found.sizes["full"].arrays] == [(64, 8), (8, 8), (8,)]
    assert any(note.startswith("At full size the module had to be made with its values") for note in found.notes)


PUBLIC = {
    "a transformer's layer": one("self.m(x)", "[torch.randn(2, 16, 64)]",
                                 "self.m = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)"),
    "RMSNorm": one("self.m(x)", "[torch.randn(16, 512)]", "self.m = torch.nn.RMSNorm(512, eps=1e-5)"),
    "a gated MLP": one(
        "self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))", "[torch.randn(16, 128)]",
        "self.gate, self.up, self.down = (torch.nn.Linear(*s, bias=False) for s in ((128, 256), (128, 256), (256, 128)))",
    ),
    "convolutions": one(
        "self.m(x).mean((2, 3))", "[torch.rand(2, 3, 32, 32)]",
        "n = torch.nn; self.m = n.Sequential(n.Conv2d(3, 8, 3, padding=1), n.BatchNorm2d(8), n.ReLU(), n.MaxPool2d(2), "
        "n.Conv2d(8, 16, 3, stride=2), n.GELU())",
    ),
    "attention": one("torch.nn.functional.scaled_dot_product_attention(x, *others, is_causal=True)",
                     "[torch.randn(2, 4, 32, 16) for _ in range(3)]"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("RMSNorm", "attention") else [pytest.mark.slow]) for n in PUBLIC]
)
def test_public_modules_convert_and_agree(name: str, tmp_path: Path) -> None:
    found, goldens = captured(tmp_path, PUBLIC[name])
    assert found.eager_check and found.eager_check.ok
    print(f"{name}: {found.eager_check.worst_abs:.2g} at most, {found.eager_check.worst_rel:.2g} relative")
    out = goldens["check/0/out/0"]
    np.testing.assert_allclose(run(found, goldens, 0)[0], out, rtol=1e-4, atol=1e-4 * out.std())
    assert np.abs(out).max() > 1e-3
    assert np.abs(goldens["check/0/out64/0"] - out).max() > 0
