"""One matched cell: its two sides as they were measured, and how they are told."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.arms import Levels, MatchedCell
from specbench.analysis.cell_flags import (
    few_prompts,
    few_requests,
    flags_that_withhold,
    prompts_differ,
)
from specbench.analysis.comparison import CellComparison, Outcome
from specbench.analysis.confounds import Difference
from specbench.analysis.decompose import Decomposition, decompose
from specbench.analysis.gate import WITHHOLDS, flags_of
from specbench.analysis.judge import EQUIVALENT, Cell, Verdicts, estimate, measured, outcome
from specbench.analysis.metrics import Metric
from specbench.analysis.pairing import Paired, leak, pair, pairs_of, percentile_pairs, row_pairs
from specbench.analysis.totals import Array, Totals
from specbench.errors import ConfoundError, InputError
from specbench.stats.advice import advised
from specbench.stats.launches import Pairs
from specbench.stats.ratio import MedianRatio, median_ratio

SAME_PROMPTS = 0.95

OFF = 0.5
"""Probability from which a launch is flagged as outlying."""


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The two sides of a cell: their rows, what is judged of them, and the prompts of both."""

    a: pd.DataFrame
    b: pd.DataFrame
    cell: Cell
    prompts: int


def sides_of(
    trials: pd.DataFrame, requests: pd.DataFrame, totals: Totals, starts: Mapping[str, Any],
    matched: MatchedCell, metric: Metric, allow: tuple[str, ...],
) -> Sides:  # fmt: skip
    """Bring what was measured of a matched cell into pairs.

    Raises:
        ConfoundError: the sides were asked different prompts. InputError: nothing was measured.
    """
    a, b = (trials.iloc[list(rows)] for rows in (matched.rows_a, matched.rows_b))
    paired = pair(a, b, starts)
    n_a, n_b, common = prompts_differ(totals, paired)
    _refuse_other_prompts(n_a, n_b, common, allow)
    values = _values(metric.name, a, b)
    pairs: Pairs | None
    if metric.latency is not None:
        pairs = percentile_pairs(metric.latency, metric.percent, requests, totals, paired, values)
    else:
        pairs = pairs_of(metric, totals, paired, values) if metric.numerator else None
    if pairs is None or not len(pairs.value):
        pairs = row_pairs(paired, values)
    if not len(pairs.value):
        raise InputError(
            f"{metric.name} was not measured in {_words(matched.levels)}",
            hint="choose another --metric",
        )
    held = flags_that_withhold(totals, paired, a, b, speed=metric.speed)
    held += tuple(few_prompts(common, metric.percent) if metric.latency else ())
    few = few_requests(totals, paired, a, matched.levels.get("concurrency"))
    cell = measured(
        paired,
        pairs,
        leak(paired, starts),
        few if metric.windowed and "few_requests" not in allow else "",
        [one for one in held if one.split(":")[0] not in allow],
        same_prompts=not n_a or common >= SAME_PROMPTS * max(n_a, n_b),
    )
    return Sides(a=a, b=b, cell=cell, prompts=common)


def cell_of(
    matched: MatchedCell, sides: Sides, verdict: Verdicts, found: tuple[Difference, ...],
    metric: Metric, totals: Totals, cells: int, *, details: bool,
) -> CellComparison:  # fmt: skip
    """Tell one judged cell."""
    paired = sides.cell.paired
    outcomes = [outcome(one, metric, verdict.doubts, cells) for one in (verdict.such, verdict.this)]
    rates = [_rate(totals, ids) for ids in (paired.a, paired.b)]
    needed, advice = _advice(sides, verdict, outcomes[0][0])
    return CellComparison(
        levels=matched.levels,
        own_a=matched.own_a,
        own_b=matched.own_b,
        value_a=_mean(sides.a, metric.name),
        value_b=_mean(sides.b, metric.name),
        rate_a=rates[0][0],
        rate_b=rates[1][0],
        in_flight_a=rates[0][1],
        in_flight_b=rates[1][1],
        launches=(sides.a["block_id"].nunique(), sides.b["block_id"].nunique()),
        trials=(len(sides.a), len(sides.b)),
        requests=_requests(totals, sides),
        prompts=sides.prompts,
        this_workload=estimate(verdict.this),
        such_workloads=None if sides.cell.noise.same else estimate(verdict.such),
        median_prompt=_median(metric, totals, paired) if details else None,
        verdict=outcomes[0][0],
        verdict_this_workload=outcomes[1][0],
        why=outcomes[0][1],
        launches_needed=needed,
        advice=advice,
        doubts=verdict.doubts,
        flags=_flags(sides, verdict),
        decomposition=_decomposition(sides, totals, metric, cells) if details else None,
        differences=found,
    )


