"""Near tie or error, told from draws: at temperature 1 the odds of two tokens are e^margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

# Wald's sequential test between a gap of at most 1 nat and one of at least 3 nat, as shares of
# the emitted token among draws of either: 1/(1+e) and 1/(1+e^3).
TIE_SHARE = 0.269
ERROR_SHARE = 0.047
ERROR_BAR = math.log(1e4)
TIE_BAR = -math.log(1e2)
# At temperature 0.25 a gap of 0.3 nat still leaves the emitted token this share.
SOFT_TEMPERATURE = 0.25
SOFT_SHARE = 0.23
LEAST_SOFT_DRAWS = 12

Decision = Literal["error", "tie", "open"]


@dataclass(frozen=True, slots=True)
class Odds:
    """Of `either` draws of the emitted or the favourite token, `emitted` were the emitted one."""

    emitted: int
    either: int

    @property
    def llr(self) -> float:
        """Log-likelihood ratio of an error against a near tie."""
        others = self.either - self.emitted
        hit = math.log(ERROR_SHARE / TIE_SHARE)
        miss = math.log((1 - ERROR_SHARE) / (1 - TIE_SHARE))
        return self.emitted * hit + others * miss

    @property
    def decision(self) -> Decision:
        """What the draws say so far."""
        if self.llr > ERROR_BAR:
            return "error"
        return "tie" if self.llr < TIE_BAR else "open"

    @property
    def margin_nat(self) -> float:
        """How far the emitted token lies below the favourite: log odds, half a draw added."""
        return math.log((self.either - self.emitted + 0.5) / (self.emitted + 0.5))


def pooled_error_p(found: Sequence[Odds]) -> float | None:
    """p-value that all disagreements together are near ties; None without any draw."""
    either = sum(o.either for o in found)
    if not either:
        return None
    return float(stats.binom.cdf(sum(o.emitted for o in found), either, TIE_SHARE))


def never_drawn_p(cold: Sequence[Odds]) -> tuple[int, float | None]:
    """How many emitted tokens never came at a quarter of the temperature, and its p-value.

    A gap of 0.3 nat makes that improbable (0.77^12 = 4.3 %); more are drift or stale penalties.
    """
    tested = [o for o in cold if o.either >= LEAST_SOFT_DRAWS]
    if not tested:
        return 0, None
    never = sum(o.emitted == 0 for o in tested)
    chance = (1 - SOFT_SHARE) ** LEAST_SOFT_DRAWS
    return never, float(stats.binom.sf(never - 1, len(tested), chance))


def noise_nat(cold: Sequence[Odds], least: int = 5) -> float | None:
    """Estimate the kernel noise (sd of a logit, nat) from the gaps of the disagreements.

    Their mean gap was 1.3 standard deviations on the embedded engine; None with fewer than
    `least` disagreements.
    """
    tested = [o for o in cold if o.either]
    if len(tested) < least:
        return None
    emitted, either = sum(o.emitted for o in tested), sum(o.either for o in tested)
    gap = SOFT_TEMPERATURE * math.log(max(either - emitted, 1) / max(emitted, 1))
    return max(gap, 0.0) / 1.3
