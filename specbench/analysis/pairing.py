"""From the trials of a matched cell to pairs: launches by round, trials by their place in them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.analysis.metrics import Metric, latency_ms
from specbench.analysis.totals import Array, Totals
from specbench.model.columns import Latency
from specbench.stats.bootstrap import log_percentile_ratio
from specbench.stats.components import pooled_square
from specbench.stats.effect import Variance
from specbench.stats.launches import Pairs

ALWAYS_LATER = 0.5


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """A cell's trials in pairs: `a[j]` and `b[j]` are of the same round of launches `launch[j]`.

    `blocks` are the pairs of launches. `left` counts trials without a partner, on each side.
    """

    launch: tuple[int, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]
    left: tuple[int, int]


def places(trials: pd.DataFrame) -> dict[str, Any]:
    """Give each launch the start of its first trial, where it is known."""
    if "started_at" not in trials.columns:
        return {}
    first: dict[str, Any] = {}
    known = trials["started_at"].notna()
    for block, start in zip(
        trials["block_id"][known].tolist(), trials["started_at"][known].tolist(), strict=True
    ):
        first[block] = start if block not in first else min(first[block], start)
    return first


def pair(a: pd.DataFrame, b: pd.DataFrame, starts: Mapping[str, Any]) -> Paired:
    """Pair launches by their round where both sides name it, else by order of start.

    Trials are paired by rank inside their launches; what has no partner is left out and counted.
    """
    sides = [_launches(side, starts) for side in (a, b)]
    rounds = [_rounds(side) for side in (a, b)]
    if rounds[0] and rounds[1]:
        common = sorted(set(rounds[0]) & set(rounds[1]))
        keys = [(rounds[0][one], rounds[1][one]) for one in common]
    else:
        keys = list(zip(sides[0], sides[1], strict=False))
    launch: list[int] = []
    pairs: list[tuple[str, str]] = []
    for number, (block_a, block_b) in enumerate(keys):
        mine = list(zip(sides[0][block_a], sides[1][block_b], strict=False))
        launch += [number] * len(mine)
        pairs += mine
    return Paired(
        launch=tuple(launch),
        a=tuple(one for one, _ in pairs),
        b=tuple(one for _, one in pairs),
        blocks=tuple(keys),
        left=(len(a) - len(pairs), len(b) - len(pairs)),
    )


def _launches(side: pd.DataFrame, starts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Trials by launch: launches by start (else by name), trials by replicate."""
    rank = side["replicate"].tolist() if "replicate" in side.columns else [0] * len(side)
    rows = sorted(zip(side["block_id"], rank, side["trial_id"], strict=True), key=lambda r: r[1:])
    found: dict[str, list[str]] = {}
    for block, _, trial in rows:
        found.setdefault(str(block), []).append(str(trial))
    if all(block in starts for block in found):
        return {block: found[block] for block in sorted(found, key=lambda b: (starts[b], b))}
    return {block: found[block] for block in sorted(found)}


def _rounds(side: pd.DataFrame) -> dict[int, str]:
    """Launch by round; empty where rounds are not named, or are no names of launches."""
    if "launch" not in side.columns or side["launch"].isna().any():
        return {}
    found = dict(zip(side["launch"].tolist(), side["block_id"].astype(str).tolist(), strict=True))
    return found if len(found) == side["block_id"].nunique() else {}


def leak(paired: Paired, starts: Mapping[str, Any]) -> float | None:
    """Mean place of b's launches in the run less that of a's, from -1 to 1; None if unknown.

    Where one arm came later in every one of several rounds it is half at the least: what slows a
    machine within each round, and is over by the next, would fall on that arm alone.
    """
    blocks = [block for pair in paired.blocks for block in pair]
    if any(block not in starts for block in blocks):
        return None
    if len({starts[block] for block in blocks}) < len(set(blocks)):
        return None
    order = {block: place for place, block in enumerate(sorted(blocks, key=starts.__getitem__))}
    gaps = np.array([order[b] - order[a] for a, b in paired.blocks])
    place = float(gaps.mean()) / max(1, len(blocks) - 1)
    always = len(gaps) > 1 and abs(np.sign(gaps).sum()) == len(gaps)
    return float(np.sign(place)) * max(abs(place), ALWAYS_LATER) if always else place


