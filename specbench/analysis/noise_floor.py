"""The noise of a host from replicates of one and the same cell: an A/A comparison."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pandas as pd

from specbench.analysis.arms import factor_columns
from specbench.stats.effect import Effect
from specbench.stats.nesting import RESTART, TRIAL, Allowance, Launches, spread


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Noise of one metric on one host, in per cent (a standard deviation of the log).

    `restart_pct` between launches, `trial_pct` between trials of one launch; None where nothing
    was replicated. `resolvable_pct` is the smallest difference that two arms of `launches`
    launches each would show with 80 % power.
    """

    host: str
    metric: str
    cells: int
    launches: int
    trials: int
    restart_pct: float | None
    restart_df: int
    trial_pct: float | None
    trial_df: int
    resolvable_pct: float | None


def noise_floor(trials: pd.DataFrame, metric: str = "tok_s") -> tuple[NoiseFloor, ...]:
    """Estimate the noise of each host from all replicated cells among `trials`."""
    finished = trials[(trials["status"] == "ok") & (trials[metric] > 0)]
    return tuple(
        _of_host(str(host), rows, metric) for host, rows in finished.groupby("host", sort=True)
    )


def _of_host(host: str, trials: pd.DataFrame, metric: str) -> NoiseFloor:
    groups = [
        launches_of(rows, metric)
        for _, rows in trials.groupby(factor_columns(trials), dropna=False, sort=False)
    ]
    noise = spread(groups)
    launches = max(len(group) for group in groups)
    return NoiseFloor(
        host=host,
        metric=metric,
        cells=len(groups),
        launches=int(trials["block_id"].nunique()),
        trials=len(trials),
        restart_pct=_percent(noise.restart),
        restart_df=noise.restart_df,
        trial_pct=_percent(noise.trial),
        trial_df=noise.trial_df,
        resolvable_pct=_resolvable(noise.restart, noise.restart_df, launches),
    )


def launches_of(trials: pd.DataFrame, column: str) -> Launches:
    """Return the log of a column by launch and trial, of the rows that have a positive value."""
    logs: dict[str, list[float]] = {}
    for block, value in zip(trials["block_id"].tolist(), trials[column].tolist(), strict=True):
        if value is not None and value > 0:  # NaN is not above 0
            logs.setdefault(block, []).append(math.log(value))
    return [logs[block] for block in sorted(logs)]


def restart_allowance(floors: Iterable[NoiseFloor], default: Allowance = RESTART) -> Allowance:
    """Turn what this host's replicates said into the allowance for arms launched once.

    Past estimates and the default are pooled by degrees of freedom, so that one lucky pair of
    launches does not replace experience.
    """
    return _pooled([(f.restart_pct, f.restart_df) for f in floors], default, "launches")


def trial_allowance(floors: Iterable[NoiseFloor], default: Allowance = TRIAL) -> Allowance:
    """Pool the noise within launches in the same way."""
    return _pooled([(f.trial_pct, f.trial_df) for f in floors], default, "trials")


def _pooled(seen: Sequence[tuple[float | None, int]], default: Allowance, what: str) -> Allowance:
    known = [(pct / 100, df) for pct, df in seen if pct is not None and df > 0]
    if not known:
        return default
    squares = default.sd**2 * default.df + sum(sd**2 * df for sd, df in known)
    df = default.df + sum(df for _, df in known)
    sd = math.sqrt(squares / df)
    source = f"noise floor of this host: {100 * sd:.2g} % between {what} ({df - default.df:g} df)"
    return Allowance(sd=sd, df=df, source=source)


def _resolvable(restart: float, df: int, launches: int) -> float | None:
    if not df or restart == 0:
        return None
    effect = Effect(value=0.0, se=restart * math.sqrt(2 / launches), df=df)
    return 100 * math.expm1(effect.minimum_detectable())


def _percent(sd: float) -> float | None:
    return None if math.isnan(sd) else 100 * sd


def to_json(floors: Sequence[NoiseFloor]) -> list[dict[str, Any]]:
    """Render for a history file."""
    return [msgspec.to_builtins(floor) for floor in floors]
