"""Speed-ups of a report: each cell against its control, with an interval and what it rests on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from specbench.report import cells
from specbench.report.evidence import Evidence
from specbench.stats.nesting import Launches, launch_effect

UNFIT = frozenset({"client_saturated", "simulated_acceptance", "args_mismatch"})
"""Flags of rows that never support a claim about speed."""


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """One cell against the control cell that is equal in every factor applying to both.

    `ratio` is of `tok_s`, `low`/`high` its 95 % interval; None where it cannot be had, and
    `reason` says why. `accept_ratio` and `step_ratio` decompose it: a speed-up at equal
    concurrency is about accept_ratio / step_ratio (step_ratio > 1: a step takes longer).
    `length_ratio`: tokens answered to the prompts that both arms met.
    """

    cell_id: str
    label: str
    levels: Mapping[str, Any]
    control_id: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n_trials: int = 0
    n_launches: int = 0
    accept_ratio: float | None = None
    step_ratio: float | None = None
    length_ratio: float | None = None
    confounds: tuple[str, ...] = ()
    reason: str = ""

    @property
    def decided(self) -> bool:
        """Whether the interval excludes no difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def speed_ups(evidence: Evidence) -> list[SpeedUp]:
    """Compare every measured cell of another arm with its control; refused ones say why."""
    good = cells.usable(evidence.trials)
    if good.empty:
        return []
    factors = cells.factors_of(good)
    names = cells.varying(good)
    groups = {str(cell): group for cell, group in good.groupby("cell_id", sort=False)}
    levels = {cell: cells.levels_of(group.iloc[0], factors) for cell, group in groups.items()}
    controls = [cell for cell in groups if levels[cell]["algorithm"] == evidence.control]
    lengths = _lengths(evidence.requests)
    pairs = []
    for cell, group in groups.items():
        if cell in controls:
            continue
        label = cells.cell_label(levels[cell], ["algorithm", *names])
        matched = [c for c in controls if cells.matches_control(levels[cell], levels[c])]
        if len(matched) != 1:
            pairs.append(
                SpeedUp(
                    cell_id=cell,
                    label=label,
                    levels=levels[cell],
                    reason=_why_unmatched(levels[cell], [levels[c] for c in controls]),
                )
            )
            continue
        pairs.append(_compared(cell, label, levels[cell], group, matched[0], groups, lengths))
    return pairs


def _why_unmatched(levels: Mapping[str, Any], controls: list[dict[str, Any]]) -> str:
    if not controls:
        return "no control cell was measured"
    nearest = min(controls, key=lambda control: len(_differing(levels, control)))
    return f"the nearest control differs in {', '.join(_differing(levels, nearest)) or 'nothing'}"


def _differing(levels: Mapping[str, Any], control: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, level in levels.items()
        if name != "algorithm" and control.get(name) != level and None not in (control[name], level)
    ]


def _compared(
    cell: str,
    label: str,
    levels: Mapping[str, Any],
    group: pd.DataFrame,
    control: str,
    groups: dict[str, pd.DataFrame],
    lengths: dict[str, pd.Series],
) -> SpeedUp:
    base = groups[control]
    fit, fit_base = _fit(group), _fit(base)
    reason, ratio, low, high = "", None, None, None
    if fit.empty or fit_base.empty:
        reason = "no trial without a disqualifying flag on both arms"
    else:
        effect = launch_effect(_launches(fit_base), _launches(fit))
        ratio, (low, high) = effect.ratio, effect.ratio_interval()
        if len(fit) + len(fit_base) < 3 or not math.isfinite(high):
            low = high = None
            reason = "one trial on each arm: no interval"
    return SpeedUp(
        cell_id=cell,
        label=label,
        levels=levels,
        control_id=control,
        ratio=ratio,
        low=low,
        high=high,
        n_trials=len(fit) + len(fit_base),
        n_launches=int(fit["block_id"].nunique() + fit_base["block_id"].nunique()),
        accept_ratio=_ratio(group, base, "accept_len"),
        step_ratio=_ratio(group, base, "step_ms"),
        length_ratio=_length_ratio(lengths.get(cell), lengths.get(control)),
        reason=reason,
    )


def _fit(group: pd.DataFrame) -> pd.DataFrame:
    keep = [not UNFIT & set(cells.flags_of([flags])) for flags in group["flags"]]
    return group[pd.Series(keep, index=group.index) & (group["tok_s"] > 0)]


def _launches(group: pd.DataFrame) -> Launches:
    return [[float(v) for v in np.log(one["tok_s"])] for _, one in group.groupby("block_id")]


def _ratio(group: pd.DataFrame, base: pd.DataFrame, name: str) -> float | None:
    value, control = group[name].mean(), base[name].mean()
    return float(value / control) if value > 0 and control > 0 else None


def _lengths(requests: pd.DataFrame) -> dict[str, pd.Series]:
    """Give, by cell, the mean output tokens of each prompt."""
    if requests.empty:
        return {}
    good = requests[(requests["phase"] == "measured") & (requests["status"] == "ok")]
    means = good.groupby(["cell_id", "prompt_id"], observed=True)["output_tokens"].mean()
    return {
        str(cell): part.droplevel("cell_id")
        for cell, part in means.dropna().groupby(level="cell_id", observed=True)
    }


def _length_ratio(cell: pd.Series | None, control: pd.Series | None) -> float | None:
    if cell is None or control is None:
        return None
    common = cell.index.intersection(control.index)
    total = control.loc[common].sum()
    return float(cell.loc[common].sum() / total) if total > 0 else None
