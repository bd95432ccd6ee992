"""Comparisons of a report's arms, each made once, as `specbench compare` makes them."""

from functools import lru_cache
from itertools import combinations

from specbench.analysis.compare import compare
from specbench.analysis.comparison import Comparison
from specbench.errors import ConfoundError, InputError
from specbench.report import cells
from specbench.report.inputs import Evidence

MOST_ARMS = 5
"""Arms up to which every pair is compared; of more, each with the control only."""


@lru_cache(maxsize=64)
def judged(evidence: Evidence, a: str, b: str) -> Comparison | None:
    """Compare arm b with arm a in all matched cells; None where that is refused."""
    try:
        return compare(evidence.trials, evidence.requests, evidence.blocks, a, b)
    except (ConfoundError, InputError):
        return None


def arms_of(evidence: Evidence) -> list[str]:
    """Name the arms that were measured, the control first."""
    good = cells.usable(evidence.trials)
    found = list(dict.fromkeys(str(arm) for arm in good["algorithm"].dropna()))
    return sorted(found, key=lambda arm: arm != evidence.control)


def pairs_of_arms(evidence: Evidence) -> list[tuple[str, str]]:
    """List the pairs that a reader would ask for, those with the control first."""
    arms = arms_of(evidence)
    if len(arms) > MOST_ARMS:
        return [(evidence.control, arm) for arm in arms if arm != evidence.control]
    return list(combinations(arms, 2))
