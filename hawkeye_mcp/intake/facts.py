"""Facts on a workload's own program: what it computes (its jaxpr) and what the TPU's compiler makes of it (its HLO).

The HLO is that of libtpu for the named chip at full size. Where it refuses the program its words stand in place of
the facts: no other compiler's output ever does.
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.intake.graph import read
from hawkeye_mcp.intake.hlo_facts import HloFacts
from hawkeye_mcp.intake.structure_facts import Facts
from hawkeye_mcp.intake.structure_facts import facts as structure_facts
from hawkeye_mcp.judge import baseline
from hawkeye_mcp.judge.workers import Worker, WorkerDied, WorkerError, WorkerPool, WorkerTimeout
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Workload

_TRACE_S = 120.0
_CHARACTERS_A_TOKEN = 4


class ReferenceFacts(BaseModel):
    """program: at full size. hlo: null where `hlo_problem` says why. Bytes are of device memory."""

    model_config = ConfigDict(extra="forbid")

    workload: str
    tpu: str
    program: Facts
    jaxpr_characters: int
    jaxpr_tokens: int = Field(description="Estimated: 4 characters each.")
    hlo: HloFacts | None = None
    hlo_problem: str = Field("", description="The compiler's words, if it refuses the program for this chip.")
    hlo_source: str = Field(description="Which compiler the HLO is of.")
    argument_bytes: int | None = None
    output_bytes: int | None = None
    temp_bytes: int | None = None
    versions: Versions
    hlo_text: str = Field("", description="The whole optimised program.", exclude=True)


async def reference_facts(
    workload: Workload,
    tpu: str,
    *,
    verifiers: WorkerPool,
    compilers: WorkerPool,
    progress: Callable[[str], None] = lambda stage: None,
) -> ReferenceFacts:
    """Trace and compile a workload's plain JAX.

    Raises:
        WorkerError, WorkerDied, WorkerTimeout, WorkerUnavailable: it cannot be traced, or the harness is at fault. A compiler
            that ends is no such fault: its end is told in `hlo_problem`.
    """
    progress("trace")
    traced = await verifiers.call("workload_structure", _TRACE_S, workload=workload.reference, size="full")
    found = versions()
    facts = ReferenceFacts(
        workload=workload.name,
        tpu=tpu,
        program=structure_facts(read(traced["structure"])),
        jaxpr_characters=traced["characters"],
        jaxpr_tokens=-(-traced["characters"] // _CHARACTERS_A_TOKEN),
        hlo_source=f"libtpu {found.libtpu}, compiled for {tpu}",
        versions=found,
    )
    progress(f"compile for {tpu}")
    try:
        compiled = await _compiled(workload, tpu, compilers)
    except (WorkerDied, WorkerTimeout) as error:
        facts.hlo_problem = f"The compiler for {tpu} did not finish the program: {error}"
        return facts
    if "compiler" in compiled:
        facts.hlo_problem = f"The compiler for {tpu} refuses the program: {compiled['compiler'].strip()}"
        return facts
    facts.argument_bytes, facts.output_bytes = compiled["argument_bytes"], compiled["output_bytes"]
    facts.temp_bytes, facts.hlo_text = compiled["temp_bytes"], compiled["text"]
    if compiled["facts"]:
        facts.hlo = HloFacts.model_validate(compiled["facts"])
    else:
        facts.hlo_problem = f"The compiled program cannot be read here: {compiled['unread']}"
    return facts


async def _compiled(workload: Workload, tpu: str, compilers: WorkerPool) -> dict[str, Any]:
    request = {"workload": workload.reference, "tpu": tpu}
    try:
        found = await compilers.call("baseline_hlo", baseline.COMPILE_LIMIT_S, **request)
        if baseline.UNREADABLE not in str(found.get("compiler", "")):
            return found
    except WorkerError as error:
        if baseline.UNREADABLE not in str(error):
            raise
    worker = await Worker.start("compiler")
    try:
        return await worker.call("baseline_hlo", request | {"dump": True}, baseline.COMPILE_LIMIT_S)
    finally:
        await worker.close()


async def facts_of(workload: Workload, tpu: str, progress: Callable[[str], None]) -> ReferenceFacts:
    """As `reference_facts`, with processes that start and end with the call."""
    verifiers, compilers = WorkerPool("verifier", 1), WorkerPool("compiler", 1)
    try:
        return await reference_facts(workload, tpu, verifiers=verifiers, compilers=compilers, progress=progress)
    finally:
        await verifiers.close()
        await compilers.close()
