import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.effect import Effect, Variance, effect_of, satterthwaite

effects = st.builds(
    Effect, value=st.floats(-2, 2), se=st.floats(1e-6, 1), df=st.floats(1, 1e6) | st.just(math.inf)
)


def test_interval_is_the_textbook_t_interval() -> None:
    effect = Effect(value=0.1, se=0.02, df=10)

    low, high = effect.interval()

    assert low == pytest.approx(0.1 - 2.228139 * 0.02)
    assert high == pytest.approx(0.1 + 2.228139 * 0.02)


def test_infinite_df_gives_the_normal_interval() -> None:
    low, high = Effect(value=0.0, se=1.0).interval()

    assert (low, high) == pytest.approx((-1.959964, 1.959964), abs=1e-5)


@given(effects)
def test_the_interval_excludes_zero_exactly_when_p_is_below_five_percent(effect: Effect) -> None:
    low, high = effect.interval()

    assert (low > 0 or high < 0) == (effect.p_value < 0.05)


@given(effects)
def test_negation_mirrors_interval_and_keeps_p(effect: Effect) -> None:
    low, high = effect.interval()

    assert (-effect).interval() == pytest.approx((-high, -low))
    assert (-effect).p_value == pytest.approx(effect.p_value)


def test_unknown_error_never_decides() -> None:
    effect = Effect(value=5.0, se=math.nan, df=0)

    assert effect.interval() == (-math.inf, math.inf)
    assert effect.ratio_interval() == (0.0, math.inf)
    assert effect.p_value == 1.0
    assert effect.minimum_detectable() == math.inf


def test_minimum_detectable_effect_of_a_known_variance() -> None:
    assert Effect(value=0, se=1).minimum_detectable() == pytest.approx(2.8016, abs=1e-3)


def test_satterthwaite_of_equal_parts_adds_their_df() -> None:
    total = satterthwaite([Variance(value=2.0, df=5), Variance(value=2.0, df=5)])

    assert (total.value, total.df) == (4.0, pytest.approx(10))


def test_a_negligible_part_leaves_df_alone() -> None:
    assert effect_of(0.0, [Variance(value=1.0, df=7), Variance(value=0.0, df=1)]).df == 7
