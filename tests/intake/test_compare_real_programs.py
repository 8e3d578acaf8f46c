"""The structure gate on the shipped workloads: written otherwise they are equivalent, with any one fault divergent."""

from collections import Counter

import jax
import pytest
from faults_of_graph import faulty
from spelling import respelled

from hawkeye_mcp import workloads
from hawkeye_mcp.intake.compare_structure import compare
from hawkeye_mcp.intake.structure import structure
from hawkeye_mcp.judge.verify import module_of

SOME = ["2p_GQA_Attention", "12p_RMSNorm", "28k_ConvTranspose3d_LayerNorm_GELU_Scaling", "50k_Matmul_GELU_Softmax"]


def read(name: str):
    module, dims = module_of(name), dict(workloads.find(name).sizes["check"])
    return module.workload, jax.eval_shape(lambda: module.create_inputs(jax.random.key(0), dims))


def hold(name: str, seeds: range, most: int) -> Counter:
    """Verdicts on the program written otherwise, and on every fault in it."""
    function, shapes = read(name)
    reference = structure(jax.make_jaxpr(function)(*shapes))
    for seed in seeds:
        found = compare(reference, structure(jax.make_jaxpr(respelled(function, shapes, seed))(*shapes)))
        assert found.verdict in ("equivalent", "identical"), (name, seed, found.differences)
    verdicts = Counter()
    if len(reference["nodes"]) <= most:
        for told, wrong in faulty(reference):
            verdict = compare(reference, wrong).verdict
            verdicts[verdict] += 1
            assert verdict == "divergent", (name, told)
    return verdicts


@pytest.mark.parametrize("name", SOME)
def test_written_otherwise_equivalent_and_with_a_fault_divergent(name):
    assert hold(name, range(2), 80)["divergent"] >= 10


@pytest.mark.slow
def test_of_every_workload():
    verdicts = sum((hold(name, range(3), 120) for name in workloads.names()), Counter())
    print(verdicts)
    assert verdicts["divergent"] > 1_000
