"""A folder that an import wrote passes; whatever is smuggled into one is refused before anything loads it."""

import ast
import io
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported_workload import ARRAYS, CHOSEN, DRAWS, HEAD, ORACLE, PROGRAM, PYTHON, TOML, write

from hawkeye_mcp.intake import approval, written_program
from hawkeye_mcp.intake.written import NotImported, check


def refused(path: Path) -> str:
    with pytest.raises(NotImported) as found:
        check(path)
    return str(found.value)


def test_what_an_import_writes_passes(tmp_path: Path) -> None:
    assert check(write(tmp_path / "mine")) == ["workload.py", "workload.toml", "workload.npz"]
    assert check(write(tmp_path / "chosen", HEAD + DRAWS + PROGRAM + CHOSEN)) == [*approval.TEXTS, approval.ARRAYS]
    asks = TOML.replace("least_bytes", 'approval = "required"\nleast_bytes')
    assert check(write(tmp_path / "spec", toml=asks)) == [*approval.TEXTS, approval.ARRAYS, approval.FILE]


def in_program(*lines: str) -> str:
    return PYTHON.replace("    out = lax", "".join(f"    {line}\n" for line in lines) + "    out = lax")


def in_draws(line: str) -> str:
    return PYTHON.replace("    return (\n", f"    {line}\n    return (\n", 1)


def draw(value: str) -> str:
    """Another value of the first input."""
    return re.sub(r"        \(jax.random.normal.*# x\n", lambda _: f"        {value},\n", PYTHON)


def length_called(name: str) -> str:
    return PYTHON.replace(PROGRAM, re.sub(r"\bT\b", name, PROGRAM))


UNSAYABLE = f"0x{'f' * 5000}"  # as a decimal number, which would go into a message or a text of the tree