def pairs_of(metric: Metric, totals: Totals, paired: Paired, values: Mapping[str, float]) -> Pairs:
    """Log ratios and prompt shares of a cell's pairs; pairs that were not measured are left out.

    `values` is the metric's column by trial_id: where it is missing the trial has no figure.
    """
    a, b = (side_of(metric, totals, ids) for ids in (paired.a, paired.b))
    shown = np.array(
        [
            _known(values.get(one)) and _known(values.get(two))
            for one, two in zip(paired.a, paired.b, strict=True)
        ],
        dtype=bool,
    )
    good = shown & np.isfinite(a[0]) & np.isfinite(b[0])
    launch = np.asarray(paired.launch, dtype=np.int64)[good]
    _, numbered = np.unique(launch, return_inverse=True)
    return Pairs(
        launch=numbered.astype(np.int64),
        value=(b[0] - a[0])[good],
        share=(b[1] - a[1])[good],
        met=(a[2] | b[2])[good],
    )


def _known(value: float | None) -> bool:
    return value is not None and value > 0  # NaN is not above 0


def side_of(
    metric: Metric, totals: Totals, trials: Sequence[str]
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Log ratio of each trial, the share of each prompt in it, and which were asked."""
    numerator = totals.of(metric.numerator, trials)
    denominator = totals.of(metric.denominator, trials)
    over, under = numerator.sum(axis=1), denominator.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = np.log(over / under)
        share: Array = numerator / over[:, None] - denominator / under[:, None]
    logs[~np.isfinite(logs)] = np.nan
    return logs, np.nan_to_num(share), denominator > 0


def row_pairs(paired: Paired, values: Mapping[str, float]) -> Pairs:
    """Log ratios of the rows' own figures, where requests do not show how they came about.

    Trials of one launch then show the noise of requests and prompts; where each launch has one,
    their noise stands in the scatter of launches, and a single pair shows nothing.
    """
    known = [
        (launch, math.log(values[two] / values[one]))
        for launch, one, two in zip(paired.launch, paired.a, paired.b, strict=True)
        if _known(values.get(one)) and _known(values.get(two))
    ]
    _, launch = np.unique([one[0] for one in known], return_inverse=True)
    value = np.array([one[1] for one in known])
    groups = [value[launch == number] for number in np.unique(launch)]
    inside = pooled_square(groups)
    if inside.df:
        unseen = Variance(value=inside.value / len(value), df=inside.df)
    else:
        unseen = Variance(value=0.0 if len(groups) > 1 else math.nan)
    return Pairs(launch=np.asarray(launch, dtype=np.int64), value=value, unseen=unseen)


def percentile_pairs(
    latency: Latency, percent: float, requests: pd.DataFrame, totals: Totals, paired: Paired,
    values: Mapping[str, float],
) -> Pairs:  # fmt: skip
    """Log ratios of a latency percentile; prompts and requests together by a bootstrap."""
    known = [
        (launch, math.log(values[two]) - math.log(values[one]), one, two)
        for launch, one, two in zip(paired.launch, paired.a, paired.b, strict=True)
        if _known(values.get(one)) and _known(values.get(two))
    ]
    _, numbered = np.unique([one[0] for one in known], return_inverse=True)
    sides = [
        _latencies(latency, requests, totals, ids)
        for ids in ({one[2] for one in known}, {one[3] for one in known})
    ]
    unseen = Variance(value=math.nan, df=1)
    if all(len(side[0]) for side in sides):
        effect = log_percentile_ratio(
            sides[0], sides[1], percent=percent, prompts=len(totals.prompts)
        )
        prompts = len(np.unique(np.concatenate([side[1] for side in sides])))
        if prompts > 1 and effect.se > 0:
            unseen = Variance(value=effect.se**2, df=prompts - 1)
    return Pairs(
        launch=np.asarray(numbered, dtype=np.int64),
        value=np.array([one[1] for one in known]),
        unseen=unseen,
    )


def _latencies(
    latency: Latency, requests: pd.DataFrame, totals: Totals, trials: set[str]
) -> tuple[Array, np.ndarray]:
    usable = (requests["phase"] == "measured") & (requests["status"] == "ok")
    values = latency_ms(requests, latency)
    rows = (usable & requests["trial_id"].isin(list(trials))).to_numpy() & np.isfinite(values)
    codes = {name: i for i, name in enumerate(totals.prompts)}
    prompt = requests["prompt_id"].astype(str).map(codes).to_numpy()
    return values[rows], prompt[rows].astype(np.int64)
