"""The noise of a host from replicates of one and the same cell: an A/A comparison."""

import math
from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.analysis.arms import factor_columns
from specbench.analysis.metrics import Metric, metric
from specbench.analysis.pairing import side_of
from specbench.analysis.totals import Array, Totals
from specbench.stats.components import NOTHING, MeanSquare, Part, part, pooled_square
from specbench.stats.effect import Variance, effect_of
from specbench.stats.launches import CLOCKS, LaunchFloor


class NoiseFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Noise of one metric on one host, in per cent (standard deviations of the log).

    `launch` between launches, `trial` between trials of one launch, `request` between requests of
    one prompt and `prompt` between prompts; each with its interval, None where nothing was
    replicated. Without repeated trials `launch` holds the trials' share as well. `resolvable_pct`
    is the smallest difference that two arms of `launches` launches each would show with 80 % power.
    `measured_on` says of which arm, levels and launches.
    """

    host: str
    metric: str
    cells: int
    launches: int
    trials: int
    launch: Part
    trial: Part
    request: Part
    prompt: Part
    resolvable_pct: float | None
    arm: str = ""
    levels: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()


def noise_floor(
    trials: pd.DataFrame, requests: pd.DataFrame, name: str = "tok_s", arm: str = ""
) -> tuple[NoiseFloor, ...]:
    """Estimate the noise of each host from all replicated cells among `trials`."""
    finished = trials[(trials["status"] == "ok") & (trials[name] > 0)]
    totals = Totals(requests[requests["trial_id"].isin(finished["trial_id"])])
    return tuple(
        _of_host(str(host), rows, totals, metric(name), arm)
        for host, rows in finished.groupby("host", sort=True)
    )


class _Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: the log metric of each trial, its launch, and what requests give one trial."""

    logs: Array
    blocks: tuple[str, ...]
    requests: MeanSquare
    one_request: tuple[MeanSquare, MeanSquare]


def _of_host(
    host: str, trials: pd.DataFrame, totals: Totals, metric: Metric, arm: str
) -> NoiseFloor:
    factors = factor_columns(trials)
    groups = [rows for _, rows in trials.groupby(factors, dropna=False, sort=False)]
    cells = [_cell(rows, totals, metric) for rows in groups]
    trial = pooled_square(
        [cell.logs[_at(cell, block)] for cell in cells for block in dict.fromkeys(cell.blocks)]
    )
    requests = _mean([cell.requests for cell in cells])
    launch, inner, share = _launch(cells, trial, requests)
    launches = max(len(set(cell.blocks)) for cell in cells)
    told = part(launch, inner, share)
    within = _mean([cell.one_request[0] for cell in cells])
    between = _mean([cell.one_request[1] for cell in cells])
    return NoiseFloor(
        host=host,
        metric=metric.name,
        cells=len(groups),
        launches=int(trials["block_id"].nunique()),
        trials=len(trials),
        launch=told,
        trial=part(trial, requests),
        request=part(within),
        prompt=part(between, within, _repeats(cells)),
        resolvable_pct=_resolvable(told, launches),
        arm=arm,
        levels=tuple(_levels(trials, factors)),
        blocks=tuple(dict.fromkeys(trials["block_id"].astype(str))),
    )


def _cell(rows: pd.DataFrame, totals: Totals, metric: Metric) -> _Cell:
    ids = rows["trial_id"].astype(str).tolist()
    values = np.log(rows[metric.name].to_numpy(dtype=float))
    requests, one = MeanSquare(value=math.nan, df=0), _no_squares()
    if metric.numerator:
        logs, share, met = side_of(metric, totals, ids)
        if np.isfinite(logs).all():
            values, requests = logs, _requests(share, met)
            one = _one_request(metric, totals, ids)
    return _Cell(
        logs=values,
        blocks=tuple(rows["block_id"].astype(str)),
        requests=requests,
        one_request=one,
    )


def _no_squares() -> tuple[MeanSquare, MeanSquare]:
    nothing = MeanSquare(value=math.nan, df=0)
    return nothing, nothing


def _requests(share: Array, met: NDArray[np.bool_]) -> MeanSquare:
    """Variance that requests give one trial: each prompt's share over its repeats."""
    times = met.sum(axis=0)
    repeated = times > 1
    if not repeated.any():
        return MeanSquare(value=math.nan, df=0)
    share, met, times = share[:, repeated], met[:, repeated], times[repeated]
    own = share.sum(axis=0) / times
    squares = (met * (share - own) ** 2).sum(axis=0) / (times - 1)
    return MeanSquare(value=float(squares.sum()), df=max(1, int(repeated.sum()) - 1))


