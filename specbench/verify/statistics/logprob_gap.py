"""The regret audit: at temperature 0 every token must be the target's favourite, or nearly so.

The regret of a token is how far it lies below the target's favourite at exactly its context, by
the target's own prefill. Numerical noise leaves the gap of a near tie (measured: at most 0.4 nat
at logit noise 0.06); a fault of context, index or commit leaves 2 to 30 nat. Token equality with
another run cannot tell these apart, so it is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.stats.counts import poisson_excess_p, poisson_lower, poisson_upper
from specbench.verify.statistics.tokens import Floats, Ints, ScoredTokens


@dataclass(frozen=True, slots=True)
class Margins:
    """Regret in nat from which a token is doubtful (`soft`) or a witness (`hard`)."""

    soft: float = 1.0
    hard: float = 3.0


def margins_from_control(regrets: Floats) -> Margins:
    """Margins from a plain decoder's own regrets (decode against prefill), heavy tails included."""
    if len(regrets) < 200:
        return Margins()
    worst, high = float(regrets.max()), float(np.quantile(regrets, 0.999))
    soft = max(0.3, 3 * high)
    return Margins(soft=soft, hard=max(3.0, 2 * worst, soft))


@dataclass(frozen=True, slots=True)
class RegretAudit:
    """`soft` and `hard` are row numbers of the audited table; quantiles are in nat."""

    n: int
    soft: Ints
    hard: Ints
    q99: float
    worst: float

    def garbage_upper_pct(self, level: float) -> float:
        """Upper limit of the share of tokens beyond the hard margin, in percent."""
        return 100 * poisson_upper(len(self.hard), level) / self.n if self.n else 100.0

    def soft_upper_pct(self, level: float) -> float:
        """Upper limit of the share of tokens beyond the soft margin, in percent."""
        return 100 * poisson_upper(len(self.soft), level) / self.n if self.n else 100.0

    def soft_lower_pct(self, level: float) -> float:
        """Lower limit of the share of tokens beyond the soft margin, in percent."""
        return 100 * poisson_lower(len(self.soft), level) / self.n if self.n else 0.0


def audit(tokens: ScoredTokens, margins: Margins) -> RegretAudit:
    """Audit greedy output; pass only tokens that verification emitted (`verified()`)."""
    regret = tokens.regret
    return RegretAudit(
        n=len(tokens),
        soft=np.flatnonzero((regret > margins.soft) & (regret <= margins.hard)),
        hard=np.flatnonzero(regret > margins.hard),
        q99=float(np.quantile(regret, 0.99)) if len(regret) else 0.0,
        worst=float(regret.max()) if len(regret) else 0.0,
    )


def excess_over_control(test: Floats, control: Floats, soft: float) -> float:
    """p-value that doubtful tokens are more frequent than in the control (exact, one-sided)."""
    return poisson_excess_p(
        int((test > soft).sum()), len(test), int((control > soft).sum()), len(control)
    )


def penalised_regret(
    tokens: ScoredTokens, penalty: float, counts_from: Ints
) -> tuple[Floats, Floats]:
    """Regret under a frequency penalty applied here, from exact counts and from stale counts.

    `counts_from[i]` is the output position up to which the server may have counted when it chose
    token i (the start of its verify round). Stale counts are a documented relaxation of SGLang:
    one penalty vector is repeated over all rows of a verify block.
    """
    exact, stale = np.zeros(len(tokens)), np.zeros(len(tokens))
    for request in np.unique(tokens.request):
        rows = np.flatnonzero(tokens.request == request)
        emitted = tokens.token[rows]
        for place, row in enumerate(rows.tolist()):
            exact[row] = _penalised(tokens, row, penalty, emitted[:place])
            start = int(counts_from[row])
            stale[row] = min(
                _penalised(tokens, row, penalty, emitted[:k]) for k in range(start, place + 1)
            )
    return exact, stale


def windowed_regret(
    tokens: ScoredTokens, penalty: float, prompts: Sequence[Sequence[int]], window: int
) -> Floats:
    """Regret under a frequency penalty that counts the last `window` tokens, prompt included.

    llama.cpp counts so. `prompts[r]` is the prompt of request r.
    """
    out = np.zeros(len(tokens))
    for request in np.unique(tokens.request):
        rows = np.flatnonzero(tokens.request == request)
        prompt = np.asarray(prompts[int(request)], np.int64)
        emitted = tokens.token[rows]
        for place, row in enumerate(rows.tolist()):
            seen = np.concatenate([prompt, emitted[:place]])[-window:]
            out[row] = _penalised(tokens, row, penalty, seen)
    return out


def last_tokens_regret(tokens: ScoredTokens, penalty: float) -> Floats:
    """Regret under a frequency penalty that counts only the last token of each finished round.

    SGLang (0.5.23) does so under speculation: before a verify step it adds the last output token to
    the counts, and none of the accepted drafts before it. The newest count may be one round late.
    Infinite where the stream does not show the rounds.
    """
    out = np.full(len(tokens), np.inf)
    for request in np.unique(tokens.request):
        rows = np.flatnonzero(tokens.request == request)
        emitted, place = tokens.token[rows], tokens.position[rows]
        ends: list[int] = []
        for k, row in enumerate(rows.tolist()):
            if tokens.round_index[row] == 0 and k:
                ends.append(k - 1)
            if place[k] > 0 and tokens.round_index[row] >= 0:
                counted = (emitted[ends], emitted[ends[:-1]])
                out[row] = min(_penalised(tokens, row, penalty, seen) for seen in counted)
    return out


def _penalised(tokens: ScoredTokens, row: int, penalty: float, seen: Ints) -> float:
    counts = (tokens.top_ids[row][:, None] == seen).sum(axis=1)
    best = float(np.nanmax(tokens.top_logp[row] - penalty * counts))
    own = float(tokens.logp[row]) - penalty * int((seen == tokens.token[row]).sum())
    return max(best - own, 0.0)
