"""What a specification's formula may say, and that all of it exists."""

import jax
import jax.numpy as jnp
import pytest

from hawkeye_mcp.intake import formula

NAMES = frozenset({"x", "bias", "eps", "ROWS"})


@pytest.mark.parametrize(
    "good",
    [
        "x",
        "(x + bias) * jax.nn.softplus(x) / eps",
        "x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)",
        "x.astype(jnp.float32) @ bias.T",
        "jnp.einsum('ij,jk->ik', x, bias)",
        "x[:, None, ...]",
        "jnp.where(x > 0, x, -x)",
        "(x, x.sum(axis=0))",
        "jax.lax.dot_general(x, bias, (((1,), (0,)), ((), ())))",
        "jax.numpy.pi * x.shape[-1]",
        " x\n",
        "~(x < 0) & (x != 1)",
        "'\\d'",
    ],
)
def test_arithmetic_is_allowed(good: str) -> None:
    assert formula.problems(good, NAMES) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("__import__('os').system('true')", "__import__ is no tensor"),
        ("open('f')", "open is no tensor"),
        ("jnp.load('f')", "jnp.load is not among"),
        ("jnp.save('f', x)", "jnp.save is not among"),
        ("jnp.fromfile('f')", "jnp.fromfile is not among"),
        ("jax.pure_callback(x)", "jax.pure_callback is not among"),
        ("jax.nn.silu.__globals__", "jax.nn.silu.__globals__ is not among"),
        ("x.__class__", ".__class__ is not among"),
        ("jnp.ones(3).__class__", ".__class__ is not among"),
        ("jnp.ones(3).tofile('f')", ".tofile is not among"),
        ("jnp", "jnp is not among"),
        ("jax.nn", "jax.nn is not among"),
        ("lax.scan(x, x, x)", "lax.scan is not among"),
        ("(lambda: x)()", "may not have Lambda"),
        ("[x for x in x]", "may not have ListComp"),
        ("f'{x}'", "may not have JoinedStr"),
        ("(y := x)", "may not have NamedExpr"),
        ("x if x else x", "jnp.where"),
        ("x and bias", "& and |"),
        ("not x", "~ of an array"),
        ("x is bias", "may not have Is"),
        ("jnp.add(*x)", "may not have Starred"),
        ("jnp.add(**x)", "may not have **"),
        ("b'x'", "no number"),
        ("1j", "no number"),
        ("z", "z is no tensor that goes in, no constant and no size: those are ROWS, bias, eps, x"),
        ("x = 1", "no Python expression"),
        ("x\nimport os", "no Python expression"),
        ("", "no Python expression"),
        ("(" * 1000, "no Python expression"),
        ("-" * 15000 + "x", "nested too deeply"),
        ("x\0", "null bytes"),
        ("9" * 5000, "4300 digits"),
    ],
)
def test_everything_else_is_refused_with_a_reason(bad: str, says: str) -> None:
    found = formula.problems(bad, NAMES)
    assert says in " ".join(found)
    assert not any(each.endswith(".") for each in found)  # each stands in a sentence of the report


def test_every_name_that_a_formula_may_say_exists() -> None:
    modules = {"jnp": jnp, "jax.numpy": jnp, "jax.nn": jax.nn, "lax": jax.lax, "jax.lax": jax.lax}
    assert set(modules) == set(formula.MODULES)
    assert [
        f"{at}.{name}" for at, names in formula.MODULES.items() for name in names if not hasattr(modules[at], name)
    ] == []


def test_names_and_results_of_a_formula() -> None:
    assert formula.used("jax.nn.silu(x) * eps + jnp.pi") == {"x", "eps"}
    assert [formula.results(text) for text in ("(x, x)", "x + 1", "lax.top_k(x, 2)", "(x,)")] == [2, 1, None, 1]
