"""Why a matched cell supports no verdict, although its numbers are shown."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact

from specbench.analysis.gate import WITHHOLDS, flags_of
from specbench.analysis.pairing import Paired
from specbench.analysis.totals import Totals
from specbench.model.load import FEWEST_A_SLOT
from specbench.stats.effect import Effect

LENGTHS_DIFFER = 0.05
CACHE_DIFFERS = 0.02
CONCURRENCY_DIFFERS = 0.20
FEWEST_COMMON = 0.95
BEYOND_PERCENTILE = 5
FAILURES_DIFFER = 0.005
"""Share of requests failing on one arm and not on the other; one in a hundred can move the mean."""


def flags_that_withhold(
    totals: Totals, paired: Paired, a: pd.DataFrame, b: pd.DataFrame, *, speed: bool
) -> tuple[str, ...]:
    """Name the flags that withhold a verdict: a machine-readable word, then the reason."""
    return (
        *_flags(a, b),
        *_prompts(totals, paired),
        *_failures(totals, paired),
        *_lengths(totals, paired),
        *_cache(totals, paired),
        *(_concurrency(a, b) if speed else ()),
    )


def prompts_differ(totals: Totals, paired: Paired) -> tuple[int, int, int]:
    """Count the prompts asked on each side, and on both."""
    a, b = (totals.of("asked", ids).sum(axis=0) > 0 for ids in (paired.a, paired.b))
    return int(a.sum()), int(b.sum()), int((a & b).sum())


def few_prompts(prompts: int, percent: float) -> list[str]:
    """Say that too few prompts lie beyond a percentile: its interval would not hold."""
    share = min(percent, 100 - percent) / 100
    if prompts * share >= BEYOND_PERCENTILE - 1e-9:
        return []
    if not share:
        return [f"few_prompts: nothing lies beyond the extreme of {prompts} prompts"]
    needed = math.ceil(BEYOND_PERCENTILE / share - 1e-9)
    return [f"few_prompts: {prompts} prompts, and a p{percent:.0f} needs {needed}"]


def few_requests(totals: Totals, paired: Paired, trials: pd.DataFrame, concurrency: object) -> str:
    """Say how few requests a slot had, or nothing: below 8 the steady window is short."""
    slots = concurrency if isinstance(concurrency, int | float) else None
    if slots is None and "concurrency_effective" in trials.columns:
        slots = _known_mean(trials["concurrency_effective"].tolist())
    asked = [totals.of("asked", ids).sum(axis=1) for ids in (paired.a, paired.b)]
    fewest = min((float(side.min()) for side in asked if len(side)), default=0.0)
    if not slots or slots <= 1 or fewest >= FEWEST_A_SLOT * slots:
        return ""
    return f"{fewest:.0f} requests on {slots:g} slots, and 8 a slot are needed"


def _flags(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    found = dict.fromkeys((*flags_of(a), *flags_of(b)))
    return [f"{flag}: {WITHHOLDS[flag]}" for flag in found if flag in WITHHOLDS]


def _prompts(totals: Totals, paired: Paired) -> list[str]:
    n_a, n_b, common = prompts_differ(totals, paired)
    if not n_a or not n_b or common >= FEWEST_COMMON * max(n_a, n_b):
        return []
    return [f"prompts_differ: {n_a} and {n_b} prompts were asked, {common} of them on both sides"]


def _failures(totals: Totals, paired: Paired) -> list[str]:
    """Say where requests fail on one arm: they may be its long ones, the survivors look fast."""
    found = []
    for quantity, word, what in (
        ("failed", "failures_differ", "failed"),
        ("uncounted", "usage_missing", "came without a count of their tokens"),
    ):
        bad, asked = (
            [float(totals.of(name, ids).sum()) for ids in (paired.a, paired.b)]
            for name in (quantity, "asked")
        )
        if min(asked) > 0 and _differs(bad, asked):
            told = " against ".join(f"{x:.0f} of {n:.0f}" for x, n in zip(bad, asked, strict=True))
            found.append(f"{word}: {told} requests {what}")
    return found


def _differs(bad: Sequence[float], asked: Sequence[float]) -> bool:
    shares = [x / n for x, n in zip(bad, asked, strict=True)]
    if abs(shares[0] - shares[1]) >= FAILURES_DIFFER:
        return True
    table = np.array([[bad[k], asked[k] - bad[k]] for k in (0, 1)])
    return sum(bad) > 0 and float(fisher_exact(table).pvalue) < 0.05


def _lengths(totals: Totals, paired: Paired) -> list[str]:
    """Longer texts on one arm change batching and acceptance: a difference that is no speed."""
    mean = _mean_lengths(totals, paired)
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


def _mean_lengths(totals: Totals, paired: Paired) -> list[np.ndarray]:
    sides = (paired.a, paired.b)
    requests = [totals.of("requests", ids).sum(axis=0) for ids in sides]
    common = (requests[0] > 0) & (requests[1] > 0)
    return [
        totals.of("tokens", ids).sum(axis=0)[common] / count[common]
        for ids, count in zip(sides, requests, strict=True)
    ]


def _cache(totals: Totals, paired: Paired) -> list[str]:
    shares = [
        float(totals.of("cached_tokens", ids).sum()) / asked
        for ids in (paired.a, paired.b)
        if (asked := float(totals.of("prompt_tokens", ids).sum())) > 0
    ]
    if len(shares) < 2 or abs(shares[0] - shares[1]) < CACHE_DIFFERS:
        return []
    return [
        f"cache_hits_differ: {shares[0]:.1%} against {shares[1]:.1%} of prompt tokens were cached"
    ]


def _concurrency(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    if "concurrency_effective" not in a.columns:
        return []
    means = [_known_mean(side["concurrency_effective"].tolist()) for side in (a, b)]
    first, second = means
    if first is None or second is None or min(first, second) <= 0:
        return []
    if abs(math.log(first / second)) < CONCURRENCY_DIFFERS:
        return []
    return [f"concurrency_differs: {first:.1f} against {second:.1f} requests in flight"]


def _known_mean(values: Sequence[float]) -> float | None:
    known = [float(value) for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else None
