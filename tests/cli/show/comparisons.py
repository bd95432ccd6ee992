"""Comparisons written by hand, so that what is shown of them does not hang on statistics."""

from collections.abc import Mapping
from typing import Any

from specbench.analysis.comparison import (
    ArmSummary,
    CellComparison,
    Comparison,
    Estimate,
    Outcome,
    Pooled,
)
from specbench.analysis.decompose import Decomposition, Factor
from specbench.analysis.gate import Lossless


def estimate(ratio: float, width: float = 0.1) -> Estimate:
    low, high = ratio * (1 - width), ratio * (1 + width)
    return Estimate(
        ratio=ratio, low=low, high=high, low_90=low, high_90=high, low_alone=low, high_alone=high,
        p=0.01, p_adjusted=0.02, detectable_pct=12.0,
    )  # fmt: skip


def cell(
    ratio: float, levels: Mapping[str, Any], *, verdict: Outcome = "slower", width: float = 0.1,
    accept: float = 1.05, step: float = 1.2, needed: int | None = None,
    doubts: tuple[str, ...] = (), flags: tuple[str, ...] = (),
) -> CellComparison:  # fmt: skip
    told = estimate(ratio, width)
    return CellComparison(
        levels=dict(levels), own_a={"algorithm": "dflash"},
        own_b={"algorithm": "ddtree", "topk": 4},
        value_a=1000.0, value_b=1000.0 * ratio, rate_a=1000.0, rate_b=1000.0 * ratio,
        in_flight_a=1.0, in_flight_b=1.0, launches=(3, 3), trials=(3, 3), requests=(192, 192),
        prompts=64, this_workload=told, such_workloads=told, median_prompt=None, verdict=verdict,
        verdict_this_workload=verdict, why="p = 0.01", launches_needed=needed, advice="",
        doubts=doubts, flags=flags,
        decomposition=Decomposition(
            speedup=_exact(ratio), accept_len=_exact(accept), step_rate=_exact(1 / step),
            remainder=_exact(ratio * step / accept), bound=accept / step, accept_bound=accept,
            reading="",
        ),
        differences=(),
    )  # fmt: skip


def _exact(ratio: float) -> Factor:
    return Factor(ratio=ratio, low=ratio, high=ratio)


def comparison(
    *cells: CellComparison, verdict: Outcome = "slower", ratio: float = 0.9,
    lossless: Lossless = "holds",
) -> Comparison:  # fmt: skip
    told = estimate(ratio, 0.05)
    pooled = Pooled(
        scope="all", factor=None, level=None, cells=len(cells), withheld=0, this_workload=told,
        such_workloads=told, such_cells=None, tau_pct=3.0, differs_p=None, verdict=verdict,
        verdict_this_workload=verdict, why="p = 0.001",
    )  # fmt: skip
    sides = [
        ArmSummary(name=name, lossless=lossless, launches=3, trials=3, acceptance=None)
        for name in ("dflash", "ddtree")
    ]
    return Comparison(
        metric="tok_s", better="higher", a=sides[0], b=sides[1], cells=cells, pooled=pooled, by=(),
        verdict=verdict, verdict_this_workload=verdict, declared=("algorithm",), coupled=(),
        allowed=(), unrecorded=(), allow=(), unmatched=(), crossovers=(), ranking=(),
        launch_noise="default: 2 % between launches", caveats=(),
    )  # fmt: skip


def quickstart() -> Comparison:
    """As many cells as `compare dflash ddtree` of the quickstart has."""
    places = [
        {"temperature": t, "concurrency": c, "budget": budget, "host": "local"}
        for t in (0, 1) for c in (1, 4, 8) for budget in (7, 15)
    ]  # fmt: skip
    cells = []
    for number, levels in enumerate([*places, *places]):
        undecided = number % 3 == 0
        cells.append(
            cell(
                0.8 + 0.01 * number,
                levels,
                verdict="inconclusive" if undecided else "slower",
                needed=4 + number if undecided else None,
                doubts=("few_requests: 6 a slot",) if number == 3 else (),
                flags=("foreign_load",) if number % 2 else (),
            )
        )
    return comparison(*cells)
