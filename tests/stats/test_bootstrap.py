import math

import numpy as np
import pytest

from specbench.stats.bootstrap import log_percentile_ratio


def test_percentile_ratio_of_a_doubled_sample_is_two_and_paired() -> None:
    random = np.random.default_rng(0)
    values = random.lognormal(0, 1, 500)
    codes = np.arange(500) % 50

    effect = log_percentile_ratio((values, codes), (2 * values, codes), percent=99, prompts=50)

    assert effect.ratio == pytest.approx(2.0)
    assert effect.se == pytest.approx(0.0, abs=1e-9)


def test_error_of_a_median_agrees_with_theory() -> None:
    random = np.random.default_rng(1)
    n = 400
    a, b = random.lognormal(0, 0.3, n), random.lognormal(0, 0.3, n)
    codes = np.arange(n)

    effect = log_percentile_ratio((a, codes), (b, codes), percent=50, prompts=n)

    theory = math.sqrt(2) * math.sqrt(math.pi / 2) * 0.3 / math.sqrt(n)
    assert effect.se == pytest.approx(theory, rel=0.25)


def test_the_same_seed_gives_the_same_interval() -> None:
    values, codes = np.arange(1.0, 51.0), np.arange(50)
    arms = ((values, codes), (values[::-1].copy(), codes))

    first = log_percentile_ratio(*arms, percent=50, prompts=50)
    again = log_percentile_ratio(*arms, percent=50, prompts=50)

    assert first == again


def test_one_prompt_has_no_interval() -> None:
    values, codes = np.array([1.0, 2.0]), np.zeros(2, dtype=np.int64)

    assert math.isnan(
        log_percentile_ratio((values, codes), (values, codes), percent=50, prompts=1).se
    )
