"""Where throughput stops growing: a search over concurrency, as a function of what was measured."""

import math
from collections.abc import Mapping

GAIN = 1.05
"""Doubling the concurrency must bring at least this factor, or the server is saturated."""
NEAR = 0.95
"""A level counts as saturated from this share of the best throughput on."""
RESOLUTION = 1.3
"""The search ends when the levels on both sides of the answer are this close."""


def next_level(measured: Mapping[int, float], limit: int) -> int | None:
    """Give the concurrency to measure next; None when the answer is known.

    `measured` maps concurrency to tok/s. Levels double until that brings nothing (or `limit` is
    reached), then the gap below the saturated level is halved on a logarithmic scale.
    """
    if not measured:
        return 1
    top = max(measured)
    if top < limit and _still_grows(measured, top):
        return min(2 * top, limit)
    answer = saturation(measured)
    below = max((level for level in measured if level < answer), default=None)
    if below is None or answer / below <= RESOLUTION or answer - below <= 1:
        return None
    return max(below + 1, min(answer - 1, round(math.sqrt(answer * below))))


def saturation(measured: Mapping[int, float]) -> int:
    """Give the lowest measured concurrency that reaches `NEAR` of the best throughput."""
    best = max(measured.values())
    return min(level for level, tok_s in measured.items() if tok_s >= NEAR * best)


def _still_grows(measured: Mapping[int, float], top: int) -> bool:
    below = max((level for level in measured if level < top), default=None)
    return below is None or measured[top] > GAIN * measured[below]
