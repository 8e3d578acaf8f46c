"""Every tool of the server through a real client of both eras: what its schema allows, and what it does not."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from fake_judge import INSIDE, FakeJudge
from fuzzing import fuzz
from hypothesis import strategies as st
from mcp import Client
from serving import ERAS, server

from hawkeye_mcp import workloads

CONDITIONS = ("full", "none")
EXAMPLES = [pytest.param(3, id="few"), pytest.param(200, id="many", marks=pytest.mark.slow)]
CALLS = 8  # of one connection
# Texts that mean something to some argument; the fake judge acts on the marks in a kernel's text.
TEXTS = [
    *(
        "",
        " ",
        "8p_GEMM",
        "12p_RMSNorm",
        "nothing",
        "v5e",
        "v6e",
        "v99",
        "01_mxu_feed",
        "all",
        "guide",
        "wait",
        "read",
        "cancel",
    ),
    *(
        "kernel.py",
        "../kernel.py",
        "/etc/passwd",
        "kernel.py\0",
        "x" * 5_000,
        "~",
        ".",
        "ä€😀",
        "\x1b[2J",
        "%s{0}",
        "ev-1-1",
    ),
    *("# fake: incorrect", "# fake: crash", "# fake: harness_error", "# fake: huge", "# fake: timeout", "# kernel"),
]
# Nothing of the server's inside is for a client: how it is written, where it lies, whose it is.
NEVER = re.compile(r"Traceback|File \"|\.py\", line|site-packages|pydantic|Error executing tool|/state/|/log/calls")
WITHHELD = re.compile(r"taxonomy|\bcells?\b|kernel_pool|\bpool\b", re.IGNORECASE)


def conforming(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema as this server's inputs have them: flat, no references."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = {
        "string": st.one_of(st.sampled_from(TEXTS), st.text(max_size=20)),
        "number": st.one_of(
            st.sampled_from([0, -1, 0.01, 1e308, -1e308, 45]), st.floats(allow_nan=False, allow_infinity=False)
        ),
        "integer": st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63)),
        "boolean": st.booleans(),
    }
    return kinds[schema["type"]]


def arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = {name: conforming(found) for name, found in schema["properties"].items()}
    required = {name: properties.pop(name) for name in schema.get("required", [])}
    return st.fixed_dictionaries(required, optional=properties)


def anything(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that the schema may well refuse: wrong kinds, wrong names, nothing that is required."""
    values = st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from(TEXTS),
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
        max_leaves=5,
    )
    names = st.sampled_from([*schema["properties"], "sorce", "", "ctx", "self", "__class__", "Workload"])
    return st.dictionaries(names, values, max_size=4)


def checked(tool: Any, given: dict[str, Any], result: Any, condition: str, folder: Path) -> None:
    said = "\n".join(getattr(block, "text", "") for block in result.content)
    words = said if not result.structured_content else said + json.dumps(result.structured_content)
    assert INSIDE not in words
    assert str(folder) not in words.replace(json.dumps(given), "")
    if condition == "none":
        # what the caller wrote himself may come back to him
        assert not WITHHELD.search(words), words
    if result.is_error:
        assert said.strip()
        assert not NEVER.search(said), said
        return
    assert said
    if tool.output_schema is not None:
        jsonschema.Draft202012Validator(tool.output_schema).validate(result.structured_content)
        assert json.loads(result.content[0].text) == result.structured_content


@pytest.fixture(scope="module", params=CONDITIONS)
def condition(request) -> str:
    return request.param


@pytest.fixture
def tools(tmp_path, condition) -> list[Any]:
    async def listed() -> list[Any]:
        async with Client(server(tmp_path, FakeJudge(), condition=condition)) as client:
            return (await client.list_tools()).tools

    return anyio.run(listed)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("mode", ERAS)
def test_whatever_a_client_calls_with_the_answer_has_its_form(tmp_path, tools, condition, mode, examples):
    by_name = {tool.name: tool for tool in tools}
    (tmp_path / "workspace" / "kernel.py").write_text("# kernel")

    async def call(calls: list[tuple[str, dict[str, Any]]]) -> None:
        pins = {"workload": "", "tpu": ""} if len(calls) % 2 else {}
        served = server(tmp_path, FakeJudge(), condition=condition, **pins)
        with anyio.fail_after(60):
            async with Client(served, mode=mode) as client:
                for name, given in calls:
                    checked(by_name[name], given, await client.call_tool(name, given), condition, tmp_path)
                assert await client.list_tools()  # it lives

    one = [
        st.tuples(st.just(tool.name), st.one_of(arguments(tool.input_schema), anything(tool.input_schema)))
        for tool in tools
    ]
    fuzz(
        st.lists(st.one_of(one), min_size=1, max_size=CALLS),
        lambda calls: anyio.run(call, calls),
        examples,
        smallest=False,
    )


def test_the_arguments_that_are_generated_are_those_of_the_schemas(tools):
    """Else the answers to them would show nothing."""
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        fuzz(arguments(tool.input_schema), jsonschema.Draft202012Validator(tool.input_schema).validate, 5)
    assert {"evaluate_kernel", "profile", "read_workload", "job"} <= {tool.name for tool in tools}
    assert workloads.names()


async def refused(client: Client, uri: str) -> str:
    """The words of the refusal; empty if there is such a resource."""
    try:
        await client.read_resource(uri)
    except Exception as error:  # of the server, or of the client for what is no address
        return str(error).replace("pydantic_core", "")
    return ""


@pytest.mark.parametrize("mode", ERAS)
def test_resources_that_are_none_are_refused_in_words(tmp_path, condition, mode):
    schemes = ["workload", "evaluation", "profile", "taxonomy", "kernel", "file", "nothing"]
    uris = st.builds(
        "{}://{}".format,
        st.sampled_from(schemes),
        st.one_of(
            st.sampled_from(["x", "..%2f..", "v5e/..", "8p_GEMM/", "%00", "a/b/c", "'; --"]),
            st.text("a./%é0", max_size=9),
        ),
    )

    async def read(asked: list[str]) -> None:
        async with Client(server(tmp_path, FakeJudge(), condition=condition), mode=mode) as client:
            for uri in asked:
                said = await refused(client, uri)
                assert not NEVER.search(said), said
                assert str(tmp_path) not in said
                if condition == "none":
                    assert not WITHHELD.search(said.replace(uri, "")), said

    fuzz(st.lists(uris, min_size=1, max_size=5), lambda asked: anyio.run(read, asked), 2, smallest=False)
