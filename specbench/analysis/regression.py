"""--fail-if: one condition over all matched cells of a comparison."""

from specbench.analysis.comparison import CellComparison, Comparison, Estimate
from specbench.analysis.decompose import Factor
from specbench.analysis.gate import Answer, Condition, Range, judge
from specbench.analysis.metrics import METRICS


def regressed(comparison: Comparison, condition: Condition) -> Answer:
    """Decide a condition: `yes` where any cell meets it, `no` only where every cell does not.

    Intervals hold simultaneously over the cells; a cell whose verdict is withheld is `unknown`.
    """
    answers = {judge(condition, _figures(comparison, cell)) for cell in comparison.cells}
    if "yes" in answers:
        return "yes"
    return "unknown" if "unknown" in answers or not answers else "no"


def _figures(comparison: Comparison, cell: CellComparison) -> dict[str, Range | None]:
    if cell.doubts:
        return {}
    why = cell.decomposition
    this, such = cell.this_workload, cell.such_workloads
    faster_is_more = comparison.better == "higher"
    is_speed = METRICS[comparison.metric].speed
    return {
        "ratio": _simultaneous(this),
        "speedup": _speedup(this, more=faster_is_more) if is_speed else None,
        "speedup_such": _speedup(such, more=faster_is_more) if is_speed and such else None,
        "accept_len_ratio": _range(why.accept_len) if why else _accept_len(comparison, this),
        "step_rate_ratio": _range(why.step_rate) if why else None,
        "remainder_ratio": _range(why.remainder) if why else None,
    }


def _accept_len(comparison: Comparison, this: Estimate) -> Range | None:
    return _simultaneous(this) if comparison.metric == "accept_len" else None


def _speedup(estimate: Estimate, *, more: bool) -> Range:
    found = _simultaneous(estimate)
    if more:
        return found
    return Range(low=1 / found.high, high=1 / found.low if found.low > 0 else float("inf"))


def _simultaneous(estimate: Estimate) -> Range:
    low, high = estimate.simultaneous
    return Range(low=low, high=high)


def _range(factor: Factor) -> Range:
    return Range(low=factor.low, high=factor.high)
