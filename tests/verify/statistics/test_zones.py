"""Zones of a filter: what it certainly keeps and forbids, and never what lies at its edge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.verify.statistics.shaping import Filters
from specbench.verify.statistics.zones import clearly_above, forbidden_p, zones

FILTERS = [
    Filters(top_p=0.5),
    Filters(top_p=0.8),
    Filters(min_p=0.2),
    Filters(top_k=3),
    Filters(top_k=4, top_p=0.7),
    Filters(top_k=5, min_p=0.1, top_p=0.9),
]


def kept(p: np.ndarray, filters: Filters) -> set[int]:
    """What a sampler keeps that decides every filter on the whole distribution."""
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]
    inside = before < filters.top_p
    if filters.top_k:
        inside &= np.arange(len(p)) < filters.top_k
    if filters.min_p:
        inside &= p[order] >= filters.min_p * p.max()
    return {int(t) for t in order[inside]}


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=300),
    st.sampled_from(FILTERS),
)
def test_no_token_is_both_kept_and_forbidden(drawn: list[int], filters: Filters) -> None:
    found = zones(drawn, filters)

    assert found is not None
    assert not any(found.forbids(token) for token in found.core)


@pytest.mark.parametrize("filters", FILTERS)
def test_what_a_sampler_emits_is_never_forbidden_and_the_core_is_always_kept(
    filters: Filters,
) -> None:
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        p = rng.dirichlet(np.full(10, 0.4))
        noisy = p * np.exp(0.02 * rng.normal(size=10))
        found = zones(rng.choice(10, 384, p=p).tolist(), filters)
        assert found is not None
        allowed = kept(noisy / noisy.sum(), filters)
        wrong += any(found.forbids(t) for t in allowed) or not found.core <= allowed
    assert wrong <= 1


def test_an_ignored_nucleus_is_seen_at_a_context_clear_of_the_edge() -> None:
    found = zones([0] * 250 + [1] * 90 + [2] * 44, Filters(top_p=0.5))

    assert found is not None
    assert found.core == {0}
    assert found.forbids(2)
    assert found.useful


def test_ranks_that_are_not_clear_are_left_out() -> None:
    found = zones([0] * 60 + [1] * 55 + [2] * 50 + [3] * 48, Filters(top_k=2))

    assert found is not None
    assert not found.core
    assert not any(found.forbids(t) for t in range(4))
    assert not clearly_above(60, 55)


def test_forbidden_draws_count_against_the_share_of_verified_ones() -> None:
    assert forbidden_p(0, 0, 0.5) is None
    assert forbidden_p(0, 5, 0.5) == 1.0
    assert forbidden_p(30, 0, 0.5) == pytest.approx(0.5**30)


def test_no_draws_give_no_zones() -> None:
    assert zones([], Filters(top_p=0.5)) is None
