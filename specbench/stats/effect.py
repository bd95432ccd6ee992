"""An estimate on a scale where zero means no effect, with its uncertainty; owns the t interval."""

import math
from collections.abc import Sequence

import msgspec
from scipy.special import ndtr, stdtr, stdtrit

CONFIDENCE = 0.95
POWER = 0.8
HALVINGS = 60
"""Steps of a bisection: the width left is below what a float of this size can hold."""


class Outlying(msgspec.Struct, frozen=True, kw_only=True):
    """What an error may be besides: with probability `share` it has `sd` more.

    The contaminated normal (Tukey 1960): one launch in so many is slow, and a single launch
    cannot show whether it is one of them.
    """

    share: float
    sd: float


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A log ratio (or another difference), its standard error and the error's degrees of freedom.

    `se` is NaN where the data cannot tell: then every interval is unbounded and nothing is ever
    significant. `df` may be infinite (a known variance). `outlying` mixes a heavy tail into the
    t distribution of the error.
    """

    value: float
    se: float
    df: float = math.inf
    outlying: Outlying | None = None

    @property
    def ratio(self) -> float:
        """The effect as a ratio, for values that are logarithms."""
        return math.exp(self.value)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Two-sided interval of `value`; unbounded when the error is unknown."""
        half = self.half_width(confidence)
        return self.value - half, self.value + half

    def ratio_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Interval of the ratio; (0, inf) when the error is unknown."""
        low, high = self.interval(confidence)
        return math.exp(low), math.exp(high) if high < 700 else math.inf

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Half the width of the interval of `value`; infinite when the error is unknown."""
        if not math.isfinite(self.se):
            return math.inf
        plain = _t_quantile(self.df, 0.5 + confidence / 2) * self.se
        if self.outlying is None:
            return plain
        wide = math.hypot(self.se, self.outlying.sd)
        low, high = plain, _t_quantile(self.df, 0.5 + confidence / 2) * wide
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.beyond(middle) > 1 - confidence else (low, middle)
        return (low + high) / 2

    def beyond(self, size: float) -> float:
        """Probability that the error alone is larger than `size`, to either side."""
        if not math.isfinite(self.se):
            return 1.0
        tail = _tail(size, self.se, self.df)
        if self.outlying is None:
            return tail
        wide = math.hypot(self.se, self.outlying.sd)
        share = self.outlying.share
        return (1 - share) * tail + share * _tail(size, wide, math.inf)

    @property
    def p_value(self) -> float:
        """Two-sided p of the test against zero; 1 when the error is unknown."""
        return min(1.0, self.beyond(abs(self.value)))

    def minimum_detectable(
        self, power: float = POWER, confidence: float = CONFIDENCE, *, half: float | None = None
    ) -> float:
        """Return the smallest |value| that this much data finds with the given power.

        (t_{1-alpha/2} + t_power) * se, the usual approximation of the noncentral t
        (Bloom 1995, "Minimum detectable effects"). `half` replaces the first term where a
        corrected interval decides.
        """
        if not math.isfinite(self.se):
            return math.inf
        return (half or self.half_width(confidence)) + self.half_width(2 * power - 1)

    def __neg__(self) -> "Effect":
        return msgspec.structs.replace(self, value=-self.value)


class Variance(msgspec.Struct, frozen=True, kw_only=True):
    """A variance and the degrees of freedom with which it is known."""

    value: float
    df: float = math.inf


def satterthwaite(parts: Sequence[Variance]) -> Variance:
    """Sum independent variances; degrees of freedom by Satterthwaite (Biometrics 2:110, 1946)."""
    total = sum(part.value for part in parts)
    spread = sum(part.value**2 / part.df for part in parts if part.value > 0)
    return Variance(value=total, df=total**2 / spread if spread > 0 else math.inf)


def effect_of(value: float, parts: Sequence[Variance], outlying: Outlying | None = None) -> Effect:
    """Return an effect whose error is the sum of independent parts."""
    total = satterthwaite(parts)
    return Effect(value=value, se=math.sqrt(total.value), df=total.df, outlying=outlying)


def _tail(size: float, se: float, df: float) -> float:
    if se == 0:
        return 1.0 if size == 0 else 0.0
    if math.isinf(df):
        return float(2 * ndtr(-size / se))
    return float(2 * stdtr(_bounded(df), -size / se))


def _bounded(df: float) -> float:
    return min(df, 1e9)


def _t_quantile(df: float, probability: float) -> float:
    return float(stdtrit(_bounded(df), probability))
