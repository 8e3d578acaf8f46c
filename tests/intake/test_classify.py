"""What files are and what each is for: told by lines, never guessed, never run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hawkeye_mcp.intake import classify, rules
from hawkeye_mcp.intake.language import look

TORCH = """import torch
from torch import nn

WIDTH = 64
EPS = 1e-5

class Part(nn.Module):
    pass

class Model(nn.Module):
    def __init__(self):
        self.part = Part()

def get_inputs():
    return [torch.randn(2, WIDTH)]

def get_init_inputs():
    return []
"""
INLINE = '''import torch
from torch.utils.cpp_extension import load_inline

source = """
// a comment with __shared__
__global__ void add(float *x) { x[threadIdx.x] += 1; }
"""
module = load_inline(name="add", cuda_sources=source)

class ModelNew(torch.nn.Module):
    pass
'''
CUDA = """/* __device__ in a comment */
// so is __shared__
#include <cuda.h>
const char *text = "__global__ void no(";

__global__ void __launch_bounds__(256)
scale(float *x, float a) {
  x[blockIdx.x] *= a;
}
void run(float *x) { scale<<<1, 256>>>(x, 2.f); }
"""
TRITON = "import torch\nimport triton\nimport triton.language as tl\n\n@triton.jit\ndef add(x):\n    pass\n"
PALLAS = "import jax\nfrom jax.experimental import pallas as pl\n\ndef workload(x):\n    return pl.pallas_call(f)(x)\n"
JAX = "import jax.numpy as jnp\n\ndef helper(x):\n    return x\n\ndef norm(x):\n    return helper(x)\n\ndef get_inputs():\n    return []\n"


def _write(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / name.replace("__", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_languages_are_told_by_lines_of_code_not_of_comments_or_strings(tmp_path: Path) -> None:
    paths = _write(
        tmp_path, a__py=TORCH, b__py=INLINE, c__cu=CUDA, d__py=TRITON, e__py=PALLAS, f__py=JAX, g__py="x = 1", h__h="int f();",
        i__py="import torch, jax", j__py="# import torch\nimport os", k__py="s = '''\nimport jax\n'''",
    )  # fmt: skip
    found = {path.name: look(path) for path in paths}
    assert {name: source.language for name, source in found.items()} == {
        "a.py": "pytorch",
        "b.py": "pytorch_with_inline_cuda",
        "c.cu": "cuda",
        "d.py": "triton",
        "e.py": "pallas",
        "f.py": "jax",
        "g.py": "unknown",
        "h.h": "unknown",
        "i.py": "unknown",
        "j.py": "unknown",
        "k.py": "unknown",
    }
    lines = {name: [(mark.what, mark.line) for mark in source.evidence] for name, source in found.items()}
    assert lines["c.cu"] == [("__global__", 6), ("a launch <<<...>>>", 10)]
    assert ("__global__ in a string", 6) in lines["b.py"]
    assert ("@triton.jit", 5) in lines["d.py"]
    assert lines["e.py"] == [("import jax", 1), ("import jax.experimental.pallas", 2), ("pallas_call(...)", 5)]
    assert [name for name, source in found.items() if source.language == "unknown" and not source.note] == []


def test_entry_points_are_found_in_the_tree(tmp_path: Path) -> None:
    torch, cuda, jax = (look(path) for path in _write(tmp_path, a__py=TORCH, c__cu=CUDA, f__py=JAX))
    assert (torch.entry_point, torch.gives_inputs) == ("Model", True)
    assert [(entry.what, entry.line) for entry in torch.entry_points] == [("Model", 10)]  # Part is a part of it
    assert [(entry.what, entry.line) for entry in cuda.entry_points] == [("scale", 6)]
    assert (jax.entry_point, [(entry.what, entry.line) for entry in jax.entry_points]) == ("norm", [("norm", 6)])


def test_one_program_and_references_make_a_valid_job(tmp_path: Path) -> None:
    paths = _write(tmp_path, layer__py=TORCH, b__py=INLINE, c__cu=CUDA, d__py=TRITON, notes__h="int f();")
    found = classify.classify(paths, tmp_path)
    assert (found.primary, found.exit_code, found.ambiguity) == (str(tmp_path / "layer.py"), 0, None)
    assert {Path(file.path).name: file.role for file in found.files} == {
        "layer.py": "primary",
        "b.py": "reference",
        "c.cu": "reference",
        "d.py": "reference",
        "notes.h": "none",
    }
    assert all(file.why for file in found.files)
    assert found.job
    assert found.job["input"] == {"type": "pytorch", "path": "layer.py", "entry_point": "Model"}
    assert found.job["conversion"] == {"method": "torchax"}
    assert found.job["sizes"] == {"full": {"WIDTH": 64}}
    assert [(each["type"], each["path"]) for each in found.job["references"]] == [
        ("cuda", "b.py"),
        ("cuda", "c.cu"),
        ("triton", "d.py"),
    ]
    (tmp_path / "job.json").write_text(json.dumps(found.job), encoding="utf-8")
    assert rules.check(tmp_path / "job.json").exit_code == 0


def test_a_jax_program_needs_no_conversion(tmp_path: Path) -> None:
    found = classify.classify(_write(tmp_path, f__py=JAX, e__py=PALLAS), tmp_path)
    assert found.job
    assert (found.job["input"]["entry_point"], found.job["needs_jax_conversion"]) == ("norm", False)
    assert found.references == (str(tmp_path / "e.py"),)


def test_two_programs_are_not_guessed_between(tmp_path: Path) -> None:
    found = classify.classify(_write(tmp_path, a__py=TORCH, f__py=JAX, c__cu=CUDA), tmp_path)
    assert (found.primary, found.references, found.job, found.exit_code) == (None, (), None, 3)
    assert found.ambiguity
    assert "a.py (pytorch: Model, line 10, and get_inputs)" in found.ambiguity
    assert "f.py (jax: norm, line 6, and get_inputs)" in found.ambiguity
    assert {file.role for file in found.files} == {"none"}


def test_two_entry_points_are_not_guessed_between(tmp_path: Path) -> None:
    text = TORCH.replace("class Model", "class Block").replace("Part()", "None")
    found = classify.classify(_write(tmp_path, a__py=text), tmp_path)
    assert (found.primary, found.exit_code) == (None, 3)
    assert "Part (line 7), Block (line 10)" in (found.ambiguity or "")


@pytest.mark.parametrize(
    ("text", "lacks"),
    [(TORCH.replace("get_inputs", "inputs"), "defines no get_inputs()"), (CUDA, "input.specification")],
)
def test_a_program_that_lacks_something_is_the_primary_and_makes_no_job(tmp_path: Path, text: str, lacks: str) -> None:
    name = {"a__cu" if text is CUDA else "a__py": text}
    found = classify.classify(_write(tmp_path, **name), tmp_path)
    assert (found.exit_code, found.job) == (0, None)
    assert lacks in found.lacking[0]


def test_nothing_that_can_be_read_is_told_from_nothing_that_fits(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"\xe9")
    (tmp_path / "broken.py").write_text("def f(", encoding="utf-8")
    none = [tmp_path / "latin.py", tmp_path / "broken.py", tmp_path / "nowhere.py"]
    found = classify.classify(none, tmp_path)
    assert found.exit_code == 4
    assert [file.language for file in found.files] == ["unreadable"] * 3
    assert "was never closed" in found.files[1].note
    (tmp_path / "empty").mkdir()
    nothing = classify.classify([tmp_path / "empty"], tmp_path)
    assert (nothing.exit_code, "no source file" in (nothing.ambiguity or "")) == (4, True)
    assert classify.classify([*none, *_write(tmp_path, g__py="x = 1")], tmp_path).exit_code == 3


def test_folders_are_searched_without_what_builds_leave(tmp_path: Path) -> None:
    for name in ("__pycache__", ".git", "build", "dist", "deep/er"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "m.py").write_text(TORCH, encoding="utf-8")
    (tmp_path / "text.md").write_text("import torch", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = classify.files([tmp_path, tmp_path / "deep" / "er" / "m.py"])
    assert found == [tmp_path / "deep" / "er" / "m.py"]


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "MOST_FILES", 1)
    with pytest.raises(classify.TooMany, match="more than 1 files"):
        classify.files(_write(tmp_path, a__py="", b__py=""))


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = TORCH.replace("WIDTH = 64", f"open({str(mark)!r}, 'w')\nWIDTH = 64")
    found = classify.classify(_write(tmp_path, a__py=text), tmp_path)
    assert found.job
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 100_000 + "\n",  # a string that does not end, with as many places where one could begin
        "<<< " * 60_000,
        "__global__ void " * 20_000,
        "__launch_bounds__(" * 20_000,
        "__shared__\n" * 80_000,
    ],
    ids=["quotes", "launches", "kernels", "bounds", "marks"],
)
def test_a_text_made_to_be_slow_is_not(text: str, tmp_path: Path) -> None:
    """Patterns that look on to the end of the text take minutes over these: the limit is none that a slow machine meets."""
    (tmp_path / "slow.cu").write_text(text + "\n__global__ void last(int a) {}\n")
    child = "import sys, pathlib; from hawkeye_mcp.intake.language import look; print(look(pathlib.Path(sys.argv[1])).entry_point)"
    done = subprocess.run(
        [sys.executable, "-c", child, str(tmp_path / "slow.cu")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() in ("last", "None")
