import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.gate import Range, condition, flags_of, judge, lossless_gate
from specbench.errors import InputError

numbers = st.floats(-10, 10)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(0.90, 0.96, "yes"), (0.98, 1.10, "no"), (0.95, 0.99, "unknown"), (0.97, 1.0, "no")],
)
def test_a_regression_is_said_only_when_the_whole_interval_agrees(
    low: float, high: float, answer: str
) -> None:
    found = judge(condition("speedup < 0.97"), {"speedup": Range(low=low, high=high)})

    assert found == answer


@given(numbers, numbers, numbers, st.sampled_from(["<", "<=", ">", ">="]))
def test_a_certain_answer_is_the_answer_of_every_value_in_the_interval(
    x: float, y: float, number: float, operator: str
) -> None:
    low, high = sorted((x, y))
    found = judge(
        condition(f"speedup {operator} {number!r}"), {"speedup": Range(low=low, high=high)}
    )

    holds = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__}[operator]
    ends = {holds(value, number) for value in (low, high)}
    assert found == ("unknown" if len(ends) == 2 else "yes" if ends == {True} else "no")


def test_what_was_not_measured_is_unknown() -> None:
    assert judge(condition("accept_len_ratio < 1"), {"accept_len_ratio": None}) == "unknown"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("speedup < 1 and accept_len_ratio < 1", "no"),
        ("speedup < 1 or accept_len_ratio < 1", "unknown"),
        ("speedup > 1 or accept_len_ratio < 1", "yes"),
        ("speedup > 1 and accept_len_ratio < 1", "unknown"),
    ],
)
def test_unknown_combines_as_in_three_valued_logic(text: str, answer: str) -> None:
    figures = {"speedup": Range(low=1.1, high=1.2), "accept_len_ratio": None}

    assert judge(condition(text), figures) == answer


@pytest.mark.parametrize(
    "text", ["", "speedup", "speedup == 1", "speedup < x", "1 < speedup", "speedup < 1 and"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a condition"):
        condition(text)


def test_an_unknown_figure_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'speedup'"):
        condition("speed_up < 0.97")


@pytest.mark.parametrize(
    ("rows", "gate"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "violated"], "violated"),
        (["holds", "untested"], "untested"),
        (["inconclusive", "untested"], "inconclusive"),
        ([None, float("nan")], "control"),
    ],
)
def test_an_arm_is_as_lossless_as_its_worst_row(rows: list[str | None], gate: str) -> None:
    assert lossless_gate(pd.DataFrame({"lossless": rows})) == gate


def test_flags_are_collected_once_in_order() -> None:
    table = pd.DataFrame({"flags": ["thermal, x", "", None, "x,clock_step"]})

    assert flags_of(table) == ("thermal", "x", "clock_step")
