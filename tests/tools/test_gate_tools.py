"""The tools on a server's job, called by a real client over stdio; the program of the job is really run."""

import json
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from raw_server import command
from serving import data

SOURCE = """
import jax
import jax.numpy as jnp

ROWS = 512

def get_inputs():
    return [jax.random.normal(jax.random.key(0), (ROWS, 128)), jax.random.normal(jax.random.key(1), (128,))]

def workload(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight
"""
PORT = """
import jax
import jax.numpy as jnp

def workload(x, weight):
    return weight * (x / jnp.sqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6))
"""
JOB = {
    "schema": "hawkeye.job/1",
    "name": "my_norm",
    "input": {"type": "jax", "path": "source.py"},
    "has_reference": False,
    "needs_jax_conversion": False,
    "sizes": {"full": {}, "check": {"ROWS": 16}},
}


@pytest.mark.anyio
async def test_a_port_goes_through_both_gates(tmp_path: Path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "port.py").write_text(PORT)
    (tmp_path / "source.py").write_text(SOURCE)
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    program, *arguments = command(tmp_path, "--job", str(tmp_path / "job.json"))
    server = StdioServerParameters(command=program, args=arguments)
    stages: list[str | None] = []

    async def heard(value: float, total: float | None, message: str | None) -> None:
        stages.append(message)

    with anyio.fail_after(900):
        async with Client(server) as client:
            values = data(await client.call_tool("verify_port", {"path": "port.py"}, progress_callback=heard))
            while values["status"] == "running":
                values = data(await client.call_tool("job", {"job_id": values["job_id"]}, progress_callback=heard))
            structure = data(await client.call_tool("compare_structure", {"source": PORT}))
            while structure["status"] == "running":
                structure = data(await client.call_tool("job", {"job_id": structure["job_id"]}))
            whole = json.loads((await client.read_resource(structure["full"])).contents[0].text)
    assert values["status"] == "agrees", values
    assert (values["workload"], values["trials"], values["outputs"][0]["failing"]) == ("my_norm", 3, 0)
    assert "trace the port" in stages
    assert structure["status"] == "divergent"
    assert [line.split("(")[0] for line in structure["differences"]] == ["- add", "+ add"]
    assert "f32 1e-05" in structure["differences"][0]
    assert "f32 1e-06" in structure["differences"][1]
    assert [one["sizes"] for one in whole["compared"]] == [["check"], ["full"]]
    assert len(list((tmp_path / "state" / "captures").iterdir())) == 1
