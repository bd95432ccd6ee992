"""Emitted tokens beside the target's conditional distribution at each of them, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """n emitted tokens; row i holds what was emitted and what the target's prefill says there.

    `logp` is the natural log-probability of `token` at temperature 1, `top_ids` (n, K) and
    `top_logp` (n, K) the K likeliest tokens, likeliest first, from the same prefill; NaN and -1
    pad rows with fewer. `output_logp` is what the server reported while it generated (NaN where
    it did not). `request` numbers requests, `position` counts from 0 at the first output token,
    `round_index` is the place within its verify round (-1 unknown, and for the prefill's token).
    """

    request: Ints
    position: Ints
    token: Ints
    logp: Floats
    top_ids: Ints
    top_logp: Floats
    output_logp: Floats
    round_index: Ints

    def __len__(self) -> int:
        return len(self.token)

    def where(self, mask: Bools) -> ScoredTokens:
        """Return the rows in which `mask` is true."""
        return ScoredTokens(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})

    def verified(self) -> ScoredTokens:
        """Without first tokens: a request's first token comes from prefill, never from verify."""
        return self.where(self.position > 0)

    @property
    def regret(self) -> Floats:
        """How far each token lies below the target's favourite, in nat; never negative."""
        return np.maximum(self.top_logp[:, 0] - self.logp, 0.0)

    @property
    def rank(self) -> Ints:
        """0 for the target's favourite; K for a token that is not among the K likeliest."""
        hit = self.top_ids == self.token[:, None]
        found: Ints = np.where(hit.any(axis=1), hit.argmax(axis=1), self.top_ids.shape[1])
        return found


def join(parts: Sequence[ScoredTokens]) -> ScoredTokens:
    """Return one table out of several; requests are renumbered so that none coincide."""
    offset, moved = 0, []
    for part in parts:
        moved.append(replace(part, request=part.request + offset))
        offset += int(part.request.max()) + 1 if len(part) else 0
    return concatenate(moved)


def concatenate(parts: Sequence[ScoredTokens]) -> ScoredTokens:
    """Return one table out of several whose requests are numbered apart already."""
    if not parts:
        return empty(1)
    width = max(part.top_ids.shape[1] for part in parts)
    wide = [
        replace(
            part,
            top_ids=_widen(part.top_ids, width, -1),
            top_logp=_widen(part.top_logp, width, np.nan),
        )
        for part in parts
    ]
    names = [f.name for f in fields(ScoredTokens)]
    return ScoredTokens(**{n: np.concatenate([getattr(p, n) for p in wide]) for n in names})


def empty(width: int) -> ScoredTokens:
    """No tokens, with `width` ranks."""
    ints, floats = np.zeros(0, np.int64), np.zeros(0)
    return ScoredTokens(
        request=ints,
        position=ints,
        token=ints,
        logp=floats,
        top_ids=np.zeros((0, width), np.int64),
        top_logp=np.zeros((0, width)),
        output_logp=floats,
        round_index=ints,
    )


def _widen(rows: NDArray[Any], width: int, fill: float) -> NDArray[Any]:
    missing = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=fill) if missing else rows
