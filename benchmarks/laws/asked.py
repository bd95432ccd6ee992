"""Ask the public comparison about a simulated recording, and hold its words against the truth."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.laws.recording import ARMS, Design, Key, Law, Simulated, simulate
from specbench.analysis.compare import compare
from specbench.analysis.comparison import CellComparison, Comparison, Estimate
from specbench.analysis.gate import condition
from specbench.analysis.regression import regressed
from specbench.stats.launches import LaunchFloor

DIRECTIONS = ("faster", "slower")
GATE = condition("speedup < 0.97")
ALIKE = math.log(1.02)
"""Where the truth is nearer to no effect, `no_difference` is right."""

Compare = Callable[..., Comparison]


@dataclass(frozen=True)
class Told:
    """One figure with its intervals against the truth (a log).

    `alone` and `joint` say whether the interval of this figure and the one that decides hold it;
    `width` is half the width of the first, in per cent; `agrees` that the verdict and the printed
    interval say the same.
    """

    truth: float
    verdict: str
    alone: bool
    joint: bool
    width: float
    agrees: bool

    @property
    def wrong(self) -> bool:
        """A direction that is not there."""
        return self.verdict in DIRECTIONS and not self.right

    @property
    def right(self) -> bool:
        """The direction that is there."""
        sign = {"faster": 1, "slower": -1}.get(self.verdict, 0)
        return sign * self.truth > 0

    @property
    def alike(self) -> bool:
        """Whether `no_difference` was said."""
        return self.verdict == "no_difference"


@dataclass(frozen=True)
class Cell:
    """One matched cell. `withheld` is the first reason, empty where the cell was judged."""

    key: Key
    these: Told
    such: Told
    withheld: str
    flags: tuple[str, ...]
    needed: int | None


@dataclass(frozen=True)
class Answer:
    """One comparison: its cells, the whole answer, and what `--fail-if` made of it."""

    cells: tuple[Cell, ...]
    verdict: str
    pooled: Told
    pooled_such: Told
    kind: Told
    gate: str
    whole: Comparison


def ask(
    seen: Simulated, *, floor: LaunchFloor | None = None, details: bool = False,
    method: Compare = compare,
) -> Answer:  # fmt: skip
    """Compare the arms of a recording and hold every statement against what is true of it."""
    found = method(seen.trials, seen.requests, seen.blocks, *ARMS, floor=floor, details=details)
    cells = tuple(_cell(cell, seen) for cell in found.cells)
    mean = {
        "these": float(np.mean([seen.these[cell.key] for cell in cells])),
        "such": float(np.mean([seen.such[cell.key] for cell in cells])),
    }
    pooled = found.pooled
    return Answer(
        cells=cells,
        verdict=found.verdict,
        pooled=_told(pooled.this_workload, pooled.verdict_this_workload, mean["these"]),
        pooled_such=_told(
            pooled.such_workloads or pooled.this_workload, pooled.verdict, mean["such"]
        ),
        kind=_told(pooled.such_cells or pooled.this_workload, "", seen.kind),
        gate=regressed(found, GATE),
        whole=found,
    )


def many(
    design: Design, law: Law, count: int, seed: int, floor: LaunchFloor | None = None,
    *, details: bool = False, method: Compare = compare,
) -> list[Answer]:  # fmt: skip
    """Simulate and ask many times; each has its own seed, so that any one can be made again."""
    asked = partial(ask, floor=floor, details=details, method=method)
    return [asked(simulate(design, law, np.random.default_rng([seed, i]))) for i in range(count)]


def _cell(cell: CellComparison, seen: Simulated) -> Cell:
    key = key_of({**cell.levels, **cell.own_b})
    such = cell.such_workloads or cell.this_workload
    return Cell(
        key=key,
        these=_told(cell.this_workload, cell.verdict_this_workload, seen.these[key]),
        such=_told(such, cell.verdict, seen.such[key]),
        withheld=cell.doubts[0].split(":")[0] if cell.doubts else "",
        flags=cell.flags,
        needed=cell.launches_needed,
    )


def key_of(levels: dict[str, Any]) -> Key:
    """Name a simulated cell by its levels."""
    return int(levels["budget"]), float(levels["temperature"]), int(levels["concurrency"])


def _told(estimate: Estimate, verdict: str, truth: float) -> Told:
    ratio = math.exp(truth)
    width = math.log(estimate.high_alone / max(estimate.low_alone, 1e-12)) / 2
    return Told(
        truth=truth,
        verdict=verdict,
        alone=estimate.low_alone <= ratio <= estimate.high_alone,
        joint=estimate.low <= ratio <= estimate.high,
        width=100 * math.expm1(min(width, 5.0)),
        agrees=_agrees(estimate, verdict),
    )


def _agrees(estimate: Estimate, verdict: str) -> bool:
    """What is printed decides: the interval beside a verdict says the same as the verdict."""
    match verdict:
        case "faster":
            return estimate.low > 1
        case "slower":
            return estimate.high < 1
        case "no_difference":
            return estimate.low_90 > 1 / 1.02 and estimate.high_90 < 1.02
        case _:
            return True


def share(found: Sequence[bool]) -> float:
    """Per cent of a list that is true; NaN of an empty one."""
    return 100 * float(np.mean(found)) if len(found) else math.nan
