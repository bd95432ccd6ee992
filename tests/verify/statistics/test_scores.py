import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.verify.statistics import scores
from specbench.verify.statistics.shaping import Atoms, Filters, shape, support_violations
from tests.verify.statistics.synthetic import VOCAB, emit

HOT = Filters(temperature=2.5, top_k=8)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_differences_of_an_honest_sampler_average_to_zero_within_their_stated_variance() -> None:
    zs = []
    for seed in range(60):
        atoms = shape(emit(300, rng(seed)), Filters())
        zs += [scores.log_likelihood(atoms).z, scores.favourite(atoms).z, scores.tail(atoms).z]

    assert abs(float(np.mean(zs))) < 0.25
    assert float(np.std(zs)) == pytest.approx(1.0, abs=0.2)


def test_p_values_of_an_honest_sampler_are_small_as_rarely_as_they_say() -> None:
    low = total = 0
    for seed in range(80):
        atoms = shape(emit(600, rng(1000 + seed), noise=0.02), Filters())
        uniforms = scores.pit(atoms, rng(seed))
        ps = [
            scores.log_likelihood(atoms).p,
            scores.favourite(atoms).p,
            scores.rank_table(atoms),
            scores.pit_uniformity(uniforms),
            scores.serial(atoms, uniforms, 1).p,
        ]
        low += sum(p is not None and p < 0.01 for p in ps)
        total += len(ps)

    assert low <= 0.03 * total


def test_hot_configuration_is_exact_from_eight_ranks() -> None:
    zs = [
        scores.log_likelihood(shape(emit(300, rng(seed), temperature=2.5, top_k=8), HOT)).z
        for seed in range(60)
    ]

    assert abs(float(np.mean(zs))) < 0.45
    assert float(np.std(zs)) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("wrong", [0.92, 1.1])
def test_effective_temperature_is_estimated(wrong: float) -> None:
    tokens = emit(4000, rng(5), temperature=wrong)

    error = scores.temperature_error_pct(scores.log_likelihood(shape(tokens, Filters())), 0.99)

    assert error.low < 100 * (wrong - 1) < error.high
    assert not error.inside(4)


def test_excess_greedy_is_unbiased_for_a_mixture_with_the_favourite() -> None:
    def sometimes_greedy(p: np.ndarray, g: np.random.Generator) -> int:
        return int(p.argmax()) if g.random() < 0.1 else int(g.choice(len(p), p=p))

    atoms = shape(emit(6000, rng(6), draw=sometimes_greedy), Filters())

    estimate = scores.excess_greedy_pct(atoms, 0.99)

    assert estimate.low < 10 < estimate.high
    assert estimate.low > 2


def test_greedy_verification_is_rejected_within_two_hundred_tokens() -> None:
    tokens = emit(200, rng(7), draw=lambda p, _: int(p.argmax()))

    p = scores.favourite(shape(tokens, Filters())).p

    assert p is not None
    assert p < 1e-6


def test_reused_coins_show_as_serial_correlation() -> None:
    coins = iter(np.repeat(rng(8).random(1000), 2))

    def reuse(p: np.ndarray, g: np.random.Generator) -> int:
        by_rank = np.argsort(-p, kind="stable")
        place = np.searchsorted(np.cumsum(p[by_rank]), next(coins))
        return int(by_rank[min(int(place), len(p) - 1)])

    atoms = shape(emit(2000, rng(9), draw=reuse), Filters())

    p = scores.serial(atoms, scores.pit(atoms, rng(10)), 1).p

    assert p is not None
    assert p < 1e-6


def test_tokens_beyond_top_k_by_a_margin_are_violations_and_near_ties_are_not() -> None:
    clean = emit(2000, rng(11), temperature=2.5, top_k=8, noise=0.05)
    ignored = emit(200, rng(12), temperature=2.5)

    assert support_violations(clean, HOT, 3.0).sum() == 0
    assert support_violations(ignored, HOT, 3.0).sum() > 0


def test_another_temperature_without_top_k_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k"):
        shape(emit(10, rng(13)), Filters(temperature=0.7))


def test_profile_stratifies_by_place_in_the_round() -> None:
    tokens = emit(4000, rng(14))

    profile = scores.profile(scores.log_likelihood(shape(tokens, Filters())), tokens.round_index)

    assert sorted(profile) == [0, 1, 2, 3]
    assert all(abs(z) < 4 for z in profile.values())


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([Filters(), HOT, Filters(top_p=0.8), Filters(temperature=0.6, top_k=20)]),
)
def test_shaped_rows_are_distributions_that_allow_their_own_token(
    seed: int, filters: Filters
) -> None:
    tokens = emit(40, rng(seed), temperature=filters.temperature, top_k=filters.top_k)

    atoms = shape(tokens, filters)

    assert np.allclose(atoms.probs.sum(axis=1), 1)
    assert (atoms.probs[np.arange(len(atoms)), atoms.chosen] > 0).all()
    assert len(atoms) <= len(tokens)
    assert atoms.probs.shape[1] < VOCAB


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8), st.integers(0, 7))
def test_score_differences_have_mean_zero_under_the_row_itself(
    weights: list[float], chosen: int
) -> None:
    row = np.array(weights) / sum(weights)
    n = len(row)
    every = Atoms(
        probs=np.tile(row, (n, 1)),
        chosen=np.arange(n),
        row=np.arange(n),
        request=np.zeros(n, np.int64),
        position=np.arange(n),
    )

    for score in (scores.log_likelihood(every), scores.favourite(every), scores.tail(every)):
        assert float(row @ score.difference) == pytest.approx(0, abs=1e-9)
        assert float(row @ score.difference**2) == pytest.approx(score.variance[0], abs=1e-9)
