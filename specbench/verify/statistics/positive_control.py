"""The battery's own positive control: recorded data is tampered with and must be rejected.

A test that never rejected anything proves nothing. Before a verdict is given, the recorded tokens
are replayed with a known fault injected, and the same statistics must find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from specbench.verify.statistics import exchange
from specbench.verify.statistics.eprocess import e_process
from specbench.verify.statistics.exchange import Stratum
from specbench.verify.statistics.logprob_gap import Margins, audit
from specbench.verify.statistics.scores import favourite, log_likelihood, tail
from specbench.verify.statistics.shaping import Filters, shape
from specbench.verify.statistics.tokens import Floats, Ints, ScoredTokens

REJECT = 1e-3
# Below this sum of weights the draws are too few for a control to mean anything.
LEAST_WEIGHT = 300.0


def blind_spots(
    greedy: ScoredTokens,
    sampled: ScoredTokens,
    vocab: int,
    seed: int,
    margins: Margins,
    garbage: float = 0.01,
) -> list[str]:
    """Which tampering the statistics fail to see on this very data; empty is as it must be.

    `greedy` and `sampled` (temperature 1, no filter) hold verified tokens; `garbage` is the share
    of uniform tokens in sampled output that must be seen.
    """
    rng = np.random.default_rng(seed)
    failures = []
    if len(greedy) >= 500 and not _sees_garbage(greedy, rng, margins):
        failures.append("the regret audit misses 1 % uniform tokens in greedy output")
    if len(sampled) >= 1000:
        if not _sees_greedy(sampled, rng):
            failures.append("the score tests miss 20 % greedy tokens in sampled output")
        if not _sees_heat(sampled, rng):
            failures.append("the score tests miss a temperature that is 40 % off")
        if not _sees_uniform(sampled, vocab, rng, garbage):
            failures.append(
                f"neither tail nor e-process see {100 * garbage:g} % uniform tokens in sampled "
                "output"
            )
    return failures


def blind_spots_of_draws(contexts: Sequence[Stratum], seed: int) -> list[str]:
    """Return what the tests of draws fail to see on this very data.

    Half of the verified draws are replaced by the most frequent token, then all of them by draws
    at half the temperature.
    """
    if sum(one.weight for one in contexts) < LEAST_WEIGHT:
        return []
    rng = np.random.default_rng(seed)
    out = []
    p = exchange.favourite([_greedy_half(one, rng) for one in contexts], 0.0).p
    if p is None or p >= REJECT:
        out.append("the tests of draws miss 50 % greedy tokens")
    p = exchange.tilt([_colder(one, rng) for one in contexts], 0.0).p
    if p is None or p >= REJECT:
        out.append("the tests of draws miss a halved temperature")
    return out


def _greedy_half(one: Stratum, rng: np.random.Generator) -> Stratum:
    kept = rng.binomial(one.verified.astype(int), 0.5).astype(float)
    kept[0] += one.n_verified - kept.sum()
    return _with_verified(one, kept)


def _colder(one: Stratum, rng: np.random.Generator) -> Stratum:
    weights = (one.pooled / one.n) ** 2
    drawn = rng.multinomial(int(one.n_verified), weights / weights.sum()).astype(float)
    return _with_verified(one, drawn)


def _with_verified(one: Stratum, verified: Floats) -> Stratum:
    pooled = one.pooled - one.verified + verified
    seen = pooled > 0
    tokens = tuple(t for t, kept in zip(one.tokens, seen.tolist(), strict=True) if kept)
    return Stratum(tokens, verified[seen], pooled[seen])


def with_uniform_tokens(
    tokens: ScoredTokens, share: float, rng: np.random.Generator
) -> ScoredTokens:
    """Replace a share of the tokens by ones beyond the K likeliest.

    Their log-probability is drawn below the last rank's: what a uniform token of a large
    vocabulary has.
    """
    hit = rng.random(len(tokens)) < share
    floor = np.nanmin(tokens.top_logp, axis=1)
    logp = np.where(hit, np.minimum(floor, -9.0) - rng.exponential(3.0, len(tokens)), tokens.logp)
    return replace(tokens, token=np.where(hit, -2, tokens.token), logp=logp)


def with_greedy_tokens(
    tokens: ScoredTokens, share: float, rng: np.random.Generator
) -> ScoredTokens:
    """Replace a share of the tokens by the target's favourite at the same context."""
    hit = rng.random(len(tokens)) < share
    return replace(
        tokens,
        token=np.where(hit, tokens.top_ids[:, 0], tokens.token),
        logp=np.where(hit, tokens.top_logp[:, 0], tokens.logp),
    )


def resampled(tokens: ScoredTokens, temperature: float, rng: np.random.Generator) -> ScoredTokens:
    """Draw every token anew at `temperature` from the ranks (and the tail) of its own context."""
    probs = np.exp(np.where(np.isnan(tokens.top_logp), -np.inf, tokens.top_logp))
    probs = np.hstack([probs, np.clip(1 - probs.sum(axis=1, keepdims=True), 0, 1)])
    weights = np.where(probs > 0, probs, 0.0) ** (1 / temperature)
    edges = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    atom: Ints = (rng.random((len(tokens), 1)) > edges).sum(axis=1)
    atom = np.minimum(atom, probs.shape[1] - 1)
    in_tail = atom == tokens.top_ids.shape[1]
    rank = np.where(in_tail, 0, atom)
    rows = np.arange(len(tokens))
    tail_logp = np.nanmin(tokens.top_logp, axis=1) - 1.0
    return replace(
        tokens,
        token=np.where(in_tail, -2, tokens.top_ids[rows, rank]),
        logp=np.where(in_tail, tail_logp, tokens.top_logp[rows, rank]),
    )


def _sees_garbage(greedy: ScoredTokens, rng: np.random.Generator, margins: Margins) -> bool:
    return len(audit(with_uniform_tokens(greedy, 0.01, rng), margins).hard) > 0


def _sees_greedy(sampled: ScoredTokens, rng: np.random.Generator) -> bool:
    p = favourite(shape(with_greedy_tokens(sampled, 0.2, rng), Filters())).p
    return p is not None and p < REJECT


def _sees_heat(sampled: ScoredTokens, rng: np.random.Generator) -> bool:
    p = log_likelihood(shape(resampled(sampled, 1.4, rng), Filters())).p
    return p is not None and p < REJECT


def _sees_uniform(
    sampled: ScoredTokens, vocab: int, rng: np.random.Generator, share: float
) -> bool:
    garbled = with_uniform_tokens(sampled, share, rng)
    atoms = shape(garbled, Filters())
    # Where the server does not say its vocabulary, the bet on uniform tokens is a weak one.
    p = tail(atoms).p
    bet = e_process(atoms, garbled.logp[atoms.row], vocab, REJECT)
    return bet.crossed_at is not None or (p is not None and p < REJECT)
