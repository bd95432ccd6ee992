"""The highest load that still meets service levels: a search over concurrency by what was seen."""

import math
from collections.abc import Mapping
from typing import Any

from specbench.model.load import ServiceLevels

RESOLUTION = 1.2
"""The search ends when the highest load that meets and the lowest that misses are this close."""

SHARE_PCT = 90
"""A load meets the levels when so many percent of its requests meet each of them."""


def next_probe(met: Mapping[int, bool], limit: int) -> int | None:
    """Give the concurrency to measure next; None when the answer is known.

    `met` says of each measured concurrency whether it met the levels. Levels double until one
    misses (or `limit` is reached), then the gap is halved on a logarithmic scale.
    """
    if not met:
        return 1
    lowest_missed = min((level for level, good in met.items() if not good), default=None)
    if lowest_missed is None:
        top = max(met)
        return min(2 * top, limit) if top < limit else None
    best = highest_met(met)
    if best is None or lowest_missed - best <= 1 or lowest_missed / best <= RESOLUTION:
        return None
    return max(best + 1, min(lowest_missed - 1, round(math.sqrt(best * lowest_missed))))


def highest_met(met: Mapping[int, bool]) -> int | None:
    """Give the highest concurrency below which none missed; None where the lowest did."""
    missed = min((level for level, good in met.items() if not good), default=math.inf)
    return max((level for level, good in met.items() if good and level < missed), default=None)


def misses(columns: Mapping[str, Any], levels: ServiceLevels) -> tuple[str, ...]:
    """Say which levels a measured load does not meet, or cannot be shown to meet."""
    found = []
    if 100 * columns["n_failed"] > (100 - SHARE_PCT) * columns["n_requests"]:
        found.append(f"{columns['n_failed']} of {columns['n_requests']} requests failed")
    for name in levels.__struct_fields__:
        limit = getattr(levels, name)
        if limit is None:
            continue
        seen = columns[f"{name}_p{SHARE_PCT}"]
        if seen is None:
            found.append(f"{name}_p{SHARE_PCT} is not known")
        elif seen > limit:
            found.append(f"{name}_p{SHARE_PCT} is {seen:.3g}, above {limit:g}")
    return tuple(found)