SMUGGLED = {
    # anywhere
    "import": PYTHON + "import os\n",
    "import before": "import os\n" + PYTHON,
    "import from": PYTHON.replace("import numpy as np", "import numpy as np, os"),
    "other import": PYTHON.replace("from jax import lax", "from jax import tools as lax"),
    "statement at the top": PYTHON + "print(1)\n",
    "assignment at the top": PYTHON + "x = 1\n",
    "class": PYTHON + "class A: pass\n",
    "another function": PYTHON + "def more(x):\n    return x\n",
    "a number that Python cannot say": PYTHON.replace("keys[0]", f"keys[{UNSAYABLE}]"),
    "a number that Python cannot say, called": in_program(f"q = ({UNSAYABLE})(x)"),
    "a number that Python cannot say, as a default": PYTHON.replace("(key, size)", f"(key, size={UNSAYABLE})"),
    "a function twice": PYTHON + ORACLE,
    "other order": HEAD + PROGRAM + DRAWS + ORACLE,
    "async": PYTHON.replace("def oracle", "async def oracle"),
    "code by condition": PYTHON + "if 1:\n    import os\n",
    "encoding": b"# coding: utf-7\n" + PYTHON.encode(),
    "byte order mark": b"\xef\xbb\xbf" + PYTHON.encode(),
    "other letters": PYTHON.replace("scaled", "sc\u0430led"),
    "carriage return": PYTHON.replace("added = carry + item", "added = carry + item  # \r    import os"),
    "form feed": PYTHON.replace("    T = x", "\f    T = x"),
    "null": PYTHON + "\0",
    "too long": PYTHON + "#" * (1 << 19),
    "no head": DRAWS + PROGRAM + ORACLE,
    "another docstring": PYTHON.replace("traced program;", "traced program; ignore this"),
    # functions
    "decorator": PYTHON.replace("def workload", "@jax.jit\ndef workload"),
    "decorator of the draws": PYTHON.replace("def create_inputs", "@jax.jit\ndef create_inputs"),
    "decorator within": PYTHON.replace("    def step", "    @jax.jit\n    def step"),
    "default": PYTHON.replace("(x, ids, table, w):\n    T", "(x, ids, table, w=open('/etc/passwd')):\n    T"),
    "default of the draws": PYTHON.replace("(key, size)", "(key, size=print(1))"),
    "default of a choice": HEAD + DRAWS + PROGRAM + CHOSEN.replace("table, w)", "table, w=print(1))", 1),
    "keyword only": PYTHON.replace("def oracle(x, ids, table, w)", "def oracle(x, ids, table, w, *, a=print(1))"),
    "star": PYTHON.replace("def oracle(x, ids, table, w)", "def oracle(x, ids, table, w, *a)"),
    "annotation": PYTHON.replace("def oracle(x,", "def oracle(x: print(1),"),
    "annotation of the draws": PYTHON.replace("(key, size)", "(key: print(1), size)"),
    "annotation of a result": PYTHON.replace("(x, ids, table, w):\n    D", "(x, ids, table, w) -> print(1):\n    D"),
    "other arguments": PYTHON.replace("def oracle(x, ids", "def oracle(ids, x"),
    "docstring": PYTHON.replace("    T = x.shape[0]", '    """Hidden."""\n    T = x.shape[0]'),
    "yield": in_program("y = yield x"),
    "global": in_program("global jax"),
    "loop": in_program("while True:", "    y = x"),
    "try": in_program("try:", "    y = x", "except Exception:", "    y = x"),
    "with": in_program("with open('x') as y:", "    z = x"),
    "delete": in_program("del x"),
    "expression": in_program("lax.exp(x)"),
    "assert": in_program("assert x"),
    # expressions in a program
    "builtin": in_program("y = open"),
    "builtin called": in_program("y = __import__('os')"),
    "builtin as an operand": in_program("y = lax.exp(__builtins__)"),
    "class of a value": in_program("y = x.__class__"),
    "attribute of a call": in_program("y = lax.exp(x).addressable_shards"),
    "dictionary of a module": in_program("y = lax.__dict__"),
    "module of a module": in_program("y = lax.lax.core.jax.numpy.load(x)"),
    "array of a module": in_program("y = jnp.load(x)"),
    "numpy": in_program("y = np.load(x)"),
    "pathlib": in_program("y = Path(x)"),
    "jax": in_program("y = jax.random.normal(x)"),
    "callback": in_program("y = jax.pure_callback(x, x, x)"),
    "foreign call": in_program("y = lax.custom_call(x)"),
    "f-string": in_program("y = lax.exp(f'{x}')"),
    "lambda": in_program("y = lax.scan(lambda a, b: (a, b), x, x)"),
    "walrus": in_program("y = lax.exp((z := x))"),
    "comprehension": in_program("y = lax.exp([i for i in x])"),
    "starred": in_program("y = lax.exp(*x)"),
    "double starred": in_program("y = lax.exp(x, **x)"),
    "subscript": in_program("y = x[0]"),
    "condition": in_program("y = x if x else x"),
    "await": in_program("y = await x"),
    "matrix product": in_program("y = x @ x"),
    "power of an array": in_program("y = x ** 2"),
    "floor of an array": in_program("y = x // 2"),
    "text": in_program("y = lax.exp('import os')"),
    "bytes": in_program("y = lax.exp(b'x')"),
    "ellipsis": in_program("y = lax.exp(...)"),
    "complex": in_program("y = x * 2j"),
    "set": in_program("y = lax.exp({1})"),
    "dictionary": in_program("y = lax.exp({1: 2})"),
    "huge array": in_program("y = lax.full((1048576, 1048576), 0.0, jnp.float32)"),
    "huge array of lengths": in_program("y = lax.full((T * T * T * T * T, T * T * T), 0.0, jnp.float32)"),
    "huge number": in_program(f"y = x * {2**64}"),
    "unrolled": in_program("(y,), z = lax.scan(step, (start,), (x,), length=T, unroll=128)"),
    "unrolled by a length": in_program("(y,), z = lax.scan(step, (start,), (x,), length=T, unroll=T)"),
    "assigned attribute": in_program("x.at = x"),
    "assigned item": in_program("x[0] = x"),
    "augmented": in_program("x += 1"),
    "annotated": in_program("y: print(1) = x"),
    "chained": in_program("y = z = lax.exp(x)"),
    "module overwritten": in_program("lax = lax.exp(x)"),
    "many brackets": in_program("y = lax.exp(" + "(" * 5000 + "x" + ")" * 5000 + ")"),
    "many operators": in_program("y = lax.exp(" + "T" + "+T" * 3000 + ")"),
    "function of a builtin's name": in_program("def float(x):", "    return x"),
    # lengths
    "length of an attribute": PYTHON.replace("T = x.shape[0]", "T = x.dtype[0]"),
    "length of a module": PYTHON.replace("T = x.shape[0]", "T = jax.shape[0]"),
    "length by a name": PYTHON.replace("T = x.shape[0]", "T = x.shape[ids]"),
    "length beyond the axes": PYTHON.replace("T = x.shape[0]", "T = x.shape[7]"),
    "length of a negative axis": PYTHON.replace("T = x.shape[0]", "T = x.shape[-1]"),
    "length as a module": PYTHON.replace("T = x.shape[0]", "lax = x.shape[0]"),
    "length as a dunder": PYTHON.replace("T = x.shape[0]", "__file__ = x.shape[0]"),
    "length over an argument": PYTHON.replace("T = x.shape[0]", "w = x.shape[0]"),
    "length by a module's name throughout": length_called("np"),
    "length by a dunder throughout": length_called("__T"),
    "length by an argument's name throughout": length_called("ids"),
    "length assigned again": in_program("T = lax.exp(x)"),
    "length as an argument within": PYTHON.replace("def step(carries, items)", "def step(T, items)"),
    "length as a function": in_program("def T(x):", "    return x"),
    "length called": in_program("y = T(x)"),
    "attribute of a length": in_program("y = lax.exp(T.real)"),
    "attribute of arithmetic": in_program("y = lax.exp((T * 2).__class__)"),
    "length of a length": in_program("y = lax.exp(T[0])"),
    "lengths shifted": in_program("y = lax.exp(T << 4000)"),
    "lengths to a power": in_program("y = lax.exp(T ** 99)"),
    "lengths squared": in_program("y = lax.exp(T ** 2)"),
    "lengths to a length": in_program("y = lax.exp(T ** T)"),
    "too much arithmetic": in_program("y = lax.exp(" + "*".join(["T"] * 12) + ")"),
    "too much arithmetic below nothing": in_program("y = lax.exp(D - " + "*".join(["T"] * 12) + ")"),
    "division by nothing": in_program("y = lax.exp(T // (D - D))"),
    "root of nothing": in_program("y = lax.exp((D - D)**-0.5)"),
    "root of a negative": in_program("y = lax.exp((T - 999)**0.5)"),
    "float of an array": in_program("y = lax.exp(float(x))"),
    "float of a text": in_program("y = lax.exp(float('1'))"),
    "float of two": in_program("y = lax.exp(float(T, T))"),
    "float with names": in_program("y = lax.exp(float(T, x=T))"),
    "other function of a length": in_program("y = lax.exp(int(T))"),
    "text of a length": in_program("y = lax.exp(str(T))"),
    "length times a text": in_program("y = lax.exp(T * 'x')"),
    "length times a list": in_program("y = lax.exp(T * [0])"),
    "a function for it": in_program("y = lax.exp(float)"),
    "other widening": PYTHON.replace("x = lax.convert_element_type(x, jnp.float32)", "x = lax.full(x, jnp.float32)"),
    "widened within": in_program("y = lax.exp(lax.convert_element_type(x, jnp.float32))"),
    "other end": PYTHON.replace("return lax.convert_element_type(scaled, jnp.float32)", "return lax.load(scaled)"),
    # the choice between two programs
    "other choice": HEAD + DRAWS + PROGRAM + CHOSEN.replace("x.shape == (128, 64)", "print(1)"),
    "choice by equality": HEAD + DRAWS + PROGRAM + CHOSEN.replace("x.shape == (128, 64)", "x == (128, 64)"),
    "choice of another": HEAD + DRAWS + PROGRAM + CHOSEN.replace("else at_check_size", "else eval"),
    "in a choice": HEAD + DRAWS + PROGRAM + CHOSEN.replace("lax.cos(x)", "open(x)"),
    "before a choice": HEAD + DRAWS + PROGRAM + CHOSEN.replace("    def at_full", "    import os\n    def at_full"),
    # draws
    "draws: statement": in_draws("import os"),
    "draws: call": in_draws("print(1)"),
    "draws: assignment": in_draws("x = open('/etc/passwd')"),
    "draws: other file": PYTHON.replace('with_name("workload.npz")', 'with_name("../../secret.npz")'),
    "draws: other path": PYTHON.replace('Path(__file__).with_name("workload.npz")', '"/etc/passwd"'),
    "draws: pickles": PYTHON.replace('"workload.npz"))', '"workload.npz"), allow_pickle=True)'),
    "draws: other function": PYTHON.replace("np.load(", "np.fromfile("),
    "draws: other condition": PYTHON.replace('size["T"] == 128', 'print(1) or size["T"] == 128'),
    "draws: condition of an unknown length": PYTHON.replace('size["T"] == 128', 'size["U"] == 128'),
    "draws: more keys": PYTHON.replace("split(key, 2)", "split(key, 10**12)"),
    "draws: no keys": PYTHON.replace("    keys = jax.random.split(key, 2)\n", ""),
    "draws: a value": draw("x"),
    "draws: a number": draw("1.0"),
    "draws: other call": draw("jax.random.bits(keys[0], (size['T'], size['D'])).astype(jnp.bfloat16)"),
    "draws: callback": draw("jax.pure_callback(keys[0], (size['T'], size['D'])).astype(jnp.bfloat16)"),
    "draws: attribute": draw("jax.random.normal(keys[0], (size['T'], size['D'])).__class__(jnp.bfloat16)"),
    "draws: other shape": draw("jax.random.normal(keys[0], (size['T'], 10**9)).astype(jnp.bfloat16)"),
    "draws: other key": draw("jax.random.normal(keys[1], (size['T'], size['D'])).astype(jnp.bfloat16)"),
    "draws: other dtype": draw("jax.random.normal(keys[0], (size['T'], size['D'])).astype(jnp.float64)"),
    "draws: dtype by a call": draw("jax.random.normal(keys[0], (size['T'], size['D'])).astype(open('x'))"),
    "draws: no dtype": draw("jax.random.normal(keys[0], (size['T'], size['D']))"),
    "draws: more arguments": draw("jax.random.normal(keys[0], (size['T'], size['D']), open('x')).astype(jnp.bfloat16)"),
    "draws: names": draw("jax.random.normal(keys[0], (size['T'], size['D']), dtype=1).astype(jnp.bfloat16)"),
    "draws: stars": draw("jax.random.normal(keys[0], *(size['T'], size['D'])).astype(jnp.bfloat16)"),
    "draws: times a call": draw("(jax.random.normal(keys[0], (size['T'], size['D'])) * open(1)).astype(jnp.bfloat16)"),
    "draws: plus a name": draw("(jax.random.normal(keys[0], (size['T'], size['D'])) + kept).astype(jnp.bfloat16)"),
    "draws: by another condition": PYTHON.replace("if full else 2.0", "if print(1) else 2.0"),
    "draws: bound by a call": PYTHON.replace("minval=-1.0", "minval=open(1)"),
    "draws: third bound": PYTHON.replace("maxval=1.0", "maxval=1.0, dtype=1"),
    "draws: taken by another name": PYTHON.replace('kept["table"]', 'kept["full/ids"]'),
    "draws: taken whole": PYTHON.replace('kept["table"]', "kept.f"),
    "draws: taken by a call": PYTHON.replace('kept["table"]', "kept[open(1)]"),
    "draws: an input less": PYTHON.replace(
        '        lax.bitcast_convert_type(jnp.asarray(kept["table"]), jnp.bfloat16),  # table\n', ""
    ),
    "draws: a list": PYTHON.replace("    return (\n        (jax", "    return [\n        (jax").replace(
        "# w\n    )", "# w\n    ]"
    ),
}


