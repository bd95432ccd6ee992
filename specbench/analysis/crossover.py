"""Where the faster arm changes with concurrency, from measured points only."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.model.matrix import Level
from specbench.stats.effect import Effect

DRAWS = 4000


class Crossover(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrency at which the speed-up is 1, inside the measured range.

    `at` is interpolated in log2(concurrency) between the neighbours that disagree, None where the
    measured speed-ups stay on one side. `low` and `high` hold 95 % of the crossings that noise
    allows, and `probability` is the share of noise draws that cross at all. Nothing is
    extrapolated: `measured` is the range in which this holds.
    """

    levels: dict[str, Level]
    own_a: dict[str, Level]
    own_b: dict[str, Level]
    at: float | None
    low: float | None
    high: float | None
    probability: float
    measured: tuple[float, float]
    reading: str


def crossover(
    points: Sequence[tuple[float, Effect]],
    *,
    levels: dict[str, Level],
    own_a: dict[str, Level],
    own_b: dict[str, Level],
    seed: int = 0,
) -> Crossover | None:
    """Find where log speed-up passes zero; None for fewer than two concurrencies."""
    ordered = sorted(points, key=lambda point: point[0])
    known = [(c, effect) for c, effect in ordered if c > 0 and math.isfinite(effect.se)]
    if len(known) < 2:
        return None
    place = np.log2([c for c, _ in known])
    values = np.array([effect.value for _, effect in known])
    at = next(iter(_crossings(place, values[np.newaxis])), None)
    random = np.random.default_rng(seed)
    noise = np.array([random.standard_t(min(e.df, 1e6), DRAWS) * e.se for _, e in known]).T
    drawn = _crossings(place, values + noise)
    low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (None, None)
    first, last = known[0][0], known[-1][0]
    return Crossover(
        levels=levels,
        own_a=own_a,
        own_b=own_b,
        at=None if at is None else float(2**at),
        low=None if low is None else float(2**low),
        high=None if high is None else float(2**high),
        probability=len(drawn) / DRAWS,
        measured=(first, last),
        reading=_reading(at, values, first, last),
    )


def _crossings(place: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """First change of sign of each row that has one, by linear interpolation."""
    changes = rows[:, :-1] * rows[:, 1:] < 0
    crossing = np.flatnonzero(changes.any(axis=1))
    left = changes[crossing].argmax(axis=1)
    y0, y1 = rows[crossing, left], rows[crossing, left + 1]
    at: NDArray[np.float64] = place[left] + (place[left + 1] - place[left]) * y0 / (y0 - y1)
    return at


def _reading(at: float | None, values: NDArray[np.float64], first: float, last: float) -> str:
    if at is not None:
        words = ("faster", "slower") if values[0] > 0 else ("slower", "faster")
        return f"{words[0]} up to concurrency {2**at:.3g}, {words[1]} above"
    side = "faster" if values[0] > 0 else "slower"
    return f"{side} at every measured concurrency, {first:g} to {last:g}"
