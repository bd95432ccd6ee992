"""Comparisons of a report's arms, each made once, as `specbench compare` makes them."""

from functools import lru_cache
from itertools import combinations

from specbench.analysis.compare import compare
from specbench.analysis.comparison import Comparison
from specbench.errors import ConfoundError, InputError
from specbench.report import cells
from specbench.report.inputs import Evidence
from specbench.report.noise_floors import floor_of
from specbench.stats.launches import LaunchFloor

METRIC = "tok_s"
MOST_ARMS = 5
"""Arms up to which every pair is compared; of more, each with the control only."""


def judged(evidence: Evidence, a: str, b: str) -> Comparison | None:
    """Compare arm b with arm a in all matched cells; None where that is refused."""
    return _judged(evidence, a, b, floor_for(evidence, a, b))


@lru_cache(maxsize=64)
def _judged(evidence: Evidence, a: str, b: str, floor: LaunchFloor | None) -> Comparison | None:
    try:
        return compare(evidence.compared, evidence.requests, evidence.blocks, a, b, floor=floor)
    except (ConfoundError, InputError):
        return None


def floor_for(evidence: Evidence, a: str, b: str, metric: str = METRIC) -> LaunchFloor | None:
    """Give the stored noise floor that a comparison of two arms rests on."""
    trials = evidence.trials
    mine = trials[trials["algorithm"].isin([a, b])]
    return floor_of(
        evidence.path,
        hosts={str(host) for host in trials["host"].dropna()} if "host" in trials else set(),
        metric=metric,
        blocks=set(mine["block_id"].astype(str)),
    )


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
