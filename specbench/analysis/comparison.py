"""The answer of a comparison, as it is shown and written."""

from collections import Counter
from typing import Literal

import msgspec

from specbench.analysis.acceptance import AcceptanceProfile
from specbench.analysis.arms import Levels
from specbench.analysis.confounds import Difference
from specbench.analysis.crossover import Crossover
from specbench.analysis.decompose import Decomposition
from specbench.analysis.gate import Lossless
from specbench.analysis.pareto import Choice
from specbench.model.matrix import Level
from specbench.stats.ratio import MedianRatio

Outcome = Literal["faster", "slower", "higher", "lower", "no_difference", "mixed", "inconclusive"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio b/a of the metric and its intervals.

    `low`/`high` is the 95 % interval that decides a direction, `low_90`/`high_90` the 90 % one that
    decides no difference: both hold together in all cells of the family, and `p_adjusted` is their
    p. `low_alone`/`high_alone` and `p` are of this figure alone. `detectable_pct` is the smallest
    difference that this much data finds with 80 % power. NaN or infinite (null in JSON) where the
    data cannot tell.
    """

    ratio: float
    low: float
    high: float
    low_90: float
    high_90: float
    low_alone: float
    high_alone: float
    p: float
    p_adjusted: float
    detectable_pct: float


class CellComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One matched cell. `levels` are equal on both sides, `own_a`/`own_b` belong to one side.

    `this_workload` holds the prompts fixed, `such_workloads` takes them as a sample of prompts;
    None where the two cannot be told apart. `value_*` are geometric means of the metric's column,
    `rate_*` tokens a second and slot in the steady window and `in_flight_*` the mean number of
    requests there. `launches`, `trials` and `requests` are counted for each side, `prompts` are
    those of both. `doubts` withhold the verdict; `flags` are what else the rows carry.
    `launches_needed` counts launches an arm from the first on, and `advice` says it in words.
    """

    levels: Levels
    own_a: Levels
    own_b: Levels
    value_a: float
    value_b: float
    rate_a: float | None
    rate_b: float | None
    in_flight_a: float | None
    in_flight_b: float | None
    launches: tuple[int, int]
    trials: tuple[int, int]
    requests: tuple[int, int]
    prompts: int
    this_workload: Estimate
    such_workloads: Estimate | None
    median_prompt: MedianRatio | None
    verdict: Outcome
    verdict_this_workload: Outcome
    why: str
    launches_needed: int | None
    advice: str
    doubts: tuple[str, ...]
    flags: tuple[str, ...]
    decomposition: Decomposition | None
    differences: tuple[Difference, ...]

    @property
    def estimate(self) -> Estimate:
        """What is told first: for such workloads, where that can be said, else for this one."""
        return self.such_workloads or self.this_workload


class Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """One answer over several matched cells, of all of them or of those with one level.

    The mean of their effects, each cell with equal weight, from a model in which cells of one
    launch share its error. `such_cells` speaks of other cells of the kind; `tau_pct` is how much
    the true effects differ between cells (a standard deviation); None for a single cell. Levels
    of one factor are a family; `differs_p` is the p of equal effects at all of them.
    """

    scope: str
    factor: str | None
    level: Level
    cells: int
    withheld: int
    this_workload: Estimate
    such_workloads: Estimate | None
    such_cells: Estimate | None
    tau_pct: float | None
    differs_p: float | None
    verdict: Outcome
    verdict_this_workload: Outcome
    why: str

    @property
    def estimate(self) -> Estimate:
        """What is told first: for such workloads, where that can be said, else for this one."""
        return self.such_workloads or self.this_workload


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One side as a whole."""

    name: str
    lossless: Lossless
    launches: int
    trials: int
    acceptance: AcceptanceProfile | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """b against a: a ratio above 1 says that b has more of the metric.

    `verdict` and `verdict_this_workload` answer the whole question: `mixed` only where two cells
    are decided in opposite directions, else the verdict of `pooled`, the mean over all cells that
    support one. `by` holds the same for each temperature and each concurrency.
    `coupled` differences follow from the algorithm, `allowed` ones were accepted by the user,
    `unrecorded` ones cannot be ruled out. `ranking` holds the configurations of both arms at each
    load.
    """

    schema: int = 2
    metric: str
    better: Literal["higher", "lower"]
    a: ArmSummary
    b: ArmSummary
    cells: tuple[CellComparison, ...]
    pooled: Pooled
    by: tuple[Pooled, ...]
    verdict: Outcome
    verdict_this_workload: Outcome
    declared: tuple[str, ...]
    coupled: tuple[Difference, ...]
    allowed: tuple[Difference, ...]
    unrecorded: tuple[Difference, ...]
    allow: tuple[str, ...]
    unmatched: tuple[str, ...]
    crossovers: tuple[Crossover, ...]
    ranking: tuple[Choice, ...]
    launch_noise: str
    caveats: tuple[str, ...]

    def __repr__(self) -> str:
        """Show a terminal the verdicts; the fields have the rest."""
        counts = Counter(str(cell.verdict) for cell in self.cells)
        told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        lines = [f"  {_words(cell)}: {_interval(cell)} {cell.verdict}" for cell in self.cells]
        head = f"<Comparison of {self.metric}: {self.b.name} over {self.a.name}; {told}>"
        return "\n".join([head, *lines])


def _words(cell: CellComparison) -> str:
    levels = {**cell.levels, **cell.own_b}
    return ", ".join(f"{name} {level}" for name, level in levels.items() if level is not None)


def _interval(cell: CellComparison) -> str:
    estimate = cell.estimate
    return f"{estimate.ratio:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"
