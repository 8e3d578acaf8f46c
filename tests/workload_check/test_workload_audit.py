"""The audit passes a sound test and says what is wrong with each unsound one."""

import pytest
from small_workloads import write

from hawkeye_mcp.workload_check.audit import Audit
from hawkeye_mcp.workload_check.report import Checked

FAINT_BIAS = {'(size["N"],)) * 0.5': '(size["N"],)) * 0.001'}
ALLOWED = {"# [[survives]]": '[[survives]]\nmutant = "add 1: operand 0 alone"\nreason = "faint"\n#'}


def _checked(workload, size="check") -> Checked:
    return Audit(workload, size).run()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return _checked(write(tmp_path_factory.mktemp("sound")))


def test_the_skeleton_is_sound(sound):
    assert sound.ok, sound.problems
    assert sound.power > 0.9
    assert sound.mutants.survived == sound.mutants.allowed == []
    assert {variant.name for variant in sound.honest} == {"jitted", "in float32", "contractions in two halves"}
    assert all(variant.ok for variant in sound.honest)
    caught = {mutant.name: mutant for mutant in sound.mutants.caught}
    assert {
        "zeros",
        "constant",
        "mean over axis 0",
        "another draw's answer",
        "one block left out",
        "last row stale",
        "last column stale",
        "add 1: operand 0 alone",
        "max 1: operand 0 alone",
        "dot_general 1: operands in float8",
        "dot_general 1: last sixteenth of axis 1 of operand 0 dropped",
    } <= set(caught)
    assert caught["zeros"].error > 1
    assert caught["zeros"].failing > 0.4  # half of the outputs are zero
    assert 0.02 < caught["dot_general 1: operands in float8"].error < 0.06


def test_a_part_too_faint_to_see_is_a_problem_and_named(tmp_path):
    workload = write(tmp_path, code=FAINT_BIAS)
    found = _checked(workload)
    assert not found.ok
    assert [mutant.name for mutant in found.mutants.survived] == ["add 1: operand 0 alone"]
    assert "add 1: operand 0 alone passes" in found.problems[0]
    (line,) = (n for n, text in enumerate(workload.code().splitlines(), 1) if "return jax.nn.relu(" in text)
    assert found.mutants.survived[0].line == line


def test_a_survivor_with_a_reason_is_allowed_and_shown(tmp_path):
    found = _checked(write(tmp_path, code=FAINT_BIAS, toml=ALLOWED))
    assert found.ok, found.problems
    assert [(mutant.name, mutant.reason) for mutant in found.mutants.allowed] == [("add 1: operand 0 alone", "faint")]


def test_a_reason_for_nothing_is_a_problem(tmp_path):
    found = _checked(write(tmp_path, toml=ALLOWED))
    assert not found.ok
    assert found.problems == [
        "[[survives]] names 'add 1: operand 0 alone', which does not survive or does not exist: remove it"
    ]


def test_a_part_without_effect_is_equivalent(tmp_path):
    found = _checked(
        write(tmp_path, code={"jnp.dot(x, weight) + bias)": "jnp.maximum(jnp.dot(x, weight), -1e9) + bias)"})
    )
    assert found.ok, found.problems
    assert "max 1: operand 0 alone" in found.mutants.equivalent


def test_a_gate_that_the_honest_program_misses_is_a_problem(tmp_path):
    found = _checked(write(tmp_path, toml={"limit = 0.02": "limit = 0.0001"}))
    assert "the honest program jitted fails the gate E <= 0.0001" in found.problems[0]
    assert found.honest[1].ok  # float32 passes any gate


def test_outputs_that_a_mean_predicts_are_a_problem_unless_the_workload_says_why(tmp_path):
    predictable = {"jnp.dot(x, weight) + bias": "jnp.dot(x, weight)[:, :1] * (jnp.arange(48) < 3) + bias"}
    changed = {f"jax.nn.relu({old})": f"jax.nn.relu({new})" for old, new in predictable.items()}
    changed |= {
        "jnp.maximum(jnp.dot(x, weight, precision=jax.lax.Precision.HIGHEST) + bias, 0)": (
            "jnp.maximum(jnp.dot(x, weight, precision=jax.lax.Precision.HIGHEST)[:, :1] * (jnp.arange(48) < 3) + bias, 0)"
        )
    }
    toml = {"full = { M = 4096, K = 2048, N = 2048 }": "full = { M = 4096, K = 2048, N = 48 }"}
    toml |= {"flops = 34359738368": "flops = 805306368", "least_bytes = 41947136": "least_bytes = 17367136"}
    found = _checked(write(tmp_path, code=changed, toml=toml))
    assert found.power < 0.1
    assert any(problem.startswith("power is ") for problem in found.problems)
    toml |= {'source = "written here"': 'source = "written here"\nno_power = "most columns are constant"'}
    assert _checked(write(tmp_path, "excused", code=changed, toml=toml)).ok


def test_a_declaration_that_is_not_what_the_code_does_is_a_problem_and_nothing_runs(tmp_path):
    found = _checked(
        write(
            tmp_path,
            toml={
                "flops = 34359738368": "flops = 1",
                'dtype = "bfloat16"\n\n[[outputs]]': 'dtype = "float32"\n\n[[outputs]]',
            },
        )
    )
    assert not found.ok
    assert found.honest == []
    assert any("inputs at the full size are declared as" in problem for problem in found.problems)
    assert "flops is 1, and 2*M*K*N at the full size is 34359738368" in found.problems


def test_at_full_size_only_the_honest_program_runs(tmp_path):
    small = {
        "full = { M = 4096, K = 2048, N = 2048 }": "full = { M = 128, K = 64, N = 48 }",
        "at = [512, 1024]": "at = [32, 64]",
    }
    small |= {"flops = 34359738368": "flops = 786432", "least_bytes = 41947136": "least_bytes = 34912"}
    found = _checked(write(tmp_path, toml=small), "full")
    assert found.ok, found.problems
    assert [variant.name for variant in found.honest] == ["jitted"]
    assert found.mutants.caught == []


def test_in_float32_another_order_of_operations_is_equivalent(tmp_path):
    softmax = {
        "x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), bias.astype(jnp.bfloat16)": "x, weight, bias",
        "jax.nn.relu(jnp.dot(x, weight) + bias)": "jax.nn.softmax(jnp.dot(x, weight) + bias)",
        "jnp.maximum(jnp.dot(x, weight, precision=jax.lax.Precision.HIGHEST) + bias, 0)": (
            "jax.nn.softmax(jnp.dot(x, weight, precision=jax.lax.Precision.HIGHEST) + bias)"
        ),
    }
    found = _checked(write(tmp_path, code=softmax, toml={"bfloat16": "float32", "41947136": "83894272"}))
    assert found.ok, found.problems
    # softmax is the same whatever is subtracted from every element: the largest, another row's, or nothing
    assert "sub 1: operand 0 alone" in found.mutants.equivalent
    assert "reduce_sum 1: last sixteenth of axis 1 dropped" in {mutant.name for mutant in found.mutants.caught}
