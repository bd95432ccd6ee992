"""Cluster bootstrap by prompt, used only where no formula holds: percentiles of latencies."""

import math

import numpy as np
from numpy.typing import NDArray

from specbench.stats.effect import Effect

RESAMPLES = 300


def log_percentile_ratio(
    a: tuple[NDArray[np.float64], NDArray[np.int64]],
    b: tuple[NDArray[np.float64], NDArray[np.int64]],
    *,
    percent: float,
    prompts: int,
    seed: int = 0,
) -> Effect:
    """Log ratio b/a of a percentile over requests; whole prompts are resampled, the same in both.

    Each arm is (values, prompt index of each value, below `prompts`). The percentile is of the
    bootstrap weights' distribution; the error is the standard deviation over resamples (Efron
    1979; clusters: Field and Welsh 2007), with `prompts - 1` degrees of freedom.
    """
    random = np.random.default_rng(seed)
    arms = [(values[order], codes[order]) for values, codes, order in _sorted(a, b)]
    everything = np.ones(prompts, dtype=np.int64)
    estimate = _difference(arms, everything, percent)
    if prompts < 2:
        return Effect(value=estimate, se=math.nan, df=0)
    draws = random.multinomial(prompts, everything / prompts, size=RESAMPLES)
    replicates = [_difference(arms, weights, percent) for weights in draws]
    return Effect(value=estimate, se=float(np.nanstd(replicates, ddof=1)), df=prompts - 1)


def _sorted(
    *arms: tuple[NDArray[np.float64], NDArray[np.int64]],
) -> list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]]:
    return [(values, codes, np.argsort(values, kind="stable")) for values, codes in arms]


def _difference(
    arms: list[tuple[NDArray[np.float64], NDArray[np.int64]]],
    weights: NDArray[np.int64],
    percent: float,
) -> float:
    a, b = (_weighted_percentile(values, weights[codes], percent) for values, codes in arms)
    return math.log(b / a) if a > 0 and b > 0 else math.nan


def _weighted_percentile(
    ordered: NDArray[np.float64], weights: NDArray[np.int64], percent: float
) -> float:
    mass = np.cumsum(weights)
    if len(mass) == 0 or mass[-1] == 0:
        return math.nan
    return float(ordered[np.searchsorted(mass, mass[-1] * percent / 100.0)])
