"""Parts of noise from mean squares of a nested design, each with its interval."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import chdtri

from specbench.stats.launches import Array


class MeanSquare(msgspec.Struct, frozen=True, kw_only=True):
    """A mean square and its degrees of freedom; df 0 where nothing was replicated."""

    value: float
    df: int


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A standard deviation of a log metric in per cent, its 95 % interval, and what it rests on.

    None throughout where nothing was replicated.
    """

    pct: float | None
    low_pct: float | None
    high_pct: float | None
    df: int


NOTHING = Part(pct=None, low_pct=None, high_pct=None, df=0)


def pooled_square(groups: Sequence[Array]) -> MeanSquare:
    """Pool the scatter of groups around their own means."""
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups if len(group))
    df = sum(len(group) - 1 for group in groups if len(group))
    return MeanSquare(value=squares / df if df else math.nan, df=df)


def part(outer: MeanSquare, inner: MeanSquare | None = None, share: float = 1.0) -> Part:
    """Take `share` of the inner mean square out of the outer one.

    The estimate never falls below zero. Interval: modified large sample (Graybill and Wang 1980;
    Burdick and Graybill, "Confidence Intervals on Variance Components", 1992, 3.3).
    """
    if not outer.df:
        return NOTHING
    taken = share * inner.value if inner is not None and inner.df else 0.0
    n_inner = inner.df if inner is not None and inner.df else 1
    estimate = outer.value - taken
    upper, lower = _factors(outer.df), _factors(n_inner)
    down = math.hypot(upper[0] * outer.value, lower[1] * taken)
    up = math.hypot(upper[1] * outer.value, lower[0] * taken)
    return Part(
        pct=_percent(estimate),
        low_pct=_percent(estimate - down),
        high_pct=_percent(estimate + up),
        df=outer.df,
    )


def _factors(df: int) -> tuple[float, float]:
    """How far below and above itself a mean square's truth may be, as shares of it."""
    return 1 - df / float(chdtri(df, 0.025)), df / float(chdtri(df, 0.975)) - 1


def _percent(variance: float) -> float:
    return 100 * math.sqrt(max(0.0, float(np.nan_to_num(variance))))
