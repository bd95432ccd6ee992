"""Why a matched cell supports no verdict, although its numbers are shown."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from specbench.analysis.gate import WITHHOLDS, flags_of
from specbench.analysis.totals import Totals
from specbench.stats.effect import Effect

LENGTHS_DIFFER = 0.05
CACHE_DIFFERS = 0.02
CONCURRENCY_DIFFERS = 0.20
FEWEST_COMMON = 0.95


def flags_that_withhold(
    totals: Totals, groups: tuple[int, int], a: pd.DataFrame, b: pd.DataFrame
) -> tuple[str, ...]:
    """Name the flags that withhold a verdict: a machine-readable word, then the reason."""
    return (
        *_flags(a, b),
        *_prompts(totals, groups),
        *_lengths(totals, groups),
        *_cache(totals, groups),
        *_concurrency(a, b),
    )


def prompts_differ(totals: Totals, groups: tuple[int, int]) -> tuple[int, int, int]:
    """Count the prompts asked on each side, and on both."""
    a, b = (totals.asked[g] > 0 for g in groups)
    return int(a.sum()), int(b.sum()), int((a & b).sum())


def _flags(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    found = dict.fromkeys((*flags_of(a), *flags_of(b)))
    return [f"{flag}: {WITHHOLDS[flag]}" for flag in found if flag in WITHHOLDS]


def _prompts(totals: Totals, groups: tuple[int, int]) -> list[str]:
    n_a, n_b, common = prompts_differ(totals, groups)
    if not n_a or not n_b or common >= FEWEST_COMMON * max(n_a, n_b):
        return []
    return [f"prompts_differ: {n_a} and {n_b} prompts were asked, {common} of them on both sides"]


def _lengths(totals: Totals, groups: tuple[int, int]) -> list[str]:
    """Longer texts on one arm change batching and acceptance: a difference that is no speed."""
    mean = _mean_lengths(totals, groups)
    if len(mean[0]) < 2:
        return []
    total_a, total_b = (float(side.mean()) for side in mean)
    if min(total_a, total_b) <= 0:
        return []
    change = np.log(total_b / total_a)
    difference = mean[1] - mean[0]
    se = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    tested = Effect(value=float(difference.mean()), se=se, df=len(difference) - 1)
    if abs(change) < LENGTHS_DIFFER or tested.p_value > 0.01:
        return []
    return [f"output_lengths_differ: mean output {total_a:.1f} against {total_b:.1f} tokens"]


def _mean_lengths(totals: Totals, groups: tuple[int, int]) -> list[np.ndarray]:
    requests = [totals.requests[g] for g in groups]
    common = (requests[0] > 0) & (requests[1] > 0)
    return [
        totals.tokens[g][common] / count[common] for g, count in zip(groups, requests, strict=True)
    ]


def _cache(totals: Totals, groups: tuple[int, int]) -> list[str]:
    shares = [
        float(totals.cached_tokens[g].sum()) / asked
        for g in groups
        if (asked := float(totals.prompt_tokens[g].sum())) > 0
    ]
    if len(shares) < 2 or abs(shares[0] - shares[1]) < CACHE_DIFFERS:
        return []
    return [
        f"cache_hits_differ: {shares[0]:.1%} against {shares[1]:.1%} of prompt tokens were cached"
    ]


def _concurrency(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    means = [_known_mean(side["concurrency_effective"].tolist()) for side in (a, b)]
    first, second = means
    if first is None or second is None or min(first, second) <= 0:
        return []
    if abs(math.log(first / second)) < CONCURRENCY_DIFFERS:
        return []
    return [f"concurrency_differs: {first:.1f} against {second:.1f} requests in flight"]


def _known_mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else None
