"""--fail-if: one condition over all matched cells of a comparison."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from specbench.analysis.comparison import CellComparison, Comparison, Estimate
from specbench.analysis.decompose import Factor
from specbench.analysis.gate import Answer, Condition, Range, judge
from specbench.analysis.judge import BEYOND_DRIFT, SMALL
from specbench.analysis.metrics import METRICS

MOST_TIMES = 10
"""An estimate nearer to the number than a tenth of its interval would need 100 times the data."""

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


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A cell in which a condition cannot be decided: `number` is its place, from 1.

    `launches` is about how many launches an arm would decide this condition there: the interval
    shrinks with their root. None where more launches would not: a flag withholds the cell, a
    figure was not measured, or the estimate lies at the number asked for.
    """

    number: int
    reason: str
    launches: int | None


def undecided(comparison: Comparison, condition: Condition) -> tuple[Undecided, ...]:
    """Name the cells in which a condition is open, why, and what would decide it."""
    found = []
    for number, cell in enumerate(comparison.cells, 1):
        figures = _figures(comparison, cell)
        if judge(condition, figures) != "unknown":
            continue
        if not figures:
            held = next(one for one in cell.doubts if one.split(":")[0] not in SMALL_EFFECTS)
            found.append(Undecided(number=number, reason=held, launches=None))
        else:
            found.append(_open(number, condition, figures, min(cell.launches)))
    return tuple(found)


def _open(
    number: int, condition: Condition, figures: Mapping[str, Range | None], launches: int
) -> Undecided:
    """Say which term of a condition is open in a cell, and how far it is from being decided."""
    terms = [term for clause in condition.clauses for term in clause]
    missing = [name for name, _, _ in terms if figures.get(name) is None]
    if missing:
        return Undecided(number=number, reason=f"{missing[0]} is not known", launches=None)
    reasons: list[str] = []
    needed: list[int | None] = []
    for name, _, limit in terms:
        known = figures[name]
        if known is not None and known.low <= limit <= known.high:
            reasons.append(f"{name} [{known.low:.3g}, {known.high:.3g}] holds {limit:g}")
            needed.append(_launches_for(known, limit, launches))
    most = None if None in needed else max((one for one in needed if one), default=None)
    return Undecided(number=number, reason="; ".join(reasons), launches=most)


def _launches_for(known: Range, limit: float, launches: int) -> int | None:
    """Give the launches at which an interval around the same estimate no longer holds a number."""
    if not (known.low > 0 and math.isfinite(known.high) and limit > 0):
        return None
    half = math.log(known.high / known.low) / 2
    apart = abs(math.log(limit) - math.log(known.low * known.high) / 2)
    if apart <= half / MOST_TIMES:
        return None
    return max(launches + 1, math.ceil(launches * (half / apart) ** 2))


def _figures(comparison: Comparison, cell: CellComparison) -> dict[str, Range | None]:
    slack = _slack(cell.doubts)
    if slack is None:
        return {}
    why = cell.decomposition
    this = cell.this_workload
    faster_is_more = comparison.better == "higher"
    is_speed = METRICS[comparison.metric].speed
    return {
        "ratio": _deciding(this, slack),
        "speedup": _speedup(this, slack, more=faster_is_more) if is_speed else None,
        "speedup_such": _speedup(cell.estimate, slack, more=faster_is_more) if is_speed else None,
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
