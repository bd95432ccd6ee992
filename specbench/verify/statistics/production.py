"""The sampled distribution under any mix of temperature, top_k, top_p and min_p: production's own.

Samplers compose filters differently, a kernel's noise moves their edges, and only K ranks are
known. But the tokens that every usual composition keeps, clear of all edges, have the same
proportions under each of them: p^(1/T). So the tests are taken given that the token is one of
these, its *core*. The core depends on the context alone, hence
D = 1{x in core} (g(x) - E[g | core]) is a martingale difference, and nothing need be known of what
lies outside.
"""

from __future__ import annotations

import numpy as np

from specbench.verify.statistics.shaping import (
    NUCLEUS_EDGE,
    RANK_EDGE_NAT,
    Atoms,
    Filters,
    atoms_of,
)
from specbench.verify.statistics.tokens import Bools, Floats, ScoredTokens

_LUMPED = 20


def combined(filters: Filters) -> bool:
    """Whether `shaping.shape` does not cover these filters by itself."""
    if filters.min_p or filters.top_k > _LUMPED:
        return True
    if filters.top_k:
        return filters.top_p < 1.0
    return filters.temperature != 1.0


def core(tokens: ScoredTokens, filters: Filters) -> Bools:
    """Return (n, K): ranks that every composition keeps, by more than numerical noise."""
    probs = _tempered(tokens, filters)
    ranks = probs.shape[1]
    known = ~np.isnan(tokens.top_logp)
    inside, kept = known.copy(), np.ones_like(known)
    if filters.top_k:
        kept = np.arange(ranks) < filters.top_k
        inside &= kept & _clear_of_rank(tokens, filters.top_k)
    if filters.min_p:
        with np.errstate(divide="ignore"):
            above = np.log(probs / probs[:, :1]) - np.log(filters.min_p)
        inside &= above >= RANK_EDGE_NAT / filters.temperature
        kept = kept & (above >= 0)
    if filters.top_p < 1.0:
        # In sequence, the nucleus is decided on what the others left: the smallest one counts.
        left = np.where(kept, probs, 0.0)
        share = left / np.maximum(left.sum(axis=1, keepdims=True), 1e-300)
        before = np.cumsum(share, axis=1) - share
        inside &= before <= filters.top_p - NUCLEUS_EDGE
    # The favourite is kept by every filter.
    inside[:, 0] = True
    return inside


def shape_any(tokens: ScoredTokens, filters: Filters) -> Atoms:
    """Return the distribution within the core, for each token that lies in one of two or more."""
    probs, inside = _tempered(tokens, filters), core(tokens, filters)
    weights = np.hstack([np.where(inside, probs, 0.0), np.zeros((len(tokens), 1))])
    chosen = tokens.rank
    hit = weights[np.arange(len(tokens)), chosen] > 0.0
    return atoms_of(tokens, weights, chosen, hit & (inside.sum(axis=1) > 1))


def forbidden(tokens: ScoredTokens, filters: Filters, margin_nat: float) -> Bools:
    """Rows whose token every composition forbids, by more than noise explains.

    top_k and min_p: by `margin_nat`. top_p: the clearly better tokens (0.2 nat) hold more than
    top_p + 0.05 of the known ranks, which is a lower limit only if these hold nearly everything:
    rows with more than 0.01 beyond them are not judged.
    """
    bad = np.zeros(len(tokens), bool)
    if 0 < filters.top_k <= tokens.top_ids.shape[1]:
        edge = tokens.top_logp[:, filters.top_k - 1]
        bad |= (edge - tokens.logp > margin_nat) & ~np.isnan(edge)
    if filters.min_p > 0:
        bad |= tokens.regret / filters.temperature + np.log(filters.min_p) > margin_nat
    if filters.top_p < 1.0:
        better = tokens.top_logp > tokens.logp[:, None] + 0.2
        mass = np.where(better, _tempered(tokens, filters), 0.0).sum(axis=1)
        beyond = 1.0 - np.exp(np.nan_to_num(tokens.top_logp, nan=-np.inf)).sum(axis=1)
        bad |= (mass > filters.top_p + 0.05) & (beyond < 0.01) & (filters.temperature <= 1.0)
    return bad


def _tempered(tokens: ScoredTokens, filters: Filters) -> Floats:
    """Return the probabilities of the known ranks at the temperature, as shares of these alone."""
    logp = np.where(np.isnan(tokens.top_logp), -np.inf, tokens.top_logp)
    head = np.exp((logp - logp[:, :1]) / filters.temperature)
    shares: Floats = head / head.sum(axis=1, keepdims=True)
    return shares


def _clear_of_rank(tokens: ScoredTokens, top_k: int) -> Bools:
    """Ranks that lie clearly above the first one that top_k drops."""
    if top_k >= tokens.top_ids.shape[1]:
        return np.ones(tokens.top_logp.shape, bool)
    first_out = tokens.top_logp[:, top_k : top_k + 1]
    clear: Bools = (tokens.top_logp - first_out >= RANK_EDGE_NAT) | np.isnan(first_out)
    return clear
