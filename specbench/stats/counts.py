"""Exact inference on counts of rare events."""

from __future__ import annotations

from scipy import stats


def poisson_upper(count: int, confidence: float) -> float:
    """Upper confidence limit of a Poisson mean after `count` events (Garwood 1936, one-sided)."""
    return float(stats.gamma.isf(1 - confidence, count + 1))


def poisson_lower(count: int, confidence: float) -> float:
    """Lower confidence limit of a Poisson mean after `count` events (Garwood 1936, one-sided)."""
    return 0.0 if count == 0 else float(stats.gamma.ppf(1 - confidence, count))


def poisson_excess_p(count: int, exposure: float, control: int, control_exposure: float) -> float:
    """One-sided p-value that a rate exceeds the control's: the exact conditional binomial test.

    Given the total, `count` is binomial with share exposure / (exposure + control_exposure) under
    equal rates (Przyborowski and Wilenski 1940).
    """
    total = count + control
    if total == 0:
        return 1.0
    share = exposure / (exposure + control_exposure)
    return float(stats.binom.sf(count - 1, total, share))
