"""Two samples at the same contexts: draws of verification, exchangeable with plain ones or not.

At a context let N tokens come from verification and M from one-token requests. If the server is
lossless the N + M tokens are exchangeable given the pooled multiset. Every test here is stratified
over contexts and uses the hypergeometric moments, so no probability need be known and no sample is
too small: with pooled counts t, verify counts a and h = NM/(N+M), for any symmetric score g
S = sum a (g - mean g) has mean 0 and variance h sum t (g - mean g)^2 / (N + M - 1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from specbench.verify.statistics.sizes import shift_size
from specbench.verify.statistics.tokens import Floats

# Cells with fewer pooled draws are lumped: their chi-squared limit is not trusted.
LEAST_CELL = 8
# Below this variance the normal limit is not trusted and no p-value is given.
LEAST_VARIANCE = 5.0
RARE_SHARE = 0.02
PERMUTATIONS = 200


@dataclass(frozen=True, slots=True)
class Stratum:
    """One context: `verified` and `pooled` draws of each token, as counts in one order.

    `tokens` are their ids, the most frequent of the pool first.
    """

    tokens: tuple[int, ...]
    verified: Floats
    pooled: Floats

    @property
    def n_verified(self) -> float:
        """How many draws came from verification."""
        return float(self.verified.sum())

    @property
    def n(self) -> float:
        """How many draws there are together."""
        return float(self.pooled.sum())

    @property
    def weight(self) -> float:
        """The harmonic size h = NM/(N+M)."""
        return self.n_verified * (self.n - self.n_verified) / max(self.n, 1.0)


@dataclass(frozen=True, slots=True)
class Contrast:
    """The sum S of a score with its variance V, and the information I that turns S into a size."""

    difference: float
    variance: float
    information: float

    @property
    def p(self) -> float | None:
        """Two-sided p-value; None where the variance is too small for the normal limit."""
        if self.variance < LEAST_VARIANCE:
            return None
        return float(2 * stats.norm.sf(abs(self.difference) / math.sqrt(self.variance)))

    def size(self, level: float) -> tuple[float, float]:
        """Return S/I with the half-width of its interval; NaN and infinity without information."""
        if self.information <= 0:
            return math.nan, math.inf
        width = float(stats.norm.isf((1 - level) / 2)) * math.sqrt(self.variance)
        return self.difference / self.information, width / self.information


@dataclass(frozen=True, slots=True)
class Homogeneity:
    """Summed chi-squared against its noncentral null; `excess` is Q - df over the sum of h."""

    statistic: float
    df: int
    p: float | None
    excess: float

    @property
    def drift_nat(self) -> float:
        """The rms difference of the two sides' logits that would explain the excess."""
        return math.sqrt(max(self.excess, 0.0))


def stratum(verified: Sequence[int], plain: Sequence[int]) -> Stratum | None:
    """Count two samples at one context; None where either is empty."""
    if not verified or not plain:
        return None
    left, pool = Counter(verified), Counter(verified) + Counter(plain)
    tokens = tuple(token for token, _ in sorted(pool.items(), key=lambda kv: (-kv[1], kv[0])))
    return Stratum(
        tokens,
        np.array([left[t] for t in tokens], float),
        np.array([pool[t] for t in tokens], float),
    )


def strata(verified: Sequence[Sequence[int]], plain: Sequence[Sequence[int]]) -> list[Stratum]:
    """Count both samples at every context, in order; contexts with an empty side are left out."""
    found = (stratum(a, b) for a, b in zip(verified, plain, strict=True))
    return [one for one in found if one is not None]


def lumped(one: Stratum, kept: int) -> Stratum:
    """Return the stratum with everything beyond the `kept` most frequent tokens in one cell.

    The edge of a top_k lies inside the lump: a swap there is invisible, an ignored top_k is not.
    """
    if len(one.tokens) <= kept + 1:
        return one
    return Stratum(
        (*one.tokens[:kept], -1),
        np.append(one.verified[:kept], one.verified[kept:].sum()),
        np.append(one.pooled[:kept], one.pooled[kept:].sum()),
    )


def tilt(contexts: Sequence[Stratum], noise_nat: float) -> Contrast:
    """G = log of the pooled share: S/I estimates beta - 1 where verification draws from p^beta."""
    return _linear(contexts, lambda one: np.log(one.pooled / one.n), noise_nat, _variance_of)


def favourite(contexts: Sequence[Stratum], noise_nat: float) -> Contrast:
    """G = 1{the pool's most frequent token}: S/I is the share that was taken greedily."""
    return _linear(contexts, _first, noise_nat, _room)


def greedy_share(
    contexts: Sequence[Stratum], noise_nat: float, level: float
) -> tuple[float, float]:
    """Return the share of verified draws that were taken greedily, with its half-width.

    The pool holds the greedy draws as well, so its favourite leaves less room than plain draws do:
    with w of the pool verified, S/I = e / (1 - w e) for a greedy share e.
    """
    value, width = favourite(contexts, noise_nat).size(level)
    n = sum(one.n for one in contexts)
    if not n or not math.isfinite(value):
        return value, width
    scale = max(1.0 + value * sum(one.n_verified for one in contexts) / n, 0.5)
    return value / scale, width / scale**2


