import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.effect import Effect, effect_of
from specbench.stats.launches import Pairs, noise_of
from specbench.stats.ratio import Sums, median_ratio

positive = st.lists(st.floats(0.1, 100), min_size=12, max_size=12)


def sums(values: list[float]) -> Sums:
    half = len(values) // 2
    return Sums(numerator=np.array(values[:half]), denominator=np.array(values[half:]))


def paired(a: Sums, b: Sums) -> Effect:
    """Compare b with a by prompt, as one pair of trials: prompts alone are the error."""
    share = b.influence() / len(b.numerator) - a.influence() / len(a.numerator)
    pairs = Pairs(
        launch=np.zeros(1, dtype=np.int64),
        value=np.array([b.log - a.log]),
        share=share[None, :],
        met=np.ones((1, len(share)), dtype=bool),
    )
    return effect_of(b.log - a.log, [noise_of(pairs).prompts])


@given(positive, positive)
def test_swapping_the_arms_negates_the_log_ratio(a: list[float], b: list[float]) -> None:
    forward, backward = paired(sums(a), sums(b)), paired(sums(b), sums(a))

    assert forward.value == pytest.approx(-backward.value, abs=1e-12)
    assert forward.se == pytest.approx(backward.se)


@given(positive, positive, st.permutations(range(6)))
def test_order_of_prompts_does_not_matter(a: list[float], b: list[float], order: list[int]) -> None:
    mixed = [
        Sums(numerator=s.numerator[order], denominator=s.denominator[order])
        for s in (sums(a), sums(b))
    ]

    assert paired(*mixed).se == pytest.approx(paired(sums(a), sums(b)).se, abs=1e-12)


def test_a_method_that_suits_every_prompt_alike_has_no_error() -> None:
    random = np.random.default_rng(0)
    tokens, seconds = random.uniform(10, 500, 30), random.uniform(1, 9, 30)
    slow = Sums(numerator=tokens, denominator=seconds)
    fast = Sums(numerator=tokens, denominator=seconds / 2)

    effect = paired(slow, fast)

    assert effect.ratio == pytest.approx(2.0)
    assert effect.se == pytest.approx(0.0, abs=1e-12)


def test_the_error_agrees_with_resampling_prompts() -> None:
    random = np.random.default_rng(3)
    n = 200
    tokens = random.lognormal(5, 0.4, n)
    a = Sums(numerator=tokens, denominator=tokens * random.lognormal(0, 0.3, n))
    b = Sums(numerator=tokens, denominator=a.denominator * random.lognormal(0, 0.15, n))

    draws = []
    for _ in range(2000):
        pick = random.integers(0, n, n)
        draws.append(
            np.log(b.numerator[pick].sum() / b.denominator[pick].sum())
            - np.log(a.numerator[pick].sum() / a.denominator[pick].sum())
        )

    assert paired(a, b).se == pytest.approx(float(np.std(draws)), rel=0.1)


def test_one_prompt_tells_nothing_about_such_workloads() -> None:
    one = Sums(numerator=np.array([5.0]), denominator=np.array([2.0]))

    assert math.isnan(paired(one, one).se)


def test_median_interval_holds_the_sign_test_order_statistics() -> None:
    # n = 10, 95 %: ranks 2 and 9 (P(Bin(10, 1/2) <= 1) = 0.0107, <= 2 would be 0.0547).
    result = median_ratio(np.log(np.arange(1.0, 11.0)))

    assert (result.low, result.high) == (pytest.approx(2.0), pytest.approx(9.0))
    assert result.ratio == pytest.approx(math.sqrt(30.0))


def test_too_few_prompts_leave_the_median_unbounded() -> None:
    result = median_ratio(np.array([0.1, 0.2, 0.3]))

    assert (result.low, result.high) == (0.0, math.inf)


def test_no_prompts_give_no_median() -> None:
    assert math.isnan(median_ratio(np.array([])).ratio)
