"""From what was measured in matched cells to verdicts that share one error rate."""

import math
from collections.abc import Iterable, Sequence

import msgspec
import pandas as pd

from specbench.analysis.arms import MatchedCell
from specbench.analysis.comparison import CellComparison, Estimate, Outcome
from specbench.analysis.confounds import Difference
from specbench.analysis.decompose import decompose
from specbench.analysis.gate import WITHHOLDS, flags_of
from specbench.analysis.metrics import Metric
from specbench.analysis.noise_floor import launches_of
from specbench.stats.effect import Effect
from specbench.stats.multiple import holm
from specbench.stats.nesting import arm_mean
from specbench.stats.power import launches_needed
from specbench.stats.ratio import MedianRatio

EQUIVALENT = math.log(1.02)
"""Differences below 2 % are called no difference, when the whole interval is below."""

ALPHA = 0.05


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one matched cell says before all cells are judged together."""

    cell: MatchedCell
    a: pd.DataFrame
    b: pd.DataFrame
    this: Effect
    such: Effect | None
    median: MedianRatio | None
    prompts: int
    doubts: tuple[str, ...]
    differences: tuple[Difference, ...]


def judge(measured: Sequence[Measured], metric: Metric) -> list[CellComparison]:
    """Judge all cells together: the verdicts share one error rate."""
    this_p = holm([m.this.p_value for m in measured])
    such_p = holm([(m.such or m.this).p_value for m in measured])
    return [
        _cell(m, metric, this, such, len(measured))
        for m, this, such in zip(measured, this_p, such_p, strict=True)
    ]


def _cell(m: Measured, metric: Metric, this_p: float, such_p: float, cells: int) -> CellComparison:
    effect = m.such or m.this
    verdict, why = _verdict(effect, such_p, metric, m.doubts)
    launches = (int(m.a["block_id"].nunique()), int(m.b["block_id"].nunique()))
    values = [math.exp(arm_mean(launches_of(side, metric.name))) for side in (m.a, m.b)]
    return CellComparison(
        levels=m.cell.levels,
        own_a=m.cell.own_a,
        own_b=m.cell.own_b,
        value_a=values[0],
        value_b=values[1],
        launches=launches,
        trials=(len(m.a), len(m.b)),
        prompts=m.prompts,
        this_workload=_estimate(m.this, this_p, cells),
        such_workloads=_estimate(m.such, such_p, cells) if m.such else None,
        median_prompt=m.median,
        verdict=verdict,
        verdict_this_workload=_verdict(m.this, this_p, metric, m.doubts)[0],
        why=why,
        launches_needed=launches_needed(effect, min(launches), abs(effect.value) or EQUIVALENT)
        if verdict == "inconclusive" and not m.doubts
        else None,
        doubts=m.doubts,
        flags=tuple(
            flag
            for flag in dict.fromkeys((*flags_of(m.a), *flags_of(m.b)))
            if flag not in WITHHOLDS
        ),
        decomposition=decompose(m.a, m.b, restart=metric.restart, trial=metric.trial)
        if metric.speed
        else None,
        differences=m.differences,
    )


def _estimate(effect: Effect, p_adjusted: float, cells: int) -> Estimate:
    low, high = effect.ratio_interval()
    detectable = effect.minimum_detectable()
    return Estimate(
        ratio=effect.ratio,
        low=low,
        high=high,
        p=effect.p_value,
        p_adjusted=p_adjusted,
        simultaneous=effect.ratio_interval(1 - ALPHA / cells),
        detectable_pct=100 * math.expm1(detectable) if detectable < 700 else math.inf,
    )


def _verdict(
    effect: Effect, p_adjusted: float, metric: Metric, held: Sequence[str]
) -> tuple[Outcome, str]:
    if held:
        return "inconclusive", held[0]
    low, high = effect.interval()
    if p_adjusted < ALPHA:
        return _direction(effect.value, metric), f"p = {p_adjusted:.2g} over all matched cells"
    if low > -EQUIVALENT and high < EQUIVALENT:
        return "no_difference", "the whole interval lies within 2 %"
    detectable = effect.minimum_detectable()
    if not math.isfinite(detectable):
        return "inconclusive", "one prompt and one launch show no variation"
    return "inconclusive", (
        f"the interval holds no difference; {100 * math.expm1(detectable):.1f} % would be found"
    )


def _direction(value: float, metric: Metric) -> Outcome:
    more = value > 0
    if not metric.speed:
        return "higher" if more else "lower"
    return "faster" if more == (metric.better == "higher") else "slower"


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Give the outcome that all cells share, else `mixed`."""
    found = set(outcomes)
    return found.pop() if len(found) == 1 else "mixed"