@pytest.mark.parametrize("what", SMUGGLED)
def test_nothing_is_smuggled_into_the_program(what: str, tmp_path: Path) -> None:
    python = SMUGGLED[what]
    assert python not in (PYTHON, PYTHON.encode())
    assert refused(write(tmp_path / "mine", python))


def test_a_long_line_is_held_against_a_text_no_further_than_to_the_first_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else thousands of declared names, each with its text, would take as many times the line's length."""
    looked, alike = [], written_program._alike
    monkeypatch.setattr(written_program, "_alike", lambda *two: looked.append(two) or alike(*two))
    (line,) = ast.parse(f"q = ({'1,' * 10_000})").body
    assert not written_program.same(line, 'full = size["T"] == 128')
    assert 0 < len(looked) < 20
    assert written_program.same(line, f"q = ({'1,' * 10_000})")


HOSTILE = "__import__('os').system('x')"  # others are refused above


def accepted(path: Path, python: str) -> bool:
    (path / "workload.py").write_text(python)
    try:
        check(path)
    except NotImported:
        return False
    return True


def with_head(tree: ast.Module) -> str:
    return HEAD + ast.unparse(tree).partition("numpy as jnp\n")[2]


def test_nowhere_in_the_program_may_an_expression_be_another(tmp_path: Path) -> None:
    """Each expression of the file in turn is this one."""
    path, tree = write(tmp_path / "mine"), ast.parse(PYTHON)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    places = [
        (parent, field, index)
        for function in functions
        for parent in ast.walk(function)
        for field, value in ast.iter_fields(parent)
        for index, node in enumerate(value if isinstance(value, list) else [value])
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store)
    ]
    passed = []
    for parent, field, index in places:
        value = getattr(parent, field)
        other = ast.parse(HOSTILE, mode="eval").body
        setattr(parent, field, [*value[:index], other, *value[index + 1 :]] if isinstance(value, list) else other)
        passed += [python for python in [with_head(tree)] if accepted(path, python)]
        setattr(parent, field, value)
    assert accepted(path, with_head(tree))
    assert len(places) > 150
    assert passed == []


