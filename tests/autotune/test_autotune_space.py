"""Search spaces: which points there are, and that constraints are read and never run."""

import pytest

from hawkeye_mcp.autotune import space
from hawkeye_mcp.autotune.space import BadSpace, checked, parse, points


def of(*constraints, **parameters):
    return checked({"parameters": parameters or {"A": [1, 2, 3], "B": [4, 6]}, "constraints": list(constraints)})


def test_points_come_in_the_order_of_the_lists_without_repeats():
    assert points(of(A=[2, 1, 2], B=[5, 3]), {}) == [
        {"A": 2, "B": 5},
        {"A": 2, "B": 3},
        {"A": 1, "B": 5},
        {"A": 1, "B": 3},
    ]


@pytest.mark.parametrize(
    ("constraint", "left"),
    [
        ("A * B <= 8", [(1, 4), (1, 6), (2, 4)]),
        ("B % A == 0 and A != 1", [(2, 4), (2, 6), (3, 6)]),
        ("not A < 2 or B // A == 6", [(1, 6), (2, 4), (2, 6), (3, 4), (3, 6)]),
        ("1 < A < B - 2", [(2, 6), (3, 6)]),
        ("3 > A >= 2 != B", [(2, 4), (2, 6)]),
        ("not not A < 2 and (B == 4 or A == 9)", [(1, 4)]),
        ("-A + B >= DEPTH", [(1, 6)]),
        ("A > 2 == True", None),
    ],
)
def test_a_constraint_leaves_the_points_that_fulfil_it(constraint, left):
    if left is None:
        with pytest.raises(BadSpace, match="may not hold Constant"):
            points(of(constraint), {})
        return
    assert [tuple(point.values()) for point in points(of(constraint), {"DEPTH": 5})] == left


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("__import__('os').system('false')", "may not hold Call"),
        ("A.real > 0", "may not hold Attribute"),
        ("(lambda: A)() > 0", "may not hold"),
        ("A ** B > 0", "may not hold Pow"),
        ("A / B > 0", "may not hold Div"),
        ("[A][0] > 0", "may not hold"),
        ("A > 0.5", "may not hold Constant"),
        ("C > 0", "names C, which is none of A, B"),
        ("A + B", "neither true nor false"),
        ("A >", "cannot be read"),
        ("A = 1", "cannot be read"),
        ("", "cannot be read"),
        ("(" * 400, "cannot be read"),
        ("B // (A - 1) > 0", "divides by zero at A = 1, B = 4"),
        ("A > 9", "None of the 6 points"),
        ("A + " * 125 + "1 > 0", "at most 500 characters"),
    ],
)
def test_a_constraint_that_says_nothing_is_refused_with_what_to_write(constraint, said):
    with pytest.raises(BadSpace) as refused:
        points(of(constraint), {})
    assert said in str(refused.value)


def test_constraints_that_would_take_minutes_are_refused():
    many = [f"{'A * ' * 100}B > {number}" for number in range(10)]
    with pytest.raises(BadSpace, match="at 20,000 points takes 40,600,000 steps"):
        points(of(*many, A=list(range(200)), B=list(range(100))), {})
    assert len(points(of(*many, A=[10], B=[1]), {})) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "wrong"),
        ("{}", "at least 1 item"),
        ('{"A": []}', "A: give at least one value"),
        ('{"A": [1.5]}', "parameters.A.0"),
        ('{"A": [true]}', "parameters.A.0"),
        ('{"A": "128"}', "parameters.A"),
        ('{"A": [1], "B": [1], "A": [2]}', "'A' stands there twice"),
        ('{"parameters": {"A": [1]}, "constraint": []}', "constraint: Extra inputs"),
        ('{"A": [99999999999999999999]}', "parameters.A.0"),
    ],
)
def test_what_is_no_space_is_refused_with_the_form_of_one(text, said):
    with pytest.raises(BadSpace) as refused:
        parse(text)
    assert said in str(refused.value)
    assert '{"parameters": {"BLOCK_M": [128, 256]}' in str(refused.value)


def test_parameters_alone_are_a_space_too():
    assert parse('{"A": [1, 2]}') == parse('{"parameters": {"A": [1, 2]}}')


def test_a_space_that_is_too_large_is_refused_before_it_is_written_down():
    huge = of(A=list(range(300)), B=list(range(300)), C=list(range(300)))
    with pytest.raises(BadSpace, match="27,000,000 points before constraints; 20,000 may be"):
        points(huge, {})
    assert len(points(of(A=list(range(200)), B=list(range(100))), {})) == space.MOST_POINTS
