"""Ratios of sums clustered by prompt: throughput, acceptance, time a step."""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrik

from specbench.stats.effect import CONFIDENCE, Effect

Array = NDArray[np.float64]


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's numerator and denominator summed by prompt; both arms in the same prompt order."""

    numerator: Array
    denominator: Array

    @property
    def log(self) -> float:
        """Log of the pooled ratio."""
        return math.log(float(self.numerator.sum()) / float(self.denominator.sum()))

    def influence(self) -> Array:
        """Each prompt's first-order share in the log ratio (delta method, Cochran 1977, 6.4)."""
        share: Array = self.numerator / self.numerator.mean()
        influence: Array = share - self.denominator / self.denominator.mean()
        return influence


def log_ratio(sums: Sums) -> Effect:
    """Return the log of one arm's pooled ratio; prompts are the independent units."""
    return _from_influence(sums.log, sums.influence())


def _from_influence(value: float, influence: Array) -> Effect:
    n = len(influence)
    if n < 2:
        return Effect(value=value, se=math.nan, df=0)
    return Effect(value=value, se=float(influence.std(ddof=1)) / math.sqrt(n), df=n - 1)


class MedianRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Median of per-prompt ratios, its distribution-free interval and the sign test's p."""

    ratio: float
    low: float
    high: float
    p_value: float
    n: int


def median_ratio(log_ratios: Array, confidence: float = CONFIDENCE) -> MedianRatio:
    """Median per-prompt ratio with the interval that inverts the sign test (Conover 1999, 3.4).

    With too few prompts for the confidence asked, the interval is unbounded.
    """
    ordered = np.sort(log_ratios)
    n = len(ordered)
    if n == 0:
        return MedianRatio(ratio=math.nan, low=0.0, high=math.inf, p_value=1.0, n=0)
    rank = _sign_rank(n, (1 - confidence) / 2)
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (-math.inf, math.inf)
    nonzero = ordered[ordered != 0]
    fewer = min(int((nonzero > 0).sum()), int((nonzero < 0).sum()))
    p_value = min(1.0, 2 * float(bdtr(fewer, len(nonzero), 0.5))) if len(nonzero) else 1.0
    return MedianRatio(
        ratio=float(np.exp(np.median(ordered))),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        p_value=p_value,
        n=n,
    )


def _sign_rank(n: int, tail: float) -> int:
    """Largest rank k with P(Binomial(n, 1/2) < k) <= tail; 0 where there is none."""
    rank = max(0, math.floor(float(bdtrik(tail, n, 0.5))) + 1) if tail > 0.5**n else 0
    while rank > 0 and float(bdtr(rank - 1, n, 0.5)) > tail:
        rank -= 1
    return rank