def rare(contexts: Sequence[Stratum], noise_nat: float) -> Contrast:
    """G = 1{pooled share below 2 %}: tokens that hardly ever come."""
    return _linear(
        contexts,
        lambda one: (one.pooled / one.n < RARE_SHARE).astype(float),
        noise_nat,
        _variance_of,
    )


def homogeneity(contexts: Sequence[Stratum], noise_nat: float) -> Homogeneity:
    """Pearson's homogeneity a context, summed; the only test that sees coins and residuals.

    Numerical noise of `noise_nat` between the two sides is part of the null hypothesis: it is
    frozen with a context and adds up over its draws.
    """
    statistic, df, weight = 0.0, 0, 0.0
    for one in contexts:
        found, free = _pearson(one)
        statistic, df = statistic + found, df + free
        weight += one.weight if free else 0.0
    if not df:
        return Homogeneity(0.0, 0, None, 0.0)
    p = float(stats.ncx2.sf(statistic, df, max(weight * noise_nat**2, 1e-9)))
    return Homogeneity(statistic, df, p, (statistic - df) / max(weight, 1e-9))


def shared_coins(
    calls: Sequence[Sequence[Sequence[int]]], rng: np.random.Generator
) -> tuple[float | None, float, float]:
    """Whether draws inside one call agree more than across calls of the same context and start.

    `calls[c]` are the calls at context c, each a list of draws. The labels of the calls are
    permuted; returns the one-sided p-value (None: too little), the excess of equal pairs and its
    standard deviation.
    """
    excess = variance = 0.0
    for group in calls:
        if len(group) > 1 and sum(map(len, group)) > len(group):
            observed, mean, spread = _permuted(group, rng)
            excess += observed - mean
            variance += spread
    if variance < LEAST_VARIANCE:
        return None, excess, math.sqrt(variance)
    return float(stats.norm.sf(excess / math.sqrt(variance))), excess, math.sqrt(variance)


def farthest(contexts: Sequence[Stratum]) -> int:
    """Return the number of the context in which some token is farthest from its plain share."""
    sizes = [float(np.abs(_gaps(one)).max()) for one in contexts]
    return int(np.argmax(sizes)) if sizes else 0


def largest_shift(contexts: Sequence[Stratum]) -> str:
    """Say which token of which context is farthest from its share among plain draws."""
    if not contexts:
        return ""
    number = farthest(contexts)
    one = contexts[number]
    k = int(np.argmax(np.abs(_gaps(one))))
    share = float(one.verified[k] / one.n_verified)
    due = float((one.pooled[k] - one.verified[k]) / (one.n - one.n_verified))
    return shift_size(number, one.tokens[k], share, due, int(one.n_verified))


def _gaps(one: Stratum) -> Floats:
    """Return how far each token's share is from its plain one, in units of its weight."""
    due = (one.pooled - one.verified) / (one.n - one.n_verified)
    gaps: Floats = (one.verified / one.n_verified - due) * math.sqrt(one.weight)
    return gaps


def _linear(
    contexts: Sequence[Stratum],
    score: Callable[[Stratum], Floats],
    noise_nat: float,
    information: Callable[[Stratum, Floats], float],
) -> Contrast:
    total = variance = known = 0.0
    for one in contexts:
        g = score(one)
        g = g - float((one.pooled * g).sum()) / one.n
        if one.n < 2 or not g.any():
            continue
        share, h = one.pooled / one.n, one.weight
        total += float((one.verified * g).sum())
        variance += h * float((one.pooled * g**2).sum()) / (one.n - 1)
        variance += h**2 * noise_nat**2 * float((share**2 * g**2).sum())
        known += h * information(one, g)
    return Contrast(total, variance, known)


def _first(one: Stratum) -> Floats:
    g = np.zeros(len(one.tokens))
    g[0] = 1.0
    return g


def _variance_of(one: Stratum, centred: Floats) -> float:
    return float((one.pooled * centred**2).sum()) / one.n


def _room(one: Stratum, _: Floats) -> float:
    return 1.0 - float(one.pooled[0]) / one.n


def _pearson(one: Stratum) -> tuple[float, int]:
    big = one.pooled >= LEAST_CELL
    pooled = np.append(one.pooled[big], one.pooled[~big].sum())
    verified = np.append(one.verified[big], one.verified[~big].sum())
    kept = pooled > 0
    pooled, verified = pooled[kept], verified[kept]
    share = one.n_verified / one.n
    if len(pooled) < 2 or not 0 < share < 1:
        return 0.0, 0
    found = float(((verified - share * pooled) ** 2 / (share * (1 - share) * pooled)).sum())
    return found * (one.n - 1) / one.n, len(pooled) - 1


def _permuted(
    group: Sequence[Sequence[int]], rng: np.random.Generator
) -> tuple[float, float, float]:
    sizes = [len(call) for call in group]
    _, codes = np.unique(np.concatenate([np.asarray(call) for call in group]), return_inverse=True)
    shuffled = rng.permuted(np.tile(codes, (PERMUTATIONS, 1)), axis=1)
    rows = np.vstack([codes[None, :], shuffled])
    pairs = np.zeros(len(rows))
    for left, right in zip(np.cumsum([0, *sizes[:-1]]), np.cumsum(sizes), strict=True):
        part = np.sort(rows[:, left:right], axis=1)
        pairs += (part[:, :, None] == part[:, None, :]).sum(axis=(1, 2)) / 2 - (right - left) / 2
    return float(pairs[0]), float(pairs[1:].mean()), float(pairs[1:].var())
