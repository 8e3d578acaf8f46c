"""The control texts: the lengths of the real ones, true, and nothing in them that teaches."""

import ast
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from test_taxonomy import leaks

from hawkeye_mcp import content, placebo, taxonomy
from hawkeye_mcp.taxonomy import Cell

CELLS = [(tpu, cell.row) for tpu in taxonomy.tpus() for cell in taxonomy.rows(tpu)]
TEXTS = ("title", "one_line", "guide", "naive_kernel", "optimized_kernel")

# Words of the techniques and of the parts of the chip that they are about, and words of advice.
TECHNIQUE = re.compile(
    r"block|til(e|ing)|pipelin|buffer|fus(e|ing|ion)|prefetch|double|scratch|accumul|vmem|smem|jnp|pallas|kernel|\bgrid|"
    r"\bdot\b|einsum|matmul|matrix|matrices|\bmxu|\bvpu|\bvector|\blanes?\b|sublane|epilogue|softmax|transpos|relayout|"
    r"\blayout|\bmask|ragged|\bscan|carr(y|ied)\b|prefix sum|reduction|semaphore|\bdma\b|async|overlap|unroll|spill|"
    r"contract(ion|ed)|low.precision|quantiz|megacore|occupancy|roofline|bandwidth.bound|compute.bound|latency|cache|"
    r"\bstall|hot loop|dimension.semantics|\bfeed|compiler.params|refs?\b\[",
    re.IGNORECASE,
)
ADVICE = re.compile(
    r"\b(should|must|ought|recommend\w*|advis\w+|prefer\w*|avoid\w*|ensure\w*|consider|best|better|faster|slower|"
    r"efficien\w+|optimi[sz]\w*|improv\w+|speed\w*|tun(e|ed|ing)|never use|instead of)\b",
    re.IGNORECASE,
)
# The verbs with which the real guides tell what to do.
IMPERATIVE = re.compile(
    r"^(use|choose|keep|read|write|make|set|put|start|try|apply|check|compile|measure|replace|move|split|merge|add|"
    r"remove|raise|lower|hold|leave|find|rewrite|sum|cast|pass|let|do|cut|enlarge|prefer|avoid|compare|see)\b",
    re.IGNORECASE | re.MULTILINE,
)


def statements() -> str:
    folder = content.folder("taxonomy") / "placebo"
    names = ("text.md", "glossary.md", "subjects.txt", "listing.py")
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def taught(text: str) -> list[str]:
    """Words of technique or advice in a text that is to have neither."""
    text = re.sub(r"\n(?![-|#\n])", " ", text)  # a line that begins where a paragraph was wrapped begins no sentence
    lines = "\n".join(sentence.strip(" -*|") for sentence in re.split(r"(?<=[.;:])\s+|\n", text))
    return [m.group() for words in (TECHNIQUE, ADVICE) for m in words.finditer(text)] + [
        m.group() for m in IMPERATIVE.finditer(lines)
    ]


@pytest.mark.parametrize(("tpu", "row"), CELLS)
def test_every_part_has_the_length_of_the_real_one(tpu: str, row: str) -> None:
    real, other = taxonomy.cell(tpu, row), placebo.cell(tpu, row)
    assert (other.tpu, other.row) == (tpu, row)
    for name, length, wanted in zip(
        placebo.Lengths._fields, placebo.lengths(other), placebo.lengths(real), strict=True
    ):
        assert abs(length - wanted) <= 0.02 * wanted, (name, length, wanted)
    assert other.guide.startswith(f"# {row[:2]} {other.title} ({tpu})\n")
    assert (other.config["title"], other.config["one_line"]) == (other.title, other.one_line)
    assert "\n" not in other.one_line