@pytest.mark.parametrize("line", ["import os", "y = open"])
def test_nowhere_in_the_program_may_a_statement_be_added(line: str, tmp_path: Path) -> None:
    path, tree, passed = write(tmp_path / "mine"), ast.parse(PYTHON), []
    for node in [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))]:
        for index in range(len(node.body) + 1):
            node.body.insert(index, ast.parse(line).body[0])
            python = ast.unparse(tree)
            passed += [text for text in (python, with_head(tree)) if text != PYTHON and accepted(path, text)]
            del node.body[index]
    # What was added before the head is gone with it.
    assert {text for text in passed if line in text} == set()
    assert accepted(path, with_head(tree))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"imported"', '"activation"', "no imported workload"),
        ("D = 64 }", 'D = 64, "x\\"], print(1), size[\\"D" = 1 }', "same dimensions"),
        ("T = 128", "T = 99999999999999", "more than 68719476736 elements"),
        ('dtype = "bfloat16"', 'dtype = "bfloat16)(open"', "is no dtype"),
        ('dtype = "int32"', 'dtype = "load"', "is no dtype"),
        ('name = "x"', "name = 'x\"], print(1), kept[\"x'", "is no name"),
        ('name = "x"', 'name = "w"', "declares an input twice"),
        ('name = "x"', f'name = "{"x" * 101}"', "is no name"),
        ('name = "x"', 'name = "y"', "other arguments than workload.toml declares"),
        ("flops = 1000", "flops = inf", "not finite"),
        ("limit = 0.01", "limit = nan", "not finite"),
        ("flops = 1000", "flops = 1000\ncode = 1", "Extra inputs are not permitted"),
        ("[sizes]", "[sizes", "cannot be read"),
        ("[sizes]", f"{'a.' * 2_000}a = 1\n[sizes]", "names within names"),
        ("[sizes]", "x = { " + '"a" . ' * 100 + "a = 1 }\n[sizes]", "names within names"),
        ("[sizes]", "x = { " + '"!" . ' * 100 + "a = 1 }\n[sizes]", "names within names"),
        ("[sizes]", "x = { " + "'!'." * 100 + "a = 1 }\n[sizes]", "names within names"),
        ("[sizes]", "x = { " + '"\\"!".' * 100 + "a = 1 }\n[sizes]", "names within names"),
        ("summary = ", f"notes = '{'x' * (1 << 18)}'\nsummary = ", "more than 262144 bytes"),
        ("T = 16", "T = 17", "another shape, dtype or length"),
        ('shape = ["T"]', "shape = [128]", "another shape, dtype or length"),
    ],
)
def test_a_declaration_can_smuggle_nothing_either(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert TOML.count(old)
    assert said in refused(write(tmp_path / "mine", toml=TOML.replace(old, new, 1)))


def test_names_of_lengths_are_names(tmp_path: Path) -> None:
    """They become part of a text that the program is held against."""
    name = 'T"], print(1), size["T'
    toml = TOML.replace("T = ", f"'{name}' = ").replace('"T"', f"'{name}'")
    python = PYTHON.replace('size["T"]', f'size["{name}"]')
    assert "is no name" in refused(write(tmp_path / "mine", python, toml))


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return into.getvalue()


def npy(array: Any, shape: str = "") -> bytes:
    """One array as numpy writes it; shape: what its header says instead."""
    into = io.BytesIO()
    np.lib.format.write_array(into, np.asarray(array), version=(1, 0), allow_pickle=True)
    data = into.getvalue()
    return re.sub(rb"\([\d, ]*\)(, \} *)", lambda m: (shape.encode() + m[1])[: len(m[0])], data) if shape else data


PLAIN = {key: npy(value) for key, value in ARRAYS.items()}
FILES = {
    "a pickle": pickle.dumps(ARRAYS),
    "one array alone": npy(np.arange(4)),
    "nothing": b"",
    "no zip": b"PK\3\4" + b"x" * 100,
    "objects": zipped(PLAIN | {"table": npy(np.array([object] * 4, dtype=object))}),
    "a pickle within": zipped(PLAIN | {"table": pickle.dumps(ARRAYS)}),
    "compressed": zipped(PLAIN, zipfile.ZIP_DEFLATED),
    "one more": zipped(PLAIN | {"more": PLAIN["table"]}),
    "one less": zipped({key: data for key, data in PLAIN.items() if key != "table"}),
    "other dtype": zipped(PLAIN | {"table": npy(np.arange(4, dtype=np.float16))}),
    "other shape": zipped(PLAIN | {"table": npy(np.zeros((2, 2), np.uint16))}),
    "cut": zipped(PLAIN | {"table": PLAIN["table"][:-1]}),
    "more bytes": zipped(PLAIN | {"table": PLAIN["table"] + b"x"}),
    "code as a header": zipped(PLAIN | {"table": npy(ARRAYS["table"], "(print(1),)")}),
    "damaged": zipped(PLAIN).replace(ARRAYS["table"].tobytes(), b"damaged!"),
    "cut file": zipped(PLAIN)[:-30],
    "what numpy takes for another array": npy(np.zeros(3, [("table", "i4")])) + zipped(PLAIN),
}


@pytest.mark.parametrize("what", FILES)
def test_arrays_are_arrays_and_those_that_are_declared(what: str, tmp_path: Path) -> None:
    assert check(write(tmp_path / "plain", arrays=zipped(PLAIN)))
    assert "workload.npz" in refused(write(tmp_path / "mine", arrays=FILES[what]))


def test_arrays_do_not_share_bytes(tmp_path: Path) -> None:
    """A small file that holds many large arrays, each within another."""
    table, into = zipped({"table": PLAIN["table"]}), io.BytesIO()
    inner = table[: table.index(b"PK\1\2")]
    outer = npy(np.frombuffer(inner.ljust(512, b"\0"), np.int32))
    with zipfile.ZipFile(into, "w") as archive:
        for name, data in (PLAIN | {"full/ids": outer}).items():
            if name != "table":
                archive.writestr(f"{name}.npy", data)
        info = zipfile.ZipFile(io.BytesIO(table)).getinfo("table.npy")
        info.header_offset = into.getvalue().index(inner)
        archive.filelist.append(info)
    path = write(tmp_path / "mine", arrays=into.getvalue())
    assert np.load(path / "workload.npz")["table"].tobytes() == ARRAYS["table"].tobytes()
    assert "share bytes" in refused(path)


def test_an_array_that_was_damaged_far_from_its_head_is_refused(tmp_path: Path) -> None:
    toml, python = TOML.replace("T = 128", "T = 4096"), PYTHON.replace("== 128", "== 4096")
    plain = zipped(PLAIN | {"full/ids": npy(np.arange(4096, dtype=np.int32))})
    assert check(write(tmp_path / "plain", python, toml, plain))
    last = np.int32(4095).tobytes()
    assert plain.count(last) == 1
    assert "is damaged" in refused(write(tmp_path / "mine", python, toml, plain.replace(last, b"evil")))


def test_a_workload_that_ships_or_was_written_by_hand_is_none(tmp_path: Path) -> None:
    assert "no imported workload" in refused(Path("workloads/12p_RMSNorm").resolve())
    assert "is no workload" in refused(tmp_path)
    (write(tmp_path / "mine") / "workload.npz").unlink()
    assert "workload.npz" in refused(tmp_path / "mine")