def _one_request(
    metric: Metric, totals: Totals, trials: Sequence[str]
) -> tuple[MeanSquare, MeanSquare]:
    """Mean squares of a single prompt's log ratio: between repeats, and between prompts."""
    whole = ("tokens", "busy_ns") if metric.windowed else (metric.numerator, metric.denominator)
    over, under = (totals.of(name, trials) for name in whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(over / under)
    logs[~np.isfinite(logs)] = np.nan
    logs = logs[:, np.isfinite(logs).sum(axis=0) > 1]
    if not logs.size:
        return _no_squares()
    logs = logs - np.nanmean(logs, axis=1, keepdims=True)
    times = np.isfinite(logs).sum(axis=0)
    means = np.nanmean(logs, axis=0)
    df = int((times - 1).sum()) - (len(logs) - 1)
    within = float(np.nansum((logs - means) ** 2)) / max(df, 1)
    return MeanSquare(value=within, df=max(df, 0)), pooled_square([means])


def _repeats(cells: Sequence[_Cell]) -> float:
    return 1.0 / max(1.0, float(np.mean([len(cell.logs) for cell in cells])))


def _launch(
    cells: Sequence[_Cell], trial: MeanSquare, requests: MeanSquare
) -> tuple[MeanSquare, MeanSquare, float]:
    """Mean square between launches, and what trials or requests give it.

    Cells of the same launches share their error, so the mean over those cells is one series.
    """
    servers: dict[Hashable, list[_Cell]] = {}
    for cell in cells:
        servers.setdefault(tuple(sorted(set(cell.blocks))), []).append(cell)
    series = [_series(mine) for mine in servers.values()]
    square = pooled_square(series)
    averaged = float(np.mean([len(mine) for mine in servers.values()]))
    if trial.df:
        counts = [len(cell.logs) / len(set(cell.blocks)) for cell in cells]
        return square, trial, 1 / (float(np.mean(counts)) * averaged)
    return square, requests, 1 / averaged


def _series(cells: Sequence[_Cell]) -> Array:
    """Mean over cells of each launch's log metric, each cell centred."""
    blocks = sorted(set(cells[0].blocks))
    rows = [np.array([cell.logs[_at(cell, block)].mean() for block in blocks]) for cell in cells]
    mean: Array = np.mean([row - row.mean() for row in rows], axis=0)
    return mean


def _at(cell: _Cell, block: str) -> list[int]:
    return [i for i, own in enumerate(cell.blocks) if own == block]


def _mean(squares: Sequence[MeanSquare]) -> MeanSquare:
    known = [one for one in squares if one.df]
    df = sum(one.df for one in known)
    if not df:
        return MeanSquare(value=math.nan, df=0)
    return MeanSquare(value=sum(one.value * one.df for one in known) / df, df=df)


def _levels(trials: pd.DataFrame, factors: Sequence[str]) -> Iterable[str]:
    for name in factors:
        levels = trials[name].dropna().unique().tolist()
        if levels:
            yield f"{name}={','.join(map(str, levels))}"


def launch_floor(floors: Iterable[NoiseFloor]) -> LaunchFloor | None:
    """Pool floors by degrees of freedom; None where no launch was replicated."""
    known = [(f.launch.pct / 100, f.launch.df) for f in floors if f.launch.pct is not None]
    df = sum(own for _, own in known)
    if not df:
        return None
    sd = math.sqrt(sum(sd**2 * own for sd, own in known) / df)
    source = f"noise floor of this host: {100 * sd:.2g} % between launches ({df} df)"
    return LaunchFloor(sd=sd, df=df, source=source)


def _resolvable(launch: Part, launches: int) -> float | None:
    if launch is NOTHING or launch.pct is None or launch.pct <= 0:
        return None
    floor = LaunchFloor(sd=launch.pct / 100, df=launch.df, source="")
    prior = CLOCKS.with_floor(floor)
    known = Variance(value=2 * prior.sd**2 / launches, df=prior.df + max(launches - 1, 0))
    return 100 * math.expm1(effect_of(0.0, [known]).minimum_detectable())
