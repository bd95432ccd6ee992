"""The metrics that can be compared: direction, noise, and how they pair by prompt."""

import math

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.decompose import ACCEPTANCE, ACCEPTANCE_TRIAL
from specbench.analysis.totals import Array, Totals, column, pair
from specbench.errors import InputError, nearest
from specbench.model.columns import COLUMNS, Better, Column, Compared, Latency
from specbench.stats.bootstrap import log_percentile_ratio
from specbench.stats.effect import Effect
from specbench.stats.nesting import RESTART, TRIAL, Allowance
from specbench.stats.ratio import log_ratio_by_prompt


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A column by which arms are compared (`model.columns`).

    `numerator` and `denominator` name sums of `Totals` whose ratio it is (up to the clock), for
    pairing by prompt; a latency percentile names `latency` and `percent` instead; with neither, no
    statement about such workloads is possible. `speed` says that better means faster.
    """

    name: str
    better: Better
    speed: bool = True
    numerator: str = ""
    denominator: str = ""
    latency: Latency | None = None
    percent: float = 50.0
    restart: Allowance = RESTART
    trial: Allowance = TRIAL


def _metric(column: Column, better: Better, compared: Compared) -> Metric:
    numerator, denominator = compared.ratio or ("", "")
    accepted = compared.noise == "acceptance"
    return Metric(
        name=column.name,
        better=better,
        speed=compared.noise == "clock",
        numerator=numerator,
        denominator=denominator,
        latency=None if column.quantity == "chunk_gap_ms" else column.quantity,
        percent=column.percent,
        restart=ACCEPTANCE if accepted else RESTART,
        trial=ACCEPTANCE_TRIAL if accepted else TRIAL,
    )


METRICS: dict[str, Metric] = {
    column.name: _metric(column, column.better, column.compared)
    for column in COLUMNS
    if column.compared is not None and column.better is not None
}


def metric(name: str) -> Metric:
    """Look a metric up.

    Raises:
        InputError: it cannot be compared; names the nearest one.
    """
    if name not in METRICS:
        raise InputError(
            f"metric {name!r} cannot be compared", hint=nearest(name, METRICS, noun="metrics")
        )
    return METRICS[name]


def by_prompt(
    metric: Metric,
    totals: Totals,
    groups: tuple[int, int],
    requests: pd.DataFrame,
    trials: tuple[frozenset[str], frozenset[str]],
) -> tuple[Effect, Array] | None:
    """Compare two groups with prompts as the random units: the effect and each prompt's log ratio.

    None where the metric has no such form or nothing was recorded for it.
    """
    if metric.latency is not None:
        return _by_percentile(metric, latency_ms(requests, metric.latency), requests, trials)
    if not metric.numerator:
        return None
    steps = totals.steps
    numerator = (
        steps + totals.accepted
        if metric.numerator == "emitted"
        else getattr(totals, metric.numerator)
    )
    sides = pair(numerator, getattr(totals, metric.denominator), groups)
    if sides is None:
        return None
    a, b = sides
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(b.numerator / b.denominator) - np.log(a.numerator / a.denominator)
    return log_ratio_by_prompt(a, b), logs[np.isfinite(logs)]


def _by_percentile(
    metric: Metric,
    values: Array,
    requests: pd.DataFrame,
    trials: tuple[frozenset[str], frozenset[str]],
) -> tuple[Effect, Array] | None:
    codes, names = pd.factorize(requests["prompt_id"])
    usable = ((requests["phase"] == "measured") & (requests["status"] == "ok")).to_numpy()
    sides = []
    for ids in trials:
        rows = usable & requests["trial_id"].isin(list(ids)).to_numpy() & np.isfinite(values)
        sides.append((values[rows], codes[rows].astype(np.int64)))
    if any(len(side[0]) == 0 for side in sides):
        return None
    effect = log_percentile_ratio(sides[0], sides[1], percent=metric.percent, prompts=len(names))
    known = max(len(np.unique(side[1])) for side in sides)
    logs = _prompt_logs(sides[0], sides[1], len(names))
    return Effect(value=effect.value, se=effect.se if known > 1 else math.nan, df=known - 1), logs


def _prompt_logs(a: tuple[Array, np.ndarray], b: tuple[Array, np.ndarray], prompts: int) -> Array:
    means = []
    for values, codes in (a, b):
        counts = np.bincount(codes, minlength=prompts)
        with np.errstate(divide="ignore", invalid="ignore"):
            means.append(np.bincount(codes, weights=values, minlength=prompts) / counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = np.log(means[1]) - np.log(means[0])
    return logs[np.isfinite(logs)]


def latency_ms(requests: pd.DataFrame, name: Latency) -> Array:
    """Compute a request's latency as contract section 6 defines it; NaN where not measured."""

    def at(column_name: str) -> Array:
        return column(requests, column_name, missing=np.nan)

    match name:
        case "ttft_ms":
            return (at("first_token_ns") - at("intended_ns")) / 1e6
        case "e2e_ms":
            return (at("end_ns") - at("intended_ns")) / 1e6
        case "tpot_ms":
            tokens = at("output_tokens") - at("tokens_in_first_chunk")
            decode = at("last_token_ns") - at("first_token_ns")
            known = (tokens > 0) & (decode > 0)
            return np.where(known, decode / np.where(known, tokens, 1), np.nan) / 1e6
