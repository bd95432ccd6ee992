"""Acceptance in detail: by draft position, category, output position, and use of the budget."""

from collections.abc import Sequence
from itertools import chain, pairwise

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.stats.ratio import Sums, log_ratio

POSITIONS = (0, 32, 128, 512, 2048)
"""Lower bounds of the bins of output position, in tokens."""

SAMPLE = 20_000
"""Chunk lists of at most so many requests are read, taken evenly: the rest adds no precision."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A pooled figure of one slice, with its 95 % interval over prompts; `n` prompts or steps."""

    name: str
    value: float
    low: float | None
    high: float | None
    n: int


class AcceptanceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's acceptance. Empty where the server gave no counters.

    `by_depth[k]`: share of verify steps that accepted draft k+1, of those that accepted k;
    `by_category` and `by_output_position`: accept_len (tokens a step); `utilisation`: accepted
    per proposed node (a tree proposes every node, so it falls with the budget by design).
    """

    by_depth: tuple[Share, ...]
    by_category: tuple[Share, ...]
    by_output_position: tuple[Share, ...]
    utilisation: float | None


def profile(requests: pd.DataFrame) -> AcceptanceProfile:
    """Profile the measured, finished requests of one arm."""
    kept = requests[(requests["phase"] == "measured") & (requests["status"] == "ok")]
    kept = kept[kept["spec_verify_ct"].notna() & kept["spec_accepted"].notna()]
    kept = kept[kept["spec_verify_ct"] > 0]
    proposed = float(kept["spec_proposed"].sum()) if "spec_proposed" in kept else 0.0
    return AcceptanceProfile(
        by_depth=_by_depth(kept),
        by_category=_by_category(kept),
        by_output_position=_by_output_position(kept),
        utilisation=float(kept["spec_accepted"].sum()) / proposed if proposed > 0 else None,
    )


def marginal_acceptance(points: Sequence[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Give the accepted tokens that each extra node buys, between neighbouring budgets.

    `points` are (budget, accept_len); returns (from, to, tokens a step and node). Measured
    budgets only: nothing is extrapolated.
    """
    ordered = sorted(points)
    return [
        (low, high, (accept_high - accept_low) / (high - low))
        for (low, accept_low), (high, accept_high) in pairwise(ordered)
        if high > low
    ]


def _by_depth(kept: pd.DataFrame) -> tuple[Share, ...]:
    """Pool histograms by the most drafts of their trial: a share counts only steps that could."""
    by_most: dict[int, NDArray[np.float64]] = {}
    told = kept[[h is not None and np.ndim(h) == 1 for h in kept["spec_histogram"].tolist()]]
    trial = told["trial_id"] if "trial_id" in told else np.zeros(len(told))
    for _, rows in told.groupby(trial, observed=True, sort=False):
        histogram = _pooled_histogram(rows["spec_histogram"].tolist())
        if len(histogram):
            seen = by_most.get(len(histogram), np.zeros(len(histogram)))
            by_most[len(histogram)] = seen + histogram
    reached = [histogram[::-1].cumsum()[::-1] for histogram in by_most.values()]
    shares = []
    for k in range(max(map(len, reached), default=1) - 1):
        could = [one for one in reached if len(one) > k + 1]
        hits, tried = (float(sum(one[at] for one in could)) for at in (k + 1, k))
        shares += [_binomial(str(k + 1), hits, tried)] if tried > 0 else []
    return tuple(shares)


def _pooled_histogram(lists: list[list[int]]) -> NDArray[np.float64]:
    lengths = np.array([len(h) for h in lists])
    values = np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=int(lengths.sum()))
    depth = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.bincount(depth, weights=values).astype(np.float64)


def _binomial(name: str, hits: float, trials: float) -> Share:
    """Share with Wilson's interval (1927); steps are counted, prompts are not clustered here."""
    z = 1.959964
    p = hits / trials
    middle = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(p * (1 - p) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    return Share(
        name=name, value=p, low=float(middle - half), high=float(middle + half), n=int(trials)
    )


def _by_category(kept: pd.DataFrame) -> tuple[Share, ...]:
    if "category" not in kept or not kept["category"].astype(bool).any():
        return ()
    sums = kept.groupby(["category", "prompt_id"], sort=True, observed=True)[
        ["spec_accepted", "spec_verify_ct"]
    ].sum()
    return tuple(
        _pooled(
            str(name), rows["spec_accepted"].to_numpy(float), rows["spec_verify_ct"].to_numpy(float)
        )
        for name, rows in sums.groupby(level=0)
    )


def _pooled(name: str, accepted: NDArray[np.float64], steps: NDArray[np.float64]) -> Share:
    effect = log_ratio(Sums(numerator=accepted + steps, denominator=steps))
    known = len(steps) > 1
    low, high = effect.ratio_interval() if known else (None, None)
    return Share(name=name, value=effect.ratio, low=low, high=high, n=len(steps))


def _by_output_position(kept: pd.DataFrame) -> tuple[Share, ...]:
    """Tokens a verify step by place in the output, from stream chunks that are verify steps.

    Used only for requests whose chunks after the first are as many as their verify steps; where
    chunks were coalesced a chunk is no step.
    """
    chosen = kept.iloc[:: max(1, len(kept) // SAMPLE)]
    lists = [
        np.asarray(tokens)
        for tokens, steps in zip(
            chosen["chunk_tokens"].tolist(), chosen["spec_verify_ct"].tolist(), strict=True
        )
        if tokens is not None and len(tokens) - 1 == steps
    ]
    if not lists:
        return ()
    tokens = np.concatenate([one[1:] for one in lists]).astype(float)
    start = np.concatenate([np.cumsum(one)[:-1] for one in lists])
    place = np.digitize(start, POSITIONS[1:])
    names = [f"{low}-{high}" for low, high in pairwise(POSITIONS)]
    names.append(f"{POSITIONS[-1]}+")
    return tuple(
        Share(
            name=names[i], value=float(tokens[place == i].mean()), low=None, high=None,
            n=int((place == i).sum()),
        )
        for i in np.unique(place)
    )  # fmt: skip
