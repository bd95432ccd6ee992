"""Near tie or error from draws alone: what the sequential test promises."""

import math

import numpy as np
import pytest

from specbench.verify.statistics.odds import (
    Odds,
    never_drawn_p,
    noise_nat,
    pooled_error_p,
)


def decide(gap_nat: float, seed: int, most: int = 128) -> tuple[str, int]:
    """Draw the two tokens by their odds until the test decides."""
    rng = np.random.default_rng(seed)
    share = 1 / (1 + math.exp(gap_nat))
    odds = Odds(0, 0)
    for _ in range(most):
        odds = Odds(odds.emitted + int(rng.random() < share), odds.either + 1)
        if odds.decision != "open":
            break
    return odds.decision, odds.either


def test_a_token_that_never_comes_in_forty_draws_is_an_error() -> None:
    assert Odds(0, 34).decision == "open"
    assert Odds(0, 40).decision == "error"


@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0])
def test_near_ties_are_hardly_ever_called_errors(gap: float) -> None:
    found = [decide(gap, seed)[0] for seed in range(400)]

    assert found.count("error") == 0
    assert found.count("tie") > 370


@pytest.mark.parametrize("gap", [3.0, 6.0, 20.0])
def test_errors_are_told_in_a_few_dozen_draws(gap: float) -> None:
    found = [decide(gap, seed) for seed in range(200)]

    assert np.mean([name == "error" for name, _ in found]) > 0.9
    assert np.median([n for _, n in found]) < 70


def test_the_margin_is_the_log_odds() -> None:
    assert Odds(100, 200).margin_nat == pytest.approx(0.0)
    assert Odds(10, 100).margin_nat == pytest.approx(math.log(9), abs=0.1)


def test_ties_that_are_pooled_are_no_errors_and_wrong_tokens_are() -> None:
    assert pooled_error_p([]) is None
    assert pooled_error_p([Odds(6, 16)] * 10) > 0.5
    assert pooled_error_p([Odds(0, 16)] * 10) < 1e-10


def test_tokens_that_never_come_cold_are_counted_against_chance() -> None:
    clean = [Odds(5, 14)] * 12
    drift = [Odds(0, 16)] * 6 + clean

    assert never_drawn_p([Odds(0, 4)]) == (0, None)
    assert never_drawn_p(clean)[1] > 0.5
    assert never_drawn_p(drift)[0] == 6
    assert never_drawn_p(drift)[1] < 1e-3


def test_the_noise_is_known_from_five_disagreements_on_and_grows_with_their_gaps() -> None:
    assert noise_nat([Odds(5, 14)] * 4) is None
    small, large = noise_nat([Odds(7, 16)] * 8), noise_nat([Odds(2, 16)] * 8)
    assert small is not None
    assert large is not None
    assert 0 < small < large
