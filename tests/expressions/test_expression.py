"""Laws of the expression language."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.expressions.expression import LONGEST, ExpressionError, parse

LEVELS = {"algorithm": "ddtree", "budget": 16, "topk": None, "tp": 8, "graphs": True, "t": 0.6}

constants = st.one_of(
    st.integers(0, 50), st.booleans(), st.none(), st.sampled_from(["ar", "dd'tree", 'a"b', "x\\y"])
)
leaves = st.one_of(
    constants.map(lambda value: ("constant", value)),
    st.sampled_from(sorted(LEVELS)).map(lambda name: ("name", name)),
)


def nodes(children: Any) -> Any:
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(st.just("and"), children, children),
        st.tuples(st.just("or"), children, children),
        st.tuples(st.just("not"), children),
        st.tuples(compare, leaves, leaves),
        st.tuples(st.sampled_from(["in", "not in"]), leaves, st.lists(leaves, max_size=3)),
        st.tuples(st.sampled_from(["+", "-", "*"]), leaves, leaves),
    )


trees = st.recursive(leaves, nodes, max_leaves=12)


def written(tree: Any) -> str:  # noqa: PLR0911 - one line a kind of node
    match tree:
        case ("constant", None):
            return "none"
        case ("constant", bool() as value):
            return str(value).lower()
        case ("constant", str() as value):
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case ("constant", value):
            return str(value)
        case ("name", name):
            return str(name)
        case ("not", inner):
            return f"not ({written(inner)})"
        case (("in" | "not in") as op, item, members):
            return f"{written(item)} {op} [{', '.join(map(written, members))}]"
        case (op, left, right):
            return f"({written(left)}) {op} ({written(right)})"
    raise AssertionError(tree)


def same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def meant(tree: Any) -> Any:  # noqa: PLR0911 - one line a kind of node
    """Evaluate a tree independently of the parser."""
    match tree:
        case ("constant", value):
            return value
        case ("name", name):
            return LEVELS[name]
        case ("not", inner):
            return not meant(inner)
        case ("and", left, right):
            return bool(meant(left) and meant(right))
        case ("or", left, right):
            return bool(meant(left) or meant(right))
        case ("in", item, members):
            return any(same(meant(member), meant(item)) for member in members)
        case ("not in", item, members):
            return not any(same(meant(member), meant(item)) for member in members)
        case ("==", left, right):
            return same(meant(left), meant(right))
        case ("!=", left, right):
            return not same(meant(left), meant(right))
        case (op, left, right):
            return binary(op, meant(left), meant(right))
    raise AssertionError(tree)


def binary(op: str, left: Any, right: Any) -> Any:  # noqa: PLR0911 - one line a kind of node
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    texts = isinstance(left, str) and isinstance(right, str)
    match op:
        case "+":
            return left + right if numbers else None
        case "-":
            return left - right if numbers else None
        case "*":
            return left * right if numbers else None
        case "<":
            return (numbers or texts) and left < right
        case "<=":
            return (numbers or texts) and left <= right
        case ">":
            return (numbers or texts) and left > right
        case _:
            return (numbers or texts) and left >= right


@given(trees)
def test_what_is_written_means_what_was_meant(tree: Any) -> None:
    expression = parse(written(tree))

    value = expression.value(LEVELS)

    assert same(value, meant(tree))


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_an_error_with_a_place_in_it(text: str) -> None:
    offset = 0
    try:
        expression = parse(text)
        expression.value(dict.fromkeys((name for name, _ in expression.names), 1))
    except ExpressionError as error:
        offset = error.offset

    assert 0 <= offset <= len(text)


@given(st.text(alphabet="ab01 .()[]<>=!,'+-*/%notrdi", max_size=40))
def test_near_expressions_never_end_in_a_traceback(text: str) -> None:
    offset = 0
    try:
        parse(text)
    except ExpressionError as error:
        offset = error.offset

    assert 0 <= offset <= len(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true or false and false", True),
        ("not true or true", True),
        ("not (true or true)", False),
        ("budget + 1 == 17", True),
        ("budget - 2 - 3 == 11", True),
        ("2 + 3 * 4 == 14", True),
        ("-budget == 0 - 16", True),
        ("budget // 5 == 3 and budget % 5 == 1", True),
        ("budget // 0 == none", True),
        ("topk + 1 == none", True),
        ("topk < 3 or topk >= 3", False),
        ("graphs == 1", False),
        ("1 in [true]", False),
        ("'tree' in algorithm", True),
        ("algorithm in ['ar', \"ddtree\"]", True),
        ("algorithm not in []", True),
        ("t == 0.6 and t < 6e-1 + 1", True),
        ("budget < 'a'", False),
    ],
)
def test_precedence_and_values(text: str, value: Any) -> None:
    assert parse(text).value(LEVELS) is value


@pytest.mark.parametrize(
    ("text", "offset", "what"),
    [
        ("", 0, "too early"),
        ("budget = 3", 7, "'='"),
        ("budget == ", 9, "too early"),
        ("budget == 3 4", 12, "unexpected"),
        ("budget == 'a", 10, "not closed"),
        ("(budget", 7, "')'"),
        ("a && b", 2, "'&'"),
        ("1 < budget < 3", 11, "chain"),
        ("a not b", 6, "'in'"),
        ("[1 2]", 3, "',' or ']'"),
        ("__import__('os')", 10, "unexpected"),
        ("a.b", 1, "'.'"),
        ("99999999999999999999", 0, "too large"),
        ("1e999", 0, "too large"),
        ("and", 0, "not 'and'"),
        ("3x", 0, "'3'"),
    ],
)
def test_errors_say_what_and_at_which_character(text: str, offset: int, what: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)

    assert caught.value.offset == offset
    assert what in caught.value.what


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000,
        "not " * 900 + "a",
        "-" * 2000 + "1",
        "[" * 500,
        "+".join("1" * 1500),
        "a" * (LONGEST + 1),
        "*".join(["1"] * 1000),
    ],
)
def test_depth_and_length_are_bounded(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


def test_a_long_disjunction_is_fine() -> None:
    text = " or ".join(["a == 1"] * 400)

    expression = parse(text)

    assert expression.holds({"a": 1}) is True


def test_an_unknown_factor_is_refused_with_the_nearest_one() -> None:
    expression = parse("algorithm == 'ar' and bugdet > 3")

    with pytest.raises(ExpressionError) as caught:
        expression.check_names(LEVELS)

    assert caught.value.offset == 22
    assert "budget" in str(caught.value.hint)