def made_up(row: str, length: int) -> Cell:
    """A cell whose every text has about this length; the short ones a fraction of it."""
    return Cell(
        row=row,
        tpu="v5e",
        title="t" * (20 + length // 400),
        one_line="o" * (80 + length // 80),
        guide="g" * length,
        naive_kernel="n" * (length // 3),
        optimized_kernel="p" * (length // 2),
        config={"c": "c" * (length // 4)},
    )


@pytest.mark.parametrize("length", [2_500, 12_000])
def test_sixteen_rows_of_any_length_come_out_right_and_no_two_start_alike(length: int, monkeypatch) -> None:
    cells = {f"{number:02}_row": made_up(f"{number:02}_row", length + 37 * number) for number in range(1, 17)}
    monkeypatch.setattr(taxonomy, "rows", lambda tpu: list(cells.values()))
    monkeypatch.setattr(taxonomy, "cell", lambda tpu, row: cells[row])
    monkeypatch.setattr(taxonomy, "tpus", lambda: ["7x", "v5e"])
    found = placebo.rows("v5e")
    for other in found:
        for length_, wanted in zip(placebo.lengths(other), placebo.lengths(cells[other.row]), strict=True):
            assert abs(length_ - wanted) <= 0.02 * wanted, (other.row, length_, wanted)
    for name in TEXTS:
        beginnings = {getattr(other, name)[:400].partition("\n\n")[2 if name == "guide" else 0] for other in found}
        assert len(beginnings) >= 15, name
    elsewhere = placebo.rows("7x")
    assert not [one.row for one, other in zip(found, elsewhere, strict=True) if one.guide == other.guide]


def test_a_text_that_cannot_be_made_so_long_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(placebo, "_statements", lambda: ["A = 1", "B = 2"])
    with pytest.raises(ValueError, match="add to it"):
        placebo._listing(placebo.Place(0, 1, 0), 0.0, 500)


def test_rows_on_two_chips_are_not_the_same_text_where_the_real_ones_differ() -> None:
    for row in {row for _, row in CELLS}:
        for one, other in pairwise([tpu for tpu, name in CELLS if name == row]):
            for part in ("guide", "naive_kernel", "optimized_kernel"):
                if getattr(taxonomy.cell(one, row), part) != getattr(taxonomy.cell(other, row), part):
                    assert getattr(placebo.cell(one, row), part) != getattr(placebo.cell(other, row), part)


def test_it_is_the_same_each_time() -> None:
    tpu, row = CELLS[0]
    code = f"from hawkeye_mcp import placebo; print(placebo.cell({tpu!r}, {row!r}).model_dump_json())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert said == placebo.cell(tpu, row).model_dump_json() + "\n"


def test_unknown_rows_are_refused_as_the_real_ones_are() -> None:
    for tpu, row in (("v5e", "01_mxu_fed"), ("v1", "01_mxu_feed")):
        with pytest.raises(taxonomy.UnknownCell) as real:
            taxonomy.cell(tpu, row)
        with pytest.raises(taxonomy.UnknownCell, match=re.escape(str(real.value))):
            placebo.cell(tpu, row)


# --- nothing in it teaches or leaks


def test_no_statement_names_a_technique_or_gives_advice() -> None:
    assert taught(statements()) == []


def test_no_cell_does_either() -> None:
    for tpu, row in CELLS:
        other = placebo.cell(tpu, row)
        for name in TEXTS:
            assert taught(getattr(other, name)) == [], (tpu, row, name)


def test_no_statement_leaks_or_says_what_it_is_for() -> None:
    assert leaks(statements()) == []
    assert not re.search("placebo|control|dummy|experiment|irrelevant", statements(), re.IGNORECASE)


@pytest.mark.parametrize(
    "text",
    [
        "The tile has eight rows.",
        "x = jnp.dot(a, b)",
        "A second buffer holds the next one.",
        "Formats of eight bits should be tried.",
        "The chip has two. Keep both busy.",
        "- Choose a power of two.",
        "a larger VMEM budget",
    ],
)
def test_the_lint_finds_a_planted_lesson(text: str) -> None:
    assert taught(text)


# --- what it says is true, as far as it can be computed

FORMATS = {
    "E4M3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "E5M2": (ml_dtypes.float8_e5m2, np.uint8),
    "E3M2": (ml_dtypes.float6_e3m2fn, np.uint8),
    "E2M3": (ml_dtypes.float6_e2m3fn, np.uint8),
    "bfloat16": (ml_dtypes.bfloat16, np.uint16),
    "binary16": (np.float16, np.uint16),
    "binary32": (np.float32, np.uint32),
}


def value(name: str, code: int) -> float:
    dtype, bits = FORMATS[name]
    return float(np.array([code], bits).view(dtype).astype(np.float64)[0])


def test_tables_of_codes_are_right() -> None:
    checked = 0
    for section in (content.folder("taxonomy") / "placebo" / "text.md").read_text(encoding="utf-8").split("\n\n"):
        if found := re.match(r"## Codes of (\w+) from", section):
            cells = [cell.strip() for line in section.splitlines() if line.startswith("|") for cell in line.split("|")]
            pairs = re.findall(r"\b([0-9A-F]{2,4}) (NaN|infinity|[\d.e+-]+)", " ".join(filter(None, cells)))
            assert len(pairs) >= 28
            for code, written in pairs:
                told = float(written.replace("infinity", "inf"))
                real = value(found[1], int(code, 16))
                assert (math.isnan(told) and math.isnan(real)) or told == pytest.approx(real, rel=1e-7), (section, code)
            checked += len(pairs)
    assert checked > 500


def listing() -> dict[str, object]:
    code = (content.folder("taxonomy") / "placebo" / "listing.py").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(code, "listing.py", "exec"), names)
    return names


def test_constants_of_the_listing_are_right() -> None:
    names, checked = listing(), 0
    for name, found in names.items():
        if match := re.fullmatch(r"(E4M3|E5M2|E3M2|E2M3)_([0-9A-F]{2})", name):
            start = int(match[2], 16)
            assert list(found) == [value(match[1], start + at) for at in range(len(found))], name
        elif match := re.fullmatch(r"(BFLOAT16|BINARY16|BINARY32)_(FROM_)?[0-9A-F]+", name):
            assert found == {code: value(match[1].lower(), code) for code in found}, name
        else:
            continue
        checked += 1
    assert checked > 190
    assert names["chips"]("4x4x8") == 128
    for types in ("V5E_TYPES", "V6E_TYPES"):
        assert all(int(kind.rpartition("-")[2]) == names["chips"](size) for kind, size in names[types].items())
    assert all(int(kind.rpartition("-")[2]) == 2 * names["chips"](size) for kind, size in names["V5P_TYPES"].items())
    assert names["signed"](0xFF, 8) == -1
    assert names["bfloat16_fields"](0xC000) == (1, 128, 0)


def test_a_listing_is_python_that_runs_and_defines_no_kernel() -> None:
    for tpu, row in CELLS:
        other = placebo.cell(tpu, row)
        for text in (other.naive_kernel, other.optimized_kernel):
            names: dict[str, object] = {}
            exec(compile(text, "listing", "exec"), names)
            assert "kernel" not in names
            imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
            assert [ast.unparse(node) for node in imported] == ["from dataclasses import dataclass"]
            assert names["dataclass"] is dataclass
