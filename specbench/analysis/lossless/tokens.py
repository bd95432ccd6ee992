"""Emitted tokens beside the target's conditional distribution at each of them, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

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
    """One table out of several; requests are renumbered so that none coincide."""
    if not parts:
        return empty(1)
    width = max(part.top_ids.shape[1] for part in parts)
    columns: dict[str, list[NDArray[np.generic]]] = {f.name: [] for f in fields(ScoredTokens)}
    offset = 0
    for part in parts:
        for name, column in columns.items():
            column.append(getattr(part, name))
        columns["request"][-1] = part.request + offset
        columns["top_ids"][-1] = _widen(part.top_ids, width, -1)
        columns["top_logp"][-1] = _widen(part.top_logp, width, np.nan)
        offset += int(part.request.max()) + 1 if len(part) else 0
    return ScoredTokens(**{name: np.concatenate(column) for name, column in columns.items()})


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


def _widen(rows: NDArray[np.generic], width: int, fill: float) -> NDArray[np.generic]:
    missing = width - rows.shape[1]
    if missing == 0:
        return rows
    return np.pad(rows, ((0, 0), (0, missing)), constant_values=fill)
