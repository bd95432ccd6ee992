"""Where the faster arm changes with concurrency: only between points that are decided."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from specbench.model.matrix import Level
from specbench.stats.family import Judged

DRAWS = 4000


class Crossover(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrency at which the speed-up is 1, between two that are decided in opposite directions.

    `between` are those two: they are what is established. `at` is interpolated between them in
    log2(concurrency), `low`/`high` hold 95 % of the crossings that noise allows. All three are None
    where every measured concurrency is decided for one arm; `measured` is the range in which this
    holds, and nothing is extrapolated.
    """

    levels: dict[str, Level]
    own_a: dict[str, Level]
    own_b: dict[str, Level]
    at: float | None
    low: float | None
    high: float | None
    between: tuple[float, float] | None
    measured: tuple[float, float]
    reading: str


def crossovers(
    points: Sequence[tuple[float, Judged]],
    *,
    levels: dict[str, Level],
    own_a: dict[str, Level],
    own_b: dict[str, Level],
) -> tuple[Crossover, ...]:
    """Find where the decided side changes; nothing where no change and no side is decided."""
    known = sorted(((c, one) for c, one in points if c > 0), key=lambda point: point[0])
    decided = [point for point in known if point[1].decided]
    if len(known) < 2 or not decided:
        return ()
    measured = (known[0][0], known[-1][0])
    turns = [
        _turn(low, high)
        for low, high in pairwise(decided)
        if low[1].effect.value * high[1].effect.value < 0
    ]
    if not turns and len(decided) == len(known):
        turns = [_one_side(known)]
    return tuple(
        Crossover(
            levels=levels, own_a=own_a, own_b=own_b, at=turn.at, low=turn.low, high=turn.high,
            between=turn.between, measured=measured, reading=turn.reading,
        )
        for turn in turns
    )  # fmt: skip


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    at: float | None = None
    low: float | None = None
    high: float | None = None
    between: tuple[float, float] | None = None
    reading: str


def _one_side(known: Sequence[tuple[float, Judged]]) -> _Turn:
    side = "faster" if known[0][1].effect.value > 0 else "slower"
    first, last = known[0][0], known[-1][0]
    return _Turn(
        reading=f"{side} at all {len(known)} measured concurrencies, {first:g} to {last:g}"
    )


def _turn(low: tuple[float, Judged], high: tuple[float, Judged]) -> _Turn:
    """Interpolate one crossing, and draw the range that noise allows between its neighbours."""
    random = np.random.default_rng(0)
    place = np.log2([low[0], high[0]])
    drawn = np.array(
        [
            one.effect.value + one.effect.se * random.standard_t(min(one.effect.df, 1e6), DRAWS)
            for _, one in (low, high)
        ]
    )
    crosses = drawn[0] * drawn[1] < 0
    y0, y1 = drawn[:, crosses]
    at = place[0] + (place[1] - place[0]) * y0 / (y0 - y1)
    first, second = low[1].effect.value, high[1].effect.value
    middle = place[0] + (place[1] - place[0]) * first / (first - second)
    ends = np.quantile(at, [0.025, 0.975]) if len(at) else place
    words = ("faster", "slower") if first > 0 else ("slower", "faster")
    return _Turn(
        at=float(2**middle),
        low=float(2 ** ends[0]),
        high=float(2 ** ends[1]),
        between=(low[0], high[0]),
        reading=f"{words[0]} at concurrency {low[0]:g}, {words[1]} at {high[0]:g};"
        f" about even at {2**middle:.3g}",
    )
