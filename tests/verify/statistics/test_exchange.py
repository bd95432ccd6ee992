"""Two samples at the same contexts: laws of the tests where everything is known by construction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.verify.statistics import exchange
from specbench.verify.statistics.exchange import Stratum

DRAWS = st.lists(st.integers(0, 6), min_size=1, max_size=40)
CONTEXTS, SIZE = 24, 192


def distributions(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.full(12, 0.5), size=CONTEXTS)


def drawn(p: np.ndarray, rng: np.random.Generator, size: int = SIZE) -> list[list[int]]:
    return [rng.choice(p.shape[1], size, p=row).tolist() for row in p]


def samples(seed: int, beta: float = 1.0, greedy: float = 0.0) -> list[Stratum]:
    """Verification draws from p^beta, and takes the favourite with probability `greedy`."""
    rng = np.random.default_rng(seed)
    p = distributions(rng)
    q = p**beta / (p**beta).sum(axis=1, keepdims=True)
    top = np.eye(p.shape[1])[p.argmax(axis=1)]
    return exchange.strata(drawn((1 - greedy) * q + greedy * top, rng), drawn(p, rng))


@given(DRAWS, DRAWS)
def test_counts_add_up_to_both_samples(verified: list[int], plain: list[int]) -> None:
    one = exchange.stratum(verified, plain)

    assert one is not None
    assert one.n_verified == len(verified)
    assert one.n == len(verified) + len(plain)
    assert (one.verified <= one.pooled).all()
    assert list(one.pooled) == sorted(one.pooled, reverse=True)


@given(DRAWS, DRAWS)
def test_swapping_the_sides_turns_the_sign_and_keeps_the_variance(
    verified: list[int], plain: list[int]
) -> None:
    one, other = exchange.stratum(verified, plain), exchange.stratum(plain, verified)
    assert one is not None
    assert other is not None

    left, right = exchange.tilt([one], 0.0), exchange.tilt([other], 0.0)

    assert left.difference == pytest.approx(-right.difference, abs=1e-9)
    assert left.variance == pytest.approx(right.variance, abs=1e-9)


@given(DRAWS, DRAWS, st.integers(1, 5))
def test_lumping_keeps_every_draw(verified: list[int], plain: list[int], kept: int) -> None:
    one = exchange.stratum(verified, plain)
    assert one is not None

    lump = exchange.lumped(one, kept)

    assert (lump.n, lump.n_verified) == (one.n, one.n_verified)
    assert len(lump.tokens) <= kept + 1


def test_equal_distributions_give_p_values_that_are_uniform() -> None:
    found = [
        (exchange.tilt(s, 0.0).p, exchange.favourite(s, 0.0).p, exchange.homogeneity(s, 0.0).p)
        for s in (samples(seed) for seed in range(120))
    ]

    for column in np.array(found, float).T:
        assert 0.01 <= (column < 0.1).mean() <= 0.22
        assert column.min() > 1e-5


@pytest.mark.parametrize("beta", [0.7, 1.4])
def test_the_tilt_estimates_another_temperature(beta: float) -> None:
    contrast = exchange.tilt(samples(1, beta=beta), 0.0)

    value, width = contrast.size(0.99)
    assert contrast.p is not None
    assert contrast.p < 1e-6
    assert value + 1 == pytest.approx(beta, abs=0.12 + width)


def test_the_favourite_estimates_the_share_that_was_taken_greedily() -> None:
    contrast = exchange.favourite(samples(2, greedy=0.3), 0.0)

    value, width = contrast.size(0.99)
    assert contrast.p is not None
    assert contrast.p < 1e-6
    assert abs(value - 0.3) < 2 * width


def test_homogeneity_sees_swapped_tokens_that_no_tilt_sees() -> None:
    rng = np.random.default_rng(3)
    p = np.tile([0.3, 0.3, 0.2, 0.2], (CONTEXTS, 1))
    q = np.tile([0.4, 0.2, 0.25, 0.15], (CONTEXTS, 1))

    found = exchange.strata(drawn(q, rng), drawn(p, rng))

    assert exchange.homogeneity(found, 0.0).p < 1e-9
    assert exchange.homogeneity(found, 0.0).drift_nat > 0.15


def test_allowed_noise_makes_a_small_drift_unremarkable() -> None:
    rng = np.random.default_rng(4)
    p = distributions(rng)
    noisy = p * np.exp(0.05 * rng.normal(size=p.shape))
    found = exchange.strata(
        drawn(noisy / noisy.sum(axis=1, keepdims=True), rng, 4000), drawn(p, rng, 4000)
    )

    strict, allowed = (exchange.homogeneity(found, a).p for a in (0.0, 0.1))

    assert strict < 1e-3
    assert allowed > 0.01


def test_coins_shared_by_a_call_are_seen_and_fresh_coins_are_not() -> None:
    rng = np.random.default_rng(5)
    p = distributions(rng)
    fresh = [[rng.choice(12, 8, p=row).tolist() for _ in range(6)] for row in p]
    shared = [[[int(rng.choice(12, p=row))] * 8 for _ in range(6)] for row in p]

    clean, _, _ = exchange.shared_coins(fresh, rng)
    broken, excess, spread = exchange.shared_coins(shared, rng)

    assert clean > 1e-3
    assert broken < 1e-30
    assert excess > 10 * spread


def test_the_largest_shift_names_the_context_that_was_changed() -> None:
    rng = np.random.default_rng(6)
    p = np.tile([0.4, 0.3, 0.2, 0.1], (CONTEXTS, 1))
    q = p.copy()
    q[7] = [0.1, 0.6, 0.2, 0.1]

    found = exchange.strata(drawn(q, rng), drawn(p, rng))

    assert exchange.farthest(found) == 7
    assert "in context 7" in exchange.largest_shift(found)


@pytest.mark.parametrize("greedy", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_greedy_share_is_estimated_without_bias_up_to_all_of_the_draws(greedy: float) -> None:
    found = [exchange.greedy_share(samples(seed, greedy=greedy), 0.0, 0.99) for seed in range(12)]

    mean = sum(value for value, _ in found) / len(found)
    error = found[0][1] / 2.58 / len(found) ** 0.5
    assert abs(mean - greedy) < max(4 * error, 0.02)