def _values(name: str, *sides: pd.DataFrame) -> dict[str, float]:
    if any(name not in side.columns for side in sides):
        return {}
    return {
        str(trial): float(value)
        for side in sides
        for trial, value in zip(side["trial_id"].tolist(), side[name].tolist(), strict=True)
        if value is not None and value > 0  # NaN is not above 0
    }


def _refuse_other_prompts(n_a: int, n_b: int, common: int, allow: tuple[str, ...]) -> None:
    if "prompts" in allow or not n_a or not n_b or common >= SAME_PROMPTS * min(n_a, n_b):
        return
    columns = {"prompts": (f"{n_a} prompts", f"{n_b} prompts, {common} of them the same")}
    raise ConfoundError(
        f"the arms were asked different prompts: {n_a} and {n_b}, {common} in common",
        columns=columns,
        hint="measure both arms with the same dataset and seed, or accept it with --allow prompts",
    )


def _mean(side: pd.DataFrame, name: str) -> float:
    """Geometric mean over launches of their trials' means."""
    logs: dict[str, list[float]] = {}
    for block, value in zip(side["block_id"].tolist(), side[name].tolist(), strict=True):
        if value is not None and value > 0:
            logs.setdefault(block, []).append(math.log(value))
    return math.exp(float(np.mean([float(np.mean(own)) for own in logs.values()])))


def _rate(totals: Totals, trials: Sequence[str]) -> tuple[float | None, float | None]:
    """Tokens a second and slot in the steady window, and the mean number of slots busy there."""
    tokens = float(totals.of("window_tokens", trials).sum())
    busy = float(totals.of("window_ns", trials).sum())
    rows = [totals.place[trial] for trial in trials if trial in totals.place]
    start, close = (ends[rows] for ends in totals.windows)
    span = float(np.nansum(close - start))
    if not busy > 0 or not span > 0:
        return None, None
    return tokens / (busy / 1e9), busy / span


def _requests(totals: Totals, sides: Sides) -> tuple[int, int]:
    counts = [
        int(totals.of("requests", side["trial_id"].astype(str).tolist()).sum())
        for side in (sides.a, sides.b)
    ]
    return counts[0], counts[1]


def _median(metric: Metric, totals: Totals, paired: Paired) -> MedianRatio | None:
    """Median over prompts of each prompt's own ratio."""
    if not metric.numerator:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: list[Array] = [
            np.log(
                totals.of(metric.numerator, ids).sum(axis=0)
                / totals.of(metric.denominator, ids).sum(axis=0)
            )
            for ids in (paired.a, paired.b)
        ]
        both = logs[1] - logs[0]
    return median_ratio(both[np.isfinite(both)])


def _flags(sides: Sides, verdict: Verdicts) -> tuple[str, ...]:
    found = [f for f in (*flags_of(sides.a), *flags_of(sides.b)) if f not in WITHHOLDS]
    found += ["few_requests"] if sides.cell.few else []
    found += ["outlying_launch"] if any(p > OFF for p in verdict.answered.group.off) else []
    return tuple(dict.fromkeys(found))


def _decomposition(
    sides: Sides, totals: Totals, metric: Metric, cells: int
) -> Decomposition | None:
    if not metric.speed:
        return None
    names = ("tok_s", "accept_len", "step_ms")
    values = {name: _values(name, sides.a, sides.b) for name in names}
    return decompose(totals, sides.cell.paired, values, metric.prior, cells)


def _advice(sides: Sides, verdict: Verdicts, told: Outcome) -> tuple[int | None, str]:
    """Say how many launches would decide an undecided cell."""
    if told != "inconclusive" or verdict.doubts:
        return None, ""
    noise, group = sides.cell.noise, verdict.answered.group
    found = advised(verdict.such, group, noise, EQUIVALENT, such=not noise.same)
    if found.launches is not None:
        more = found.launches - group.launches
        return found.launches, (
            f"{found.launches} launches an arm ({more} more) would likely decide it"
        )
    if found.prompts_limit:
        return None, "more launches would not decide it: the number of prompts is the limit"
    return None, "no sensible number of launches would decide a difference this small"


def _words(levels: Levels) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items() if level is not None)
