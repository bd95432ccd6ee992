"""The metrics that can be compared: direction, launch noise, and which sums they are ratios of."""

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.totals import Array, column
from specbench.errors import InputError, nearest
from specbench.model.columns import COLUMNS, Better, Column, Compared, Latency
from specbench.stats.launches import ACCEPTANCE, CLOCKS, LaunchPrior


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A column by which arms are compared (`model.columns`).

    `numerator` and `denominator` name sums of `Totals` whose ratio is judged. Throughput is judged
    by its rate a slot in the steady window: tok_s is that rate times the mean number in flight. A
    latency percentile names `latency` and `percent` instead; with neither, rows alone are judged.
    `speed` says that better means faster, `prior` what launch noise is taken for granted.
    """

    name: str
    better: Better
    speed: bool = True
    numerator: str = ""
    denominator: str = ""
    latency: Latency | None = None
    percent: float = 50.0
    prior: LaunchPrior = CLOCKS

    @property
    def windowed(self) -> bool:
        """Whether only the steady window counts."""
        return self.denominator == "window_ns"


def _metric(column: Column, better: Better, compared: Compared) -> Metric:
    numerator, denominator = compared.ratio or ("", "")
    return Metric(
        name=column.name,
        better=better,
        speed=compared.noise == "clock",
        numerator=numerator,
        denominator=denominator,
        latency=None if column.quantity == "chunk_gap_ms" else column.quantity,
        percent=column.percent,
        prior=ACCEPTANCE if compared.noise == "acceptance" else CLOCKS,
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
