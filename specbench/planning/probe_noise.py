"""How far a launch can be trusted: probes that err one by one, and launches that differ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, lgamma

import msgspec
import numpy as np
from numpy.typing import NDArray

OF_ITS_OWN = 0.05
"""Share of failing configurations that fail at a rate of their own, any rate alike."""

FALSE_ALARMS = 0.005
"""Share of sound configurations on which a probe fails now and then, in about one of twenty."""

ALARM_SHAPE = 19.0
"""Second parameter of the beta distribution of that rate; the first is 1."""

RATES: tuple[tuple[float, float], ...] = (
    (0.999, 0.50), (0.95, 0.10), (0.85, 0.08), (0.7, 0.08),
    (0.55, 0.08), (0.4, 0.08), (0.25, 0.05), (0.12, 0.03),
)  # fmt: skip
"""How often one probe fails on a failing server, with prior weights."""

MISSES: tuple[tuple[float, float], ...] = ((0.0, 0.88), (0.1, 0.04), (0.3, 0.04), (0.5, 0.04))
"""How often a failing configuration comes up sound for a whole launch, with prior weights."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What the probes of one launch said; undecided ones are not counted."""

    asked: int = 0
    failed: int = 0

    def and_one(self, *, fails: bool) -> "Counts":
        """Count one more probe."""
        return Counts(asked=self.asked + 1, failed=self.failed + fails)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """A grid of rates: `rate` of failing probes, `miss` of launches, with prior `weight`."""

    rate: NDArray[np.float64]
    miss: NDArray[np.float64]
    weight: NDArray[np.float64]

    def when_failing(self, counts: Counts) -> NDArray[np.float64]:
        """Likelihood of a launch of a configuration that fails, for each point of the grid."""
        sound = counts.asked - counts.failed
        shared = self.rate**counts.failed * (1 - self.rate) ** sound
        mixed = (1 - OF_ITS_OWN) * shared + OF_ITS_OWN * _beta(counts.failed + 1, sound + 1)
        likelihood: NDArray[np.float64] = (
            self.miss * self.when_sound(counts) + (1 - self.miss) * mixed
        )
        return likelihood

    def when_sound(self, counts: Counts) -> float:
        """Likelihood of a launch of a configuration that does not fail."""
        sound = counts.asked - counts.failed
        alarms = ALARM_SHAPE * _beta(counts.failed + 1, sound + ALARM_SHAPE)
        return (1 - FALSE_ALARMS) * (counts.failed == 0) + FALSE_ALARMS * alarms


def noise(probe_error: float | None) -> Noise:
    """Lay out the grid; a `probe_error` fixes how often a probe fails on a failing server."""
    rates = RATES if probe_error is None else ((1 - probe_error, 1.0),)
    grid = [(rate, miss, p * m) for rate, p in rates for miss, m in MISSES]
    rate, miss, weight = np.array(grid).T
    return Noise(rate=rate, miss=miss, weight=weight / weight.sum())


def missed(failing: Sequence[Counts], probes: int, probe_error: float | None) -> float:
    """Chance that all probes of a launch pass on a failing server, from launches that failed."""
    if probe_error is not None:
        return probe_error**probes
    failed = sum(counts.failed for counts in failing)
    passed = sum(counts.asked for counts in failing) - failed
    return _beta(failed + 1, passed + 1 + probes) / _beta(failed + 1, passed + 1)


def fewest(failing: Sequence[Counts], most: int, probe_error: float | None, limit: float) -> int:
    """Count the probes after which a failing server is missed no more often than `limit`."""
    enough = (n for n in range(1, most) if missed(failing, n, probe_error) <= limit)
    return next(enough, most)


def _beta(a: float, b: float) -> float:
    return exp(lgamma(a) + lgamma(b) - lgamma(a + b))
