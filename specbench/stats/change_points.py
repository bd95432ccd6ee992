"""Where a series of measurements changes its level: binary segmentation with permutation tests."""

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 1999
FEWEST = 3
"""Points on each side of a change: a single outlier is no change of level."""


class ChangePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The level changes before point `index`.

    `ratio` is of the geometric means of the levels after and before, each up to the next change;
    `p` is the permutation test's, multiplied by the number of tests made (Bonferroni).
    """

    index: int
    ratio: float
    p: float


def change_points(
    values: Sequence[float], *, alpha: float = 0.01, seed: int = 0
) -> list[ChangePoint]:
    """Find changes of level in positive values in order of time; empty where none is sure.

    Binary segmentation (Scott and Knott, Biometrics 30:507, 1974) on logarithms; the statistic is
    the largest standardised difference of means over all splits, and its distribution under no
    change is had by permuting the segment (Vostrikova 1981 for consistency). Values are taken to
    be exchangeable when nothing changes: a slow drift is reported as one or more steps.
    """
    logs = np.log(np.asarray(values, dtype=float))
    if not np.isfinite(logs).all():
        raise ValueError("change points need positive, finite values")
    random = np.random.default_rng(seed)
    found: dict[int, float] = {}
    segments, tests = [(0, len(logs))], 0
    while segments:
        start, end = segments.pop()
        if end - start < 2 * FEWEST:
            continue
        tests += 1
        segment = logs[start:end]
        split, p = _split(segment, random)
        if p * tests > alpha:
            continue
        found[start + split] = min(1.0, p * tests)
        segments += [(start, start + split), (start + split, end)]
    return _with_ratios(logs, found)


def _with_ratios(logs: NDArray[np.float64], found: dict[int, float]) -> list[ChangePoint]:
    bounds = [0, *sorted(found), len(logs)]
    levels = [logs[start:end].mean() for start, end in pairwise(bounds)] if found else []
    return [
        ChangePoint(index=index, ratio=math.exp(after - before), p=found[index])
        for index, (before, after) in zip(sorted(found), pairwise(levels), strict=True)
    ]


def _split(segment: NDArray[np.float64], random: np.random.Generator) -> tuple[int, float]:
    """Give the best split of a segment and the permutation p of its statistic."""
    observed = _statistics(segment[None, :])[0]
    shuffled = random.permuted(np.tile(segment, (PERMUTATIONS, 1)), axis=1)
    best = float(observed.max())
    at_least = int((_statistics(shuffled).max(axis=1) >= best * (1 - 1e-12)).sum())
    return int(observed.argmax()) + FEWEST, (1 + at_least) / (1 + PERMUTATIONS)


def _statistics(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardised difference of means at each admissible split of each row."""
    n = rows.shape[1]
    left = np.arange(FEWEST, n - FEWEST + 1)
    sums = np.cumsum(rows, axis=1)
    total = sums[:, -1:]
    before = sums[:, left - 1] / left
    after = (total - sums[:, left - 1]) / (n - left)
    weight = np.sqrt(left * (n - left) / n)
    statistic: NDArray[np.float64] = np.abs(after - before) * weight
    return statistic
