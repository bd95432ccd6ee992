"""Tables of a report: one row a cell, from the trials table."""

from functools import lru_cache
from typing import Any

import pandas as pd

from specbench.report import cells
from specbench.report.inputs import Evidence


@lru_cache(maxsize=4)
def cell_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Summarise a recording's trials once for all parts of a report; do not change the rows.

    Cells stand by server, then by what was asked of it.
    """
    rows = summary_rows(evidence.trials, evidence.control)
    order = cells.in_order(rows, cells.factors_of(evidence.trials), evidence.control)
    return [rows[position] for position in order]


def summary_rows(trials: pd.DataFrame, control: str = cells.CONTROL) -> list[dict[str, Any]]:
    """Summarise a trials table: one row a cell, in order of appearance.

    Keys: every factor; `cell_id`; `trials` and `launches` (measured to their end), `failed`
    (trials that were not); `tok_s` (mean over trials, tokens a second); `tok_s_user`;
    `accept_len` (pooled over verify steps); `step_ms`; `speedup` (of `tok_s` over the control
    cell that is equal in every factor applying to both; None without one); `lossless`; `flags`.
    What was not measured is None. Intervals belong to `analysis.compare`, not to this table.
    """
    if trials.empty:
        return []
    factors = cells.factors_of(trials)
    rows = [
        _cell_row(group, factors)
        for _, group in trials.groupby("cell_id", sort=False, dropna=False)
    ]
    controls = [row for row in rows if row.get("algorithm") == control]
    for row in rows:
        row["speedup"] = _speedup(row, controls, factors)
    return rows


def _cell_row(group: pd.DataFrame, factors: list[str]) -> dict[str, Any]:
    good = cells.usable(group)
    return {
        **cells.levels_of(group.iloc[0], factors),
        "cell_id": str(group["cell_id"].iloc[0]),
        "trials": len(good),
        "launches": good["block_id"].nunique(),
        "failed": len(group) - len(good),
        "tok_s": _mean(good["tok_s"]),
        "tok_s_user": _mean(good["tok_s_user"]),
        "accept_len": pooled_accept_len(good),
        "step_ms": _weighted(good["step_ms"], good["verify_steps"]),
        "speedup": None,
        "lossless": _worst_verdict(group["lossless"]),
        "flags": cells.flags_of(group["flags"]),
    }


def pooled_accept_len(trials: pd.DataFrame) -> float | None:
    """Pool accept_len over trials: 1 + accepted drafts / verify steps (contract section 6)."""
    return _weighted(trials["accept_len"], trials["verify_steps"])


def _weighted(values: pd.Series, weights: pd.Series) -> float | None:
    known = values.notna() & weights.notna() & (weights > 0)
    if not known.any():
        return None
    return float((values[known] * weights[known]).sum() / weights[known].sum())


def _mean(values: pd.Series) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _speedup(
    row: dict[str, Any], controls: list[dict[str, Any]], factors: list[str]
) -> float | None:
    levels = {name: row[name] for name in factors}
    matched = [c for c in controls if cells.matches_control(levels, {n: c[n] for n in factors})]
    if len(matched) != 1 or not matched[0]["tok_s"] or row["tok_s"] is None:
        return None
    return float(row["tok_s"] / matched[0]["tok_s"])


def _worst_verdict(values: pd.Series) -> str | None:
    seen = {value for value in values if isinstance(value, str)}
    for name in ("violated", "inconclusive", "untested", "holds"):
        if name in seen:
            return name
    return None
