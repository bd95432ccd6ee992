"""From a target's top-K log-probabilities at temperature 1 to the distribution that was sampled.

Only the K likeliest tokens are known by name, so the alphabet is lumped: one atom a rank and one
for everything else (the tail). A test that is exact on the full alphabet is exact on a coarser one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbench.verify.statistics.tokens import Bools, Floats, Ints, ScoredTokens

# Kernel noise moves the edge of a filter; rows this close to it say nothing about losslessness.
RANK_EDGE_NAT = 0.3
NUCLEUS_EDGE = 0.03


@dataclass(frozen=True, slots=True)
class Filters:
    """Sampling parameters; the battery's own use at most one of top_k, top_p, min_p.

    Samplers compose several of them differently: `production.shape_any` handles those.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True, slots=True)
class Atoms:
    """`probs` (n, K+1) sums to 1 in each row, the last column is the tail; `chosen` indexes it.

    `row` maps back to the rows of the table that was shaped: rows whose distribution cannot be
    known from K ranks, or whose token was impossible, are left out (see `shape`).
    """

    probs: Floats
    chosen: Ints
    row: Ints
    request: Ints
    position: Ints

    def __len__(self) -> int:
        return len(self.chosen)


def atoms_of(tokens: ScoredTokens, probs: Floats, chosen: Ints, keep: Bools) -> Atoms:
    """Return the rows to keep, each divided by its sum; `probs` (n, K+1) are weights."""
    row = np.flatnonzero(keep)
    return Atoms(
        probs=probs[row] / probs[row].sum(axis=1, keepdims=True),
        chosen=chosen[row],
        row=row,
        request=tokens.request[row],
        position=tokens.position[row],
    )


def shape(tokens: ScoredTokens, filters: Filters) -> Atoms:
    """Return the lumped conditional distribution at each token under `filters`.

    Exact for temperature 1 (any filter that ends within the K ranks) and for any temperature with
    top_k <= K. Left out, all by conditions on the context alone: rows whose nucleus reaches beyond
    K ranks or ends within NUCLEUS_EDGE of the threshold. Left out as well: impossible tokens,
    which `support_violations` judges.

    Raises:
        ValueError: another temperature without a top_k <= K cannot be renormalised from K ranks.

    """
    ranks = tokens.top_ids.shape[1]
    if filters.temperature != 1.0 and not 0 < filters.top_k <= ranks:
        raise ValueError(f"temperature {filters.temperature} needs a top_k of at most {ranks}")
    logp = np.where(np.isnan(tokens.top_logp), -np.inf, tokens.top_logp)
    probs = np.zeros((len(tokens), ranks + 1))
    keep = np.ones(len(tokens), bool)
    if filters.top_k:
        head = logp[:, : filters.top_k] / filters.temperature
        weights = np.exp(head - head[:, :1])
        probs[:, : filters.top_k] = weights / weights.sum(axis=1, keepdims=True)
    else:
        probs[:, :-1] = np.exp(logp)
        probs[:, -1] = np.clip(1.0 - probs[:, :-1].sum(axis=1), 0.0, 1.0)
    if filters.top_p < 1.0:
        probs, keep = _nucleus(probs, filters.top_p)
    chosen = _chosen_atom(tokens, filters)
    keep &= probs[np.arange(len(tokens)), chosen] > 0.0
    return atoms_of(tokens, probs, chosen, keep)


def support_violations(tokens: ScoredTokens, filters: Filters, margin_nat: float) -> Bools:
    """Rows whose token the filters forbid by more than numerical noise explains.

    top_k: the token lies more than `margin_nat` below rank k. top_p: the tokens that are clearly
    better (by 0.2 nat) hold more than top_p + 0.05 of the mass; a margin to the last nucleus token
    would fire on every near tie at the edge.
    """
    bad = np.zeros(len(tokens), bool)
    if filters.top_k:
        edge = tokens.top_logp[:, min(filters.top_k, tokens.top_ids.shape[1]) - 1]
        bad |= (edge - tokens.logp > margin_nat) & ~np.isnan(edge)
    if filters.top_p < 1.0:
        bad |= better_mass(tokens) > filters.top_p + 0.05
    return bad


def better_mass(tokens: ScoredTokens) -> Floats:
    """Return the probability of the tokens that are clearly likelier (0.2 nat) than each token."""
    better = tokens.top_logp > tokens.logp[:, None] + 0.2
    mass = np.where(better, np.exp(np.nan_to_num(tokens.top_logp, nan=-np.inf)), 0.0)
    total: Floats = mass.sum(axis=1)
    return total


def _nucleus(probs: Floats, top_p: float) -> tuple[Floats, Bools]:
    """Keep ranks until the mass before them exceeds top_p; say which rows are known and clear."""
    mass = np.cumsum(probs[:, :-1], axis=1)
    before = mass - probs[:, :-1]
    inside = before <= top_p
    clear = (np.abs(mass - top_p) >= NUCLEUS_EDGE).all(axis=1) & (mass[:, -1] > top_p)
    cut = probs.copy()
    cut[:, :-1] *= inside
    cut[:, -1] = 0.0
    return cut, clear


def _chosen_atom(tokens: ScoredTokens, filters: Filters) -> Ints:
    """Return the atom of each token; one just below rank k is a near tie and counted there."""
    chosen = tokens.rank
    if not filters.top_k:
        return chosen
    last = filters.top_k - 1
    near = tokens.top_logp[:, last] - tokens.logp <= RANK_EDGE_NAT
    return np.where((chosen > last) & near, last, chosen)
