"""Constants of a kernel file: which can be varied, and that nothing else of the text changes."""

import pytest

from hawkeye_mcp.autotune import parameters
from hawkeye_mcp.autotune.parameters import NoParameter

SOURCE = "\n".join(
    [
        "'''\u00e9\u2028 a docstring'''",
        "BLOCK_M = 128  # \u00e9 BLOCK_M = 128",
        "GR\u00d6SSE = 7; BLOCK_N: int = 0x1_00",
        "DEPTH = (",
        "    -2",
        ")",
        "SCALE = 0.5",
        "FLAG = True",
        "TWICE = 1",
        "TWICE = 2",
        "P = Q = 3",
        "CHANGED = 4",
        "for LOOPED in range(3): pass",
        "LOOPED = 5",
        "DEFAULT = 6",
        "def default(x=(DEFAULT := 7)): pass",
        "REST = 8",
        "match {}:",
        "    case {**REST}: pass",
        "",
        "def workload(a):",
        "    global CHANGED",
        "    CHANGED = 9",
        "    BLOCK_M_inner = BLOCK_M",
        "    return a",
    ]
)


def test_only_integers_that_are_bound_once_can_be_varied():
    assert {name: found.value for name, found in parameters.constants(SOURCE).items()} == {
        "BLOCK_M": 128,
        "GR\u00d6SSE": 7,
        "BLOCK_N": 256,
        "DEPTH": -2,
    }


def test_other_values_take_the_place_of_the_literals_alone():
    wanted = {"BLOCK_N": 1024, "DEPTH": 3, "BLOCK_M": 64, "GR\u00d6SSE": -1}
    expected = (
        SOURCE.replace("BLOCK_M = 128  #", "BLOCK_M = 64  #")
        .replace("0x1_00", "1024")
        .replace("    -2", "    3")
        .replace("GR\u00d6SSE = 7", "GR\u00d6SSE = -1")
    )
    assert parameters.rewritten(SOURCE, wanted) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_stay_as_they_are(end):
    text = f"A = 1{end}\x0cB = 2{end}"
    assert parameters.rewritten(text, {"B": 30}) == f"A = 1{end}\x0cB = 30{end}"


def test_a_value_that_is_there_already_stays_as_it_is_written():
    assert parameters.rewritten(SOURCE, {"BLOCK_N": 256, "BLOCK_M": 128}) == SOURCE


@pytest.mark.parametrize(
    "name", ["TWICE", "P", "CHANGED", "LOOPED", "DEFAULT", "REST", "SCALE", "FLAG", "BLOCK_M_inner", "absent"]
)
def test_what_cannot_be_varied_is_refused_with_what_can(name):
    with pytest.raises(NoParameter) as refused:
        parameters.rewritten(SOURCE, {"BLOCK_M": 64, name: 1})
    assert str(refused.value).startswith(f"{name}: ")
    assert "It has BLOCK_M = 128, GR\u00d6SSE = 7, BLOCK_N = 256, DEPTH = -2." in str(refused.value)


def test_a_file_without_constants_is_told_how_to_get_some():
    with pytest.raises(NoParameter, match="write lines such as BLOCK_M = 128"):
        parameters.values("def workload(a):\n    return a\n", {"A": 1})


@pytest.mark.parametrize("source", ["A = (", "\x00", "(" * 10_000])
def test_what_is_no_python_says_so(source):
    with pytest.raises(NoParameter, match="not valid Python"):
        parameters.constants(source)
