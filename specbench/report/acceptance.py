"""Acceptance of each cell, with an interval that treats prompts as the independent units."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from specbench.report.inputs import Evidence
from specbench.stats.ratio import Sums, log_ratio


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Pooled accept_len of one cell, its 95 % interval, and the steps and prompts behind it.

    `low`/`high` are None where fewer than two prompts were met.
    """

    cell_id: str
    accept_len: float
    low: float | None
    high: float | None
    steps: int
    prompts: int


@lru_cache(maxsize=4)
def acceptances(evidence: Evidence) -> dict[str, Acceptance]:
    """Pool the per-request counters of each cell: 1 + accepted drafts / verify steps."""
    requests = evidence.requests
    if requests.empty:
        return {}
    good = requests[
        (requests["phase"] == "measured")
        & (requests["status"] == "ok")
        & (requests["spec_verify_ct"] > 0)
        & requests["spec_accepted"].notna()
    ]
    sums = good.groupby(["cell_id", "prompt_id"], observed=True)[
        ["spec_accepted", "spec_verify_ct"]
    ].sum()
    return {
        str(cell): _pooled(str(cell), part)
        for cell, part in sums.groupby(level="cell_id", observed=True)
    }


def _pooled(cell_id: str, part: pd.DataFrame) -> Acceptance:
    steps = part["spec_verify_ct"].to_numpy(dtype=float)
    emitted = steps + part["spec_accepted"].to_numpy(dtype=float)
    effect = log_ratio(Sums(numerator=emitted, denominator=steps))
    low, high = effect.ratio_interval() if np.isfinite(effect.se) else (None, None)
    return Acceptance(
        cell_id=cell_id,
        accept_len=effect.ratio,
        low=low,
        high=high,
        steps=int(steps.sum()),
        prompts=len(part),
    )


def by_position(histogram: list[int]) -> list[float]:
    """Give, for each draft position from 1, the share of verify steps that accepted it.

    `histogram[k]` counts the steps that accepted exactly k drafts; position j was accepted by all
    steps with k >= j.
    """
    steps = sum(histogram)
    tails = np.cumsum(histogram[::-1])[::-1]
    return [float(tail) / steps for tail in tails[1:]] if steps else []
