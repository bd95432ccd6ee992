"""Distributions under any mix of filters: exact where known, whatever the order of the filters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.verify.statistics.production import combined, forbidden, shape_any
from specbench.verify.statistics.scores import favourite, log_likelihood
from specbench.verify.statistics.shaping import Filters, shape
from specbench.verify.statistics.tokens import Floats
from tests.verify.statistics.synthetic import conditionals, emit, reshape

MIXES = [
    Filters(temperature=0.7, top_p=0.95),
    Filters(temperature=0.6, top_k=20, top_p=0.95),
    Filters(temperature=0.7, top_k=40, top_p=0.8),
    Filters(temperature=1.0, min_p=0.05),
    Filters(temperature=0.8, top_p=0.9, min_p=0.1),
    Filters(temperature=0.7),
    Filters(temperature=1.3, top_p=0.95),
    Filters(temperature=1.5, top_k=10, top_p=0.9),
]


def in_order(p: Floats, filters: Filters, order: str) -> Floats:
    """A sampler that applies its filters one after the other, renormalising between them."""
    q = reshape(p, filters.temperature)
    for name in order:
        rank = np.argsort(np.argsort(-q))
        if name == "k" and filters.top_k:
            q = np.where(rank < filters.top_k, q, 0)
        if name == "p" and filters.top_p < 1:
            down = np.argsort(-q)
            before = np.cumsum(q[down]) - q[down]
            q[down[before > filters.top_p]] = 0
        if name == "m" and filters.min_p:
            q = np.where(q >= filters.min_p * q.max(), q, 0)
        q = q / q.sum()
    return q


@pytest.mark.parametrize("filters", MIXES, ids=str)
@pytest.mark.parametrize("order", ["kpm", "mkp", "pkm", "pmk"])
def test_within_the_core_every_order_of_the_filters_has_the_same_distribution(
    filters: Filters, order: str
) -> None:
    tokens, rows = emit(600, np.random.default_rng(7)), conditionals(600, np.random.default_rng(7))

    atoms = shape_any(tokens, filters)

    assert len(atoms) > 100
    for probs, row in zip(atoms.probs[:, :-1], atoms.row.tolist(), strict=True):
        true = in_order(rows[row], filters, order)[tokens.top_ids[row]]
        assert (true[probs > 0] > 0).all()
        true = np.where(probs > 0, true, 0)
        assert probs == pytest.approx(true / true.sum())


@pytest.mark.parametrize("filters", MIXES, ids=str)
def test_honest_draws_are_not_accused_and_hotter_ones_are(filters: Filters) -> None:
    def honest(p: Floats, rng: np.random.Generator) -> int:
        return int(rng.choice(len(p), p=in_order(p, filters, "kpm")))

    def hot(p: Floats, rng: np.random.Generator) -> int:
        warmer = Filters(2 * filters.temperature, filters.top_k, filters.top_p, filters.min_p)
        return int(rng.choice(len(p), p=in_order(p, warmer, "kpm")))

    clean = emit(4000, np.random.default_rng(1), draw=honest, noise=0.02)
    broken = emit(4000, np.random.default_rng(1), draw=hot, noise=0.02)

    p_clean = log_likelihood(shape_any(clean, filters)).p
    p_broken = favourite(shape_any(broken, filters)).p
    assert p_clean is None or p_clean > 1e-3
    assert forbidden(clean, filters, 3.0).sum() == 0
    assert (p_broken is not None and p_broken < 1e-3) or forbidden(broken, filters, 3.0).sum() > 3


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0.3, 2.0), st.integers(0, 60), st.floats(0.3, 1.0), st.sampled_from([0.0, 0.05, 0.3])
)
def test_whatever_is_asked_probabilities_are_a_distribution(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    filters = Filters(temperature, top_k, top_p, min_p)

    atoms = shape_any(emit(200, np.random.default_rng(2)), filters)

    assert atoms.probs.sum(axis=1) == pytest.approx(1)
    assert (atoms.probs >= 0).all()


def test_a_single_filter_gives_what_the_exact_shape_gives() -> None:
    tokens = emit(500, np.random.default_rng(4))
    filters = Filters(temperature=0.6, top_k=8)

    exact, general = shape(tokens, filters), shape_any(tokens, filters)

    assert not combined(filters)
    inside = exact.probs[np.isin(exact.row, general.row)]
    inside = np.where(general.probs[np.isin(general.row, exact.row)] > 0, inside, 0)
    assert len(inside) > 100
    expected = inside / inside.sum(axis=1, keepdims=True)
    assert general.probs[np.isin(general.row, exact.row)] == pytest.approx(expected)
