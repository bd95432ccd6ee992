"""--fail-if: one condition over all matched cells of a comparison."""

import math
from collections.abc import Sequence

from specbench.analysis.comparison import CellComparison, Comparison, Estimate
from specbench.analysis.decompose import Factor
from specbench.analysis.gate import Answer, Condition, Range, judge
from specbench.analysis.judge import BEYOND_DRIFT, SMALL
from specbench.analysis.metrics import METRICS

SMALL_EFFECTS = {"few_requests": SMALL, "order": BEYOND_DRIFT}
"""Flags that only a small effect cannot stand against, and how small."""


def regressed(comparison: Comparison, condition: Condition) -> Answer:
    """Decide a condition: `yes` where any cell meets it, `no` only where every cell does not.

    The intervals are those that are printed and decide the verdicts: they hold in all cells
    together. A cell whose verdict is withheld is `unknown`; a flag that withholds small effects
    only widens the speeds by that.
    """
    answers = {judge(condition, _figures(comparison, cell)) for cell in comparison.cells}
    if "yes" in answers:
        return "yes"
    return "unknown" if "unknown" in answers or not answers else "no"


def _figures(comparison: Comparison, cell: CellComparison) -> dict[str, Range | None]:
    slack = _slack(cell.doubts)
    if slack is None:
        return {}
    why = cell.decomposition
    this = cell.this_workload
    such = cell.such_workloads or this
    faster_is_more = comparison.better == "higher"
    is_speed = METRICS[comparison.metric].speed
    return {
        "ratio": _deciding(this, slack),
        "speedup": _speedup(this, slack, more=faster_is_more) if is_speed else None,
        "speedup_such": _speedup(such, slack, more=faster_is_more) if is_speed else None,
        "accept_len_ratio": _range(why.accept_len) if why else _accept_len(comparison, this),
        "step_rate_ratio": _range(why.step_rate) if why else None,
        "remainder_ratio": _range(why.remainder) if why else None,
    }


def _accept_len(comparison: Comparison, this: Estimate) -> Range | None:
    return _deciding(this) if comparison.metric == "accept_len" else None


def _speedup(estimate: Estimate, slack: float, *, more: bool) -> Range:
    found = _deciding(estimate, slack)
    if more:
        return found
    return Range(low=1 / found.high, high=1 / found.low if found.low > 0 else float("inf"))


def _deciding(estimate: Estimate, slack: float = 1.0) -> Range:
    """Give the interval that is printed and decides."""
    return Range(low=estimate.low / slack, high=estimate.high * slack)


def _slack(doubts: Sequence[str]) -> float | None:
    """Factor by which doubts of small effects widen a speed; None where a doubt withholds all."""
    factor = 1.0
    for doubt in doubts:
        least = SMALL_EFFECTS.get(doubt.split(":")[0])
        if least is None:
            return None
        factor *= math.exp(least)
    return factor


def _range(factor: Factor) -> Range:
    return Range(low=factor.low, high=factor.high)
