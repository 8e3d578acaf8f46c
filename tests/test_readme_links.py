"""README.md and the pages that it sends people to: each link leads somewhere, and each file that they name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Pages for people. taxonomy/source/README.md is a template: its links hold where it is written to.
FOLDERS = ("agent_configs", "bench", "taxonomy", "taxonomy/placebo", "workloads")
PAGES = [Path(folder, "README.md") for folder in FOLDERS] + sorted(
    page.relative_to(ROOT) for pattern in ("*.md", "hawkeye_mcp/**/*.md") for page in ROOT.glob(pattern)
)


def headings(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def lost_links(text: str, page: Path) -> list[str]:
    """The relative links of a page, given from the root, that lead nowhere."""
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in headings(target.read_text(encoding="utf-8"))):
            lost.append(link)
    return lost


def lost_names(text: str) -> list[str]:
    """The paths from the root in backticks that are not there; `a/<b>.json`, `a/*.py` and the like name none."""
    named = re.findall(
        r"`((?:hawkeye_mcp|bench|tests|workloads|taxonomy|agent_configs)/[\w./-]*)`", without_blocks(text)
    )
    return [name for name in named if not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_links_to_and_names_is_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert lost_links(text, page) == []
    assert lost_names(text) == []


def test_a_link_that_leads_nowhere_is_found():
    page = Path("bench/README.md")
    good = "[a](../README.md#the-bench) [b](https://x/y.md) [c](#here) ![d](../taxonomy/cells.png)\n"
    assert lost_links("```\n# Here\n[e](nowhere.md)\n```\n" + good, page) == ["#here"]
    assert lost_links("[a](README.md#no-such) [b](nowhere.md) [c](../README.md#the_bench)", page) == [
        "README.md#no-such",
        "nowhere.md",
        "../README.md#the_bench",
    ]
    assert lost_names("`tests/no.py` `tests/kernels/` `workloads/<x>.json`") == ["tests/no.py"]


def test_every_page_beside_the_code_is_one_click_from_the_readme():
    linked = set(re.findall(r"\]\(([^)#\s]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    beside = [str(page) for page in PAGES if page.parts[0] in ("bench", "hawkeye_mcp")]
    assert len(beside) >= 9
    assert [page for page in beside if page not in linked] == []
