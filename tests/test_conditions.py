"""Under every condition, walk everything that a client can read and find no word of what is withheld."""

import ast
import json
import re
from pathlib import Path

import pytest
from fake_judge import FakeJudge
from mcp import Client
from mcp.shared.exceptions import MCPError
from serving import ERAS, connected, data

import hawkeye_mcp
from hawkeye_mcp import conditions, content, taxonomy, workloads
from hawkeye_mcp.judge.verdict import NEXT_STEP

find_content = content.folder

WITHHELD = {
    "taxonomy": re.compile(r"taxonom|\bcells?\b|01_mxu_feed|technique", re.IGNORECASE),
    "pool": re.compile(r"\bpool|kernel_pool|kernel://|already found", re.IGNORECASE),
}
COMMAND_LINE = re.compile(r"hawkeye (doctor|taxonomy|evaluate|profile|install)|`hawkeye", re.IGNORECASE)


def test_each_condition_shows_its_tools():
    base = ["evaluate_kernel", "profile", "sanitize", "read_workload"]
    assert conditions.tools("none") == [*base, "job"]
    assert conditions.tools("taxonomy") == [*base, "read_taxonomy_cell", "job"]
    assert conditions.tools("pool") == [*base, "kernel_pool", "job"]
    assert conditions.tools("full") == [*base, "read_taxonomy_cell", "kernel_pool", "job"]
    assert conditions.tools("placebo") == conditions.tools("menu") == conditions.tools("taxonomy")


@pytest.mark.parametrize("condition", conditions.CONDITIONS)
def test_steps_are_numbered_without_gaps(condition):
    numbers = re.findall(r"^(\d+)\.", conditions.loop(condition), re.MULTILINE)
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) == 4 + (condition not in ("none", "pool")) + (condition in ("pool", "full"))


@pytest.mark.anyio
@pytest.mark.parametrize("tpu", ["v5p", "v6e", "7x"])
async def test_a_chip_without_cells_says_so_and_nobody_is_sent_to_read_some(tmp_path: Path, tpu, monkeypatch):
    monkeypatch.setattr(content, "folder", lambda name: tmp_path if name == "taxonomy" else find_content(name))
    for condition in ("taxonomy", "placebo", "menu"):
        assert conditions.loop(condition, tpu) == conditions.loop("none")
    assert conditions.loop("full", tpu) == conditions.loop("pool")
    async with connected(tmp_path, condition="taxonomy", tpu=tpu) as client:
        assert client.instructions == conditions.loop("none")
        assert not WITHHELD["taxonomy"].search((await client.get_prompt("optimize_kernel")).model_dump_json())
        listing = (await client.call_tool("read_taxonomy_cell", {})).content[0].text
    assert listing == f"There are no taxonomy cells for {tpu} yet. Go on without them."


def test_the_loop_names_cells_where_the_chip_has_some_or_none_is_pinned():
    for tpu in ("v5e", ""):
        assert "read_taxonomy_cell" in conditions.loop("taxonomy", tpu)
        assert "taxonomy rows" in conditions.loop("full", tpu)
        assert "taxonomy rows" in conditions.loop("menu", tpu)


def test_an_unknown_condition_is_refused_naming_all_of_them():
    with pytest.raises(conditions.UnknownCondition, match="'ful'.*none, taxonomy, pool, full, placebo, menu"):
        conditions.parse("ful")


