import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.multiple import holm

p_lists = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_lists)
def test_adjusting_never_makes_a_claim_easier(p_values: list[float]) -> None:
    assert all(new >= old for new, old in zip(holm(p_values), p_values, strict=True))


@given(p_lists)
def test_adjusting_keeps_the_order_and_stays_a_probability(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    ranked = [value for _, value in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)
    assert max(adjusted) <= 1.0


def test_a_single_question_needs_no_correction() -> None:
    assert holm([0.04]) == [0.04]
