"""An estimate on a scale where zero means no effect, with its uncertainty; owns the t interval."""

import math
from collections.abc import Sequence

import msgspec
from scipy.special import stdtr, stdtrit

CONFIDENCE = 0.95
POWER = 0.8


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A log ratio (or another difference), its standard error and the error's degrees of freedom.

    `se` is NaN where the data cannot tell: then every interval is unbounded and nothing is ever
    significant. `df` may be infinite (a known variance).
    """

    value: float
    se: float
    df: float = math.inf

    @property
    def ratio(self) -> float:
        """The effect as a ratio, for values that are logarithms."""
        return math.exp(self.value)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Two-sided t interval of `value`; unbounded when the error is unknown."""
        if not math.isfinite(self.se):
            return -math.inf, math.inf
        half = _t_quantile(self.df, 0.5 + confidence / 2) * self.se
        return self.value - half, self.value + half

    def ratio_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Interval of the ratio; (0, inf) when the error is unknown."""
        low, high = self.interval(confidence)
        return math.exp(low), math.exp(high) if high < 700 else math.inf

    @property
    def p_value(self) -> float:
        """Two-sided p of the t test against zero; 1 when the error is unknown."""
        if not math.isfinite(self.se):
            return 1.0
        if self.se == 0:
            return 1.0 if self.value == 0 else 0.0
        return float(min(1.0, 2 * stdtr(_bounded(self.df), -abs(self.value) / self.se)))

    def minimum_detectable(self, power: float = POWER, confidence: float = CONFIDENCE) -> float:
        """Return the smallest |value| that this much data finds with the given power.

        (t_{1-alpha/2} + t_power) * se, the usual approximation of the noncentral t
        (Bloom 1995, "Minimum detectable effects").
        """
        if not math.isfinite(self.se):
            return math.inf
        quantiles = _t_quantile(self.df, 0.5 + confidence / 2) + _t_quantile(self.df, power)
        return quantiles * self.se

    def __neg__(self) -> "Effect":
        return Effect(value=-self.value, se=self.se, df=self.df)


class Variance(msgspec.Struct, frozen=True, kw_only=True):
    """A variance and the degrees of freedom with which it is known."""

    value: float
    df: float = math.inf


def satterthwaite(parts: Sequence[Variance]) -> Variance:
    """Sum independent variances; degrees of freedom by Satterthwaite (Biometrics 2:110, 1946)."""
    total = sum(part.value for part in parts)
    spread = sum(part.value**2 / part.df for part in parts if part.value > 0)
    return Variance(value=total, df=total**2 / spread if spread > 0 else math.inf)


def effect_of(value: float, parts: Sequence[Variance]) -> Effect:
    """Return an effect whose error is the sum of independent parts."""
    total = satterthwaite(parts)
    return Effect(value=value, se=math.sqrt(total.value), df=total.df)


def _bounded(df: float) -> float:
    return min(df, 1e9)


def _t_quantile(df: float, probability: float) -> float:
    return float(stdtrit(_bounded(df), probability))
