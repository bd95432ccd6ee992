"""How launches of one server differ, in the order in which they were made."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Order = Literal["ABBA", "ABAB", "AABB"]


@dataclass(frozen=True)
class Outliers:
    """A launch in `1 / share` is off by about `size` (of its time; negative is fast)."""

    share: float
    size: float
    spread: float = 0.0


@dataclass(frozen=True)
class Restarts:
    """Noise of time (logs) by launch, trial, and cell of a launch.

    `df` is of a t law scaled to `sd` as its scale; `skewed` makes launches lognormal to the slow
    side with that sd. `ar1` correlates neighbours in the run's order. `drift` is by how much the
    machine slows from the first launch to the last; `saw` by how much it slows inside each round of
    launches, to be fresh again in the next; `jump` happens once, at a random place.
    `trial_ar1` correlates trials inside a launch. `cell_sd`: a launch that is good at one load and
    bad at another.
    """

    sd: float = 0.01
    df: float = np.inf
    skewed: bool = False
    outliers: Outliers | None = None
    ar1: float = 0.0
    drift: float = 0.0
    saw: float = 0.0
    jump: float = 0.0
    trial_sd: float = 0.006
    trial_ar1: float = 0.0
    cell_sd: float = 0.0


def launches(law: Restarts, random: np.random.Generator, count: int, a_round: int) -> Array:
    """Log of the time of each launch, in the order of the run; `a_round` are made in one round."""
    found = law.sd * _correlated(random, (count,), law.ar1, law.df)
    if law.skewed:
        found = np.abs(found) * 1.6  # about the same standard deviation
    if law.outliers is not None:
        hit = random.uniform(size=count) < law.outliers.share
        size = np.log1p(law.outliers.size) + random.normal(0, law.outliers.spread, count)
        found = found + hit * size
    if count > 1:
        place = np.arange(count)
        found = found + law.drift * place / (count - 1)
        found = found + law.saw * (place % a_round) / max(1, a_round - 1)
        if law.jump:
            found = found + law.jump * (place >= random.integers(1, count))
    return found


def trials(law: Restarts, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Log of the time of each trial; the last axis runs through a launch."""
    return law.trial_sd * _correlated(random, shape, law.trial_ar1, np.inf)


def _correlated(
    random: np.random.Generator, shape: tuple[int, ...], rho: float, df: float
) -> Array:
    fresh = random.normal(size=shape) if np.isinf(df) else random.standard_t(df, size=shape)
    if rho == 0:
        return fresh
    found = fresh.copy()
    for i in range(1, shape[-1]):
        found[..., i] = rho * found[..., i - 1] + np.sqrt(1 - rho**2) * fresh[..., i]
    return found


def positions(order: Order, arms: int, rounds: int) -> NDArray[np.int64]:
    """Place in the run of each (arm, launch): ABBA, ABAB or AABB."""
    place = np.empty((arms, rounds), dtype=np.int64)
    for launch in range(rounds):
        for arm in range(arms):
            if order == "AABB":
                place[arm, launch] = arm * rounds + launch
            else:
                back = order == "ABBA" and launch % 2 == 1
                place[arm, launch] = launch * arms + (arms - 1 - arm if back else arm)
    return place
