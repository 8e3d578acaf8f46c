"""Formulas of dimensions, and declarations that do not hold."""

import pytest
from small_workloads import write

from hawkeye_mcp.judge.verify import module_of
from hawkeye_mcp.workload_check import declaration


@pytest.mark.parametrize(
    ("formula", "value"),
    [("2*M*K", 24.0), ("M*(M+1)//2", 6.0), ("K**2/M - 1.5", 16 / 3 - 1.5), ("8610266480640", 8610266480640)],
)
def test_a_formula_of_dimensions_is_computed(formula, value):
    assert declaration.evaluated(formula, {"M": 3, "K": 4}) == pytest.approx(value)


@pytest.mark.parametrize("formula", ["2*X", "__import__('os')", "M.bit_length()", "M +", "'M'"])
def test_anything_else_is_refused(formula):
    with pytest.raises((ValueError, SyntaxError)):
        declaration.evaluated(formula, {"M": 3})


@pytest.mark.parametrize(
    ("replaced", "said"),
    [
        ({"least_bytes = 41947136": "least_bytes = 7"}, "together they must be the 41947136 bytes"),
        (
            {'flops_formula = "2*M*K*N"': 'flops_formula = "2*M*Q"'},
            "'Q' is neither a number nor a dimension of M, K, N",
        ),
        ({"at = [512, 1024]": "at = [1024, 512]"}, "two increasing values below its full one"),
        ({'axis = "M"\nat': 'axis = "L"\nat'}, "a dimension of the sizes as axis"),
        (
            {'name = "out"\nshape = ["M", "N"]': 'name = "out"\nshape = ["N", "M"]'},
            "outputs at the check size are declared as bfloat16[48, 32] and are bfloat16[32, 48]",
        ),
    ],
)
def test_what_is_declared_wrongly_is_said(tmp_path, replaced, said):
    workload = write(tmp_path, toml=replaced)
    assert any(said in problem for problem in declaration.problems(workload, module_of(workload.reference)))


def test_an_oracle_of_low_precision_is_said(tmp_path):
    workload = write(
        tmp_path,
        code={
            "precision=jax.lax.Precision.HIGHEST) + bias, 0)": "precision=jax.lax.Precision.HIGHEST) + bias, 0).astype(jnp.bfloat16)"
        },
    )
    (first, *_) = declaration.problems(workload, module_of(workload.reference))
    assert (
        first
        == "the oracle's outputs at the full size are declared as float32[4096, 2048] and are bfloat16[4096, 2048]"
    )
