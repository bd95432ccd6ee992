"""A second opinion that knows of slow launches: the contaminated-normal posterior of an effect.

Where requests are noisy an outlying launch hides in their noise and the t test does not widen.
Here each pair of launches may be off, the launch noise is on a grid, and the effect is flat
(Tukey 1960; Lange, Little and Taylor 1989).
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from specbench.stats.effect import HALVINGS
from specbench.stats.launches import LaunchPrior

Array = NDArray[np.float64]

GRID = np.exp(np.linspace(math.log(0.001), math.log(0.2), 24))
"""Standard deviations of a pair of launches that are weighed: 0.1 % to 20 %."""

MOST_OFF = 3
"""So many pairs of launches are thought to be off at once; more would be the launch noise."""


class Posterior:
    """The posterior of an effect from the log ratios of pairs of launches."""

    def __init__(self, by_launch: Array, requests: float, prior: LaunchPrior) -> None:
        """Weigh what was seen; `requests` is the variance that requests give one pair."""
        if prior.outlying is None:
            raise ValueError("a metric without outlying launches needs no second opinion")
        off = _patterns(len(by_launch))
        variance = GRID[:, None, None] ** 2 + requests + off[None, :, :] * prior.outlying.sd**2
        precision = 1.0 / variance
        total = precision.sum(axis=-1)
        means = (precision * by_launch).sum(axis=-1) / total
        misfit = (precision * (by_launch - means[..., None]) ** 2).sum(axis=-1)
        likelihood = 0.5 * (np.log(precision).sum(axis=-1) - np.log(total) - misfit)
        share = prior.outlying.share
        counts = off.sum(axis=-1)
        odds = counts * math.log(share) + (len(by_launch) - counts) * math.log1p(-share)
        logs = likelihood + odds + _prior_of_sd(prior)[:, None]
        weights = np.exp(logs - logs.max())
        self._weights = (weights / weights.sum()).ravel()
        self._means = means.ravel()
        self._variances = (1.0 / total).ravel()
        self._off = np.broadcast_to(off, (len(GRID), *off.shape)).reshape(-1, len(by_launch))

    def off(self) -> Array:
        """Probability of each pair of launches to be off."""
        chance: Array = self._weights @ self._off
        return chance

    def half_width(self, around: float, confidence: float, more: float = 0.0) -> float:
        """Half-width of an interval around `around` that holds the posterior's interval.

        `more` is a variance that all pairs share and their scatter cannot show.
        """
        sds = np.sqrt(self._variances + more)
        wanted = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
        low = np.full(2, float((self._means - 10 * sds).min()))
        high = np.full(2, float((self._means + 10 * sds).max()))
        for _ in range(HALVINGS // 2):
            middle = (low + high) / 2
            below = self._weights @ ndtr((middle - self._means[:, None]) / sds[:, None])
            low, high = (
                np.where(below < wanted, middle, low),
                np.where(below < wanted, high, middle),
            )
        ends = (low + high) / 2
        return float(np.abs(ends - around).max())


def _patterns(pairs: int) -> Array:
    most = min(pairs, MOST_OFF)
    rows = [
        [float(i in chosen) for i in range(pairs)]
        for count in range(most + 1)
        for chosen in itertools.combinations(range(pairs), count)
    ]
    return np.array(rows)


def _prior_of_sd(prior: LaunchPrior) -> Array:
    """Log weight of each standard deviation of the grid: scaled inverse chi-square, by log sd."""
    squares = prior.df * 2 * prior.sd**2 / GRID**2
    weights: Array = prior.df * -np.log(GRID) - squares / 2
    return weights
