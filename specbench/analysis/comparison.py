"""The answer of a comparison, as it is shown and written."""

from collections import Counter
from html import escape
from typing import Literal

import msgspec

from specbench.analysis.acceptance import AcceptanceProfile
from specbench.analysis.arms import Levels
from specbench.analysis.confounds import Difference
from specbench.analysis.crossover import Crossover
from specbench.analysis.decompose import Decomposition
from specbench.analysis.gate import Lossless
from specbench.analysis.pareto import Choice
from specbench.stats.ratio import MedianRatio

Outcome = Literal["faster", "slower", "higher", "lower", "no_difference", "mixed", "inconclusive"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio b/a of the metric with its 95 % interval.

    `p_adjusted` is Holm's over all matched cells, `simultaneous` the interval that holds in all of
    them together with 95 % (Bonferroni); `detectable_pct` the smallest difference that
    this much data finds with 80 % power. NaN or infinite (null in JSON) where the data cannot
    tell.
    """

    ratio: float
    low: float
    high: float
    p: float
    p_adjusted: float
    simultaneous: tuple[float, float]
    detectable_pct: float


class CellComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One matched cell. `levels` are equal on both sides, `own_a`/`own_b` belong to one side.

    `this_workload` holds the prompts fixed, `such_workloads` takes them as a sample of prompts;
    None where the metric has no form by prompt. `value_*` are geometric means. `doubts` withhold
    the verdict; `flags` are what else the rows carry. `prompts` are counted on both sides.
    """

    levels: Levels
    own_a: Levels
    own_b: Levels
    value_a: float
    value_b: float
    launches: tuple[int, int]
    trials: tuple[int, int]
    prompts: int
    this_workload: Estimate
    such_workloads: Estimate | None
    median_prompt: MedianRatio | None
    verdict: Outcome
    verdict_this_workload: Outcome
    why: str
    launches_needed: int | None
    doubts: tuple[str, ...]
    flags: tuple[str, ...]
    decomposition: Decomposition | None
    differences: tuple[Difference, ...]


class ArmSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One side as a whole."""

    name: str
    lossless: Lossless
    launches: int
    trials: int
    acceptance: AcceptanceProfile | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """b against a: a ratio above 1 says that b has more of the metric.

    `verdict` and `verdict_this_workload` are the cells' where they agree, else `mixed`.
    `coupled` differences follow from the algorithm, `allowed` ones were accepted by the user,
    `unrecorded` ones cannot be ruled out. `ranking` holds the configurations of both arms at each
    load.
    """

    schema: int = 1
    metric: str
    better: Literal["higher", "lower"]
    a: ArmSummary
    b: ArmSummary
    cells: tuple[CellComparison, ...]
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
    restart_allowance: str
    caveats: tuple[str, ...]

    def __repr__(self) -> str:
        """Show a terminal the verdicts; the fields have the rest."""
        counts = Counter(str(cell.verdict) for cell in self.cells)
        told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        lines = [f"  {_words(cell)}: {_interval(cell)} {cell.verdict}" for cell in self.cells]
        head = f"<Comparison of {self.metric}: {self.b.name} over {self.a.name}; {told}>"
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        """Show a notebook each matched cell: levels, ratio with its 95 % interval, verdict."""
        rows = "".join(
            f"<tr><td>{escape(_words(cell))}</td><td>{_interval(cell)}</td>"
            f"<td>{escape(cell.verdict)}</td><td>{escape(cell.why)}</td></tr>"
            for cell in self.cells
        )
        title = f"{escape(self.metric)} of {escape(self.b.name)} over {escape(self.a.name)}"
        heads = "<tr><th>cell</th><th>ratio [95 %]</th><th>verdict</th><th>why</th></tr>"
        return f"<table><caption>{title}</caption>{heads}{rows}</table>"


def _words(cell: CellComparison) -> str:
    levels = {**cell.levels, **cell.own_b}
    return ", ".join(f"{name} {level}" for name, level in levels.items() if level is not None)


def _interval(cell: CellComparison) -> str:
    estimate = cell.such_workloads or cell.this_workload
    return f"{estimate.ratio:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"
