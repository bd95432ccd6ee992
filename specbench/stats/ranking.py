"""Which of several configurations is best: how often each wins when noise is taken out.

Launch noise, launches that are off and the spread between configurations are drawn, weighted by
how well they explain what was seen, and the configurations shrunk towards each other (Efron and
Morris 1975): of several equal ones, the one that looks best mostly had luck.
"""

import math
from collections.abc import Sequence

import numpy as np

from specbench.stats.launches import Array, LaunchPrior

DRAWS = 2000
SPREADS = (0.005, 0.40)
"""Standard deviations between configurations that are thought possible, log-uniform."""

SLOW = 0.1
"""Share of launches that are off, by `outlying.sd` of the prior. Only a single launch hides it: of
several, the one that is off shows in their scatter."""


def win_shares(
    means: Sequence[float], launches: Sequence[int], squares: Sequence[float],
    requests: Sequence[float], prior: LaunchPrior, seed: int = 0,
) -> Array:  # fmt: skip
    """Probability of each to have the highest true value.

    `means` are over `launches` launches of each, `squares` the sums of squares of launches around
    their mean, `requests` the variance that requests give each mean.
    """
    random = np.random.default_rng(seed)
    y, r = np.asarray(means, dtype=float), np.asarray(launches, dtype=float)
    if len(y) == 1:
        return np.ones(1)
    df = prior.df_alone
    sigma = df * prior.sd**2 / random.chisquare(df, DRAWS)
    tau = np.exp(random.uniform(math.log(SPREADS[0]), math.log(SPREADS[1]), DRAWS))
    error = sigma[:, None] / r + np.asarray(requests, dtype=float)
    if prior.outlying is not None:
        off = (random.random((DRAWS, len(y))) < SLOW) & (r == 1)
        error = error + off * prior.outlying.sd**2
    weights = _likelihood(y, error, tau) * _scatter(r, squares, requests, sigma)
    keep = random.choice(DRAWS, size=DRAWS, p=weights / weights.sum())
    total = error[keep] + tau[keep, None] ** 2
    centre = (y / total).sum(axis=1) / (1 / total).sum(axis=1)
    centre = centre + random.normal(size=DRAWS) / np.sqrt((1 / total).sum(axis=1))
    shrunk = tau[keep, None] ** 2 / total
    mean = centre[:, None] + shrunk * (y - centre[:, None])
    drawn = mean + np.sqrt(shrunk * error[keep]) * random.normal(size=mean.shape)
    shares: Array = np.bincount(drawn.argmax(axis=1), minlength=len(y)) / DRAWS
    return shares


def _likelihood(y: Array, error: Array, tau: Array) -> Array:
    """Marginal likelihood of the means, with a flat centre."""
    precision = 1 / (error + tau[:, None] ** 2)
    total = precision.sum(axis=1)
    centre = (precision * y).sum(axis=1) / total
    misfit = (precision * (y - centre[:, None]) ** 2).sum(axis=1)
    logs = 0.5 * (np.log(precision).sum(axis=1) - np.log(total) - misfit)
    likelihood: Array = np.exp(logs - logs.max())
    return likelihood


def _scatter(r: Array, squares: Sequence[float], requests: Sequence[float], sigma: Array) -> Array:
    """Likelihood of the scatter of launches inside configurations: chi-square."""
    logs = np.zeros(len(sigma))
    for count, seen, noise in zip(r, squares, requests, strict=True):
        if count > 1:
            variance = sigma + noise * count
            logs -= 0.5 * ((count - 1) * np.log(variance) + seen / variance)
    scatter: Array = np.exp(logs - logs.max())
    return scatter