def test_every_condition_is_explained_to_who_chooses_one_and_in_the_readme():
    assert tuple(conditions.ABOUT) == conditions.CONDITIONS
    readme = (Path(hawkeye_mcp.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \|.*\|.*\|.*\|$", readme.partition("### Conditions")[2], re.MULTILINE)
    assert explained[:6] == ["none", "taxonomy", "pool", "full", "placebo", "menu"]


async def _call(client: Client, said: list[object], tool: str, **arguments: object) -> None:
    said.append(await client.call_tool(tool, arguments))


async def everything(client: Client, workload: str = "") -> str:
    """All that a client can get out of the server, as one text; workload: to be named where none is pinned."""
    said: list[object] = [client.instructions, client.server_info, client.server_capabilities]
    said += [await client.list_tools(), await client.list_prompts()]
    said += [await client.get_prompt(p.name) for p in (await client.list_prompts()).prompts]
    listed = await client.list_resources()
    said += [listed, await client.list_resource_templates()]
    said += [await client.read_resource(r.uri) for r in listed.resources]
    for status in (
        "correct",
        "incorrect",
        "rejected",
        "trace_error",
        "compile_error",
        "runtime_error",
        "timeout",
        "harness_error",
        "crash",
        "huge",
    ):
        result = await client.call_tool("evaluate_kernel", {"source": f"# fake: {status}", "workload": workload})
        said.append(result)
        if full := data(result)["full"]:
            said.append(await client.read_resource(full))
        result = await client.call_tool("profile", {"source": f"# fake: {status}", "workload": workload})
        said.append(result)
        if full := data(result)["full"]:
            said.append(await client.read_resource(full))
    hold = {"source": "# fake: hold", "wait_s": 0, "workload": workload}
    running = data(await client.call_tool("evaluate_kernel", hold))
    said.append(running)
    await _call(client, said, "job", job_id=running["job_id"], action="read")
    await _call(client, said, "job", job_id=running["job_id"], action="cancel")
    await _call(client, said, "job", job_id="nonsense")
    await _call(client, said, "evaluate_kernel", surce="x")
    await _call(client, said, "evaluate_kernel")
    await _call(client, said, "evaluate_kernel", path="../outside.py")
    await _call(client, said, "evaluate_kernel", path="absent.py")
    await _call(client, said, "evaluate_kernel", source="x", tpu="v9")
    await _call(client, said, "evaluate_kernel", source="x", tpu="v6e")
    await _call(client, said, "evaluate_kernel", source="x", workload="12p_RMSNorm")
    await _call(client, said, "read_workload")
    await _call(client, said, "read_workload", name="nonsense")
    for uri in ("evaluation://x", "profile://x", "workload://x", "nonsense://x"):
        try:
            said.append(await client.read_resource(uri))
        except MCPError as error:
            said.append(error.error.message)
    return "\n".join(
        item if isinstance(item, str) else json.dumps(item, default=lambda o: o.model_dump(mode="json"))
        for item in said
    )


def without_problems(said: str, words: re.Pattern[str]) -> str:
    """Without the lines of problem statements that use such a word in another sense, as average pooling does."""
    for name in workloads.names():
        for line in workloads.statement(workloads.load(name)).splitlines():
            if words.search(line):
                said = said.replace(json.dumps(line)[1:-1], "")
    return said


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("condition", conditions.CONDITIONS)
@pytest.mark.parametrize("pins", [{}, {"tpu": "", "workload": ""}], ids=["pinned", "open"])
async def test_no_byte_mentions_what_is_withheld(tmp_path: Path, condition, mode, pins):
    async with connected(tmp_path, FakeJudge(), mode, condition=condition, **pins) as client:
        said = await everything(client, "8p_GEMM" if pins else "")
    assert not COMMAND_LINE.search(said), "it shows the cells, whatever the condition"
    for asset, words in WITHHELD.items():
        found = sorted(set(words.findall(without_problems(said, words))))
        if conditions.shows(condition, asset):
            assert found, f"the walk should have met {asset} under {condition}"
        else:
            assert found == []


def texts(module: Path) -> list[str]:
    """What a module can say: its string constants, also inside f-strings, without its docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    silent = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and _has_docstring(node)
    }
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in silent]
    return [node.value for node in constants if isinstance(node.value, str)]


def _has_docstring(node: ast.AST) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)


# Everything that a verdict's texts come from. A row's name stands only where the condition shows rows.
JUDGING = sorted(
    path
    for room in ("candidate", "judge", "profiler")
    for path in (Path(hawkeye_mcp.__file__).parent / room).glob("*.py")
)


@pytest.mark.parametrize("module", JUDGING, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_text_of_the_judge_can_mention_what_a_condition_withholds(module: Path):
    for said in texts(module):
        if said == NEXT_STEP["harness_error"] or re.fullmatch(r"\d\d_\w+|taxonomy|agent_configs", said):
            continue  # the first is for people alone; row and folder names are no sentences
        for words in (*WITHHELD.values(), COMMAND_LINE):
            assert not words.search(said), said


def test_the_texts_of_the_judge_are_found():
    found = {said for module in JUDGING for said in texts(module)}
    assert NEXT_STEP["correct"] in found
    assert any("Do not allocate real arrays while tracing" in said for said in found)
    assert any("is spent in XLA operations" in said for said in found)


@pytest.mark.anyio
@pytest.mark.parametrize("condition", conditions.CONDITIONS)
async def test_no_path_leads_into_the_content_and_none_tells_what_is_there(tmp_path: Path, condition):
    judge, repository = FakeJudge(), Path(hawkeye_mcp.__file__).parents[1]
    there = [
        path
        for room in ("taxonomy/v5e", "taxonomy/placebo", "workloads/8p_GEMM", "agent_configs")
        for path in (repository / room).rglob("*")
    ]
    there += list((repository / "hawkeye_mcp/judge").glob("*.py"))
    absent = [repository / "taxonomy/v5e/99_nothing/guide.md", repository / "taxonomy/v9/x.py"]
    assert len(there) > 30
    async with connected(tmp_path, judge, condition=condition, workspace=repository) as client:
        for path in [str(path.relative_to(repository)) for path in (*there, *absent)]:
            for tool in ("evaluate_kernel", "profile"):
                assert (await client.call_tool(tool, {"path": path})).content[0].text == (
                    f"{path!r} is outside the workspace. Put the kernel file inside it, or pass its text as source."
                )
    assert judge.judged == []


@pytest.mark.anyio
async def test_a_withheld_tool_is_as_unknown_as_one_that_never_was(tmp_path: Path):
    async with connected(tmp_path, condition="none") as client:
        withheld = await client.call_tool("kernel_pool", {})
        never = await client.call_tool("kernel_pole", {})
    assert withheld.is_error
    assert withheld.content[0].text == never.content[0].text.replace("pole", "pool")
    async with connected(tmp_path, condition="none") as client:
        for uri in ("taxonomy://v5e/01_mxu_feed", "kernel://x"):
            with pytest.raises(MCPError, match=f"Unknown resource: {uri}"):
                await client.read_resource(uri)


@pytest.mark.anyio
async def test_rows_are_named_only_where_cells_can_be_read(tmp_path: Path):
    for condition in conditions.CONDITIONS:
        async with connected(tmp_path / condition_dir(tmp_path, condition), condition=condition) as client:
            verdict = data(await client.call_tool("evaluate_kernel", {"source": "# fake: correct"}))
            whole = (await client.read_resource(verdict["full"])).contents[0].text
        shown = condition in ("taxonomy", "full", "placebo", "menu")
        assert verdict.get("taxonomy_rows") == (["01_mxu_feed"] if shown else None)
        assert ("taxonomy_rows" in json.loads(whole)["diagnosis"]) is shown


def condition_dir(folder: Path, condition: str) -> str:
    (folder / condition).mkdir()
    return condition


# --- the controls


async def every_cell(client: Client) -> dict[str, str]:
    """The list, each resource and each part of each row, by what was asked for."""
    tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "read_taxonomy_cell")
    parts = ("all", "guide", "naive", "optimized") if "part" in tool.input_schema["properties"] else ("",)
    found = {"": (await client.call_tool("read_taxonomy_cell", {})).content[0].text}
    for cell in taxonomy.rows("v5e"):
        for part in parts:
            asked = {"row": cell.row} | ({"part": part} if part else {})
            found[f"{cell.row} {part}"] = (await client.call_tool("read_taxonomy_cell", asked)).content[0].text
        uri = f"taxonomy://v5e/{cell.row}"
        found[uri] = (await client.read_resource(uri)).contents[0].text
    return found


@pytest.mark.anyio
async def test_under_placebo_everything_but_the_cells_is_as_under_taxonomy(tmp_path: Path):
    said, read, described = {}, {}, {}
    for condition in ("taxonomy", "placebo"):
        async with connected(tmp_path / condition_dir(tmp_path, condition), condition=condition) as client:
            listed = (await client.list_resources()).resources
            cells = [resource for resource in listed if resource.uri.startswith("taxonomy://")]
            described[condition] = [resource.description for resource in cells]
            said[condition] = [
                client.instructions,
                *(tool.model_dump_json() for tool in (await client.list_tools()).tools),
                (await client.get_prompt("optimize_kernel")).model_dump_json(),
                (await client.list_resource_templates()).model_dump_json(),
                *((resource.uri, resource.name) for resource in listed),
                (await client.call_tool("read_taxonomy_cell", {"row": "01_mxu_fed"})).content[0].text,
            ]
            read[condition] = await every_cell(client)
    assert said["placebo"] == said["taxonomy"]
    real, other = read["taxonomy"], read["placebo"]
    assert real.keys() == other.keys()
    assert len(real) == 1 + 5 * len(taxonomy.rows("v5e"))
    for asked, text in real.items():
        assert other[asked] != text
        assert len(other[asked]) == pytest.approx(len(text), rel=0.02), asked
    assert [len(text) for text in described["placebo"]] == pytest.approx(
        [len(text) for text in described["taxonomy"]], rel=0.02
    )


@pytest.mark.anyio
async def test_a_placebo_never_says_what_it_is(tmp_path: Path):
    async with connected(tmp_path, condition="placebo") as client:
        said = await everything(client) + json.dumps(await every_cell(client))
    assert not re.search("placebo|control (condition|group|text)|dummy", said, re.IGNORECASE)


@pytest.mark.anyio
async def test_a_menu_gives_each_technique_in_one_line_and_promises_no_more(tmp_path: Path):
    cells = taxonomy.rows("v5e")
    async with connected(tmp_path, condition="menu") as client:
        read = await every_cell(client)
        tool = next(tool for tool in (await client.list_tools()).tools if tool.name == "read_taxonomy_cell")
        listed = [tool.model_dump_json(), (await client.list_resource_templates()).model_dump_json()]
        said = "\n".join([client.instructions, *listed, *read.values()])
        refused = (await client.call_tool("read_taxonomy_cell", {"row": cells[0].row, "part": "guide"})).content[0].text
    assert read.pop("").splitlines() == [
        "Taxonomy cells for v5e:",
        *(f"- {cell.row}: {cell.title}. {cell.one_line}" for cell in cells),
    ]
    for cell in cells:
        whole = f"# {cell.title} (v5e, {cell.row})\n\n{cell.one_line}"
        assert read[f"{cell.row} "] == read[f"taxonomy://v5e/{cell.row}"] == whole
    assert not re.search(r"naive|optimized|guide|read a cell|read those|```", said, re.IGNORECASE)
    assert "there is no argument 'part'" in refused


@pytest.mark.anyio
@pytest.mark.parametrize("condition", conditions.CONDITIONS)
async def test_the_tools_of_every_condition_fit(tmp_path: Path, condition):
    async with connected(tmp_path, condition=condition) as client:
        tools = [t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in (await client.list_tools()).tools]
    assert len(json.dumps(tools, ensure_ascii=False)) / 4 < 2_800, "tokens of tools/list, at 4 characters each"
