"""The metrics that can be compared: direction, launch noise, and which sums they are ratios of."""

from typing import Literal

import msgspec
import numpy as np
import pandas as pd

from specbench.analysis.totals import Array, column
from specbench.errors import InputError, nearest
from specbench.stats.launches import ACCEPTANCE, CLOCKS, LaunchPrior

Better = Literal["higher", "lower"]


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A numeric column of contract section 6.

    `numerator` and `denominator` name sums of `Totals` whose ratio is judged. Throughput is judged
    by its rate a slot in the steady window: tok_s is that rate times the mean number in flight. A
    latency percentile names `latency` and `percent` instead. `speed` says that better means faster.
    """

    name: str
    better: Better
    speed: bool = True
    numerator: str = ""
    denominator: str = ""
    latency: str = ""
    percent: float = 50.0
    prior: LaunchPrior = CLOCKS

    @property
    def windowed(self) -> bool:
        """Whether only the steady window counts."""
        return self.denominator == "window_ns"


def _latency(name: str, percent: float) -> Metric:
    return Metric(name=f"{name}_ms_p{percent:.0f}", better="lower", latency=name, percent=percent)


def _rate(name: str, numerator: str, denominator: str) -> Metric:
    return Metric(name=name, better="higher", numerator=numerator, denominator=denominator)


def _acceptance(name: str, numerator: str, denominator: str) -> Metric:
    return Metric(
        name=name, better="higher", speed=False, numerator=numerator, denominator=denominator,
        prior=ACCEPTANCE,
    )  # fmt: skip


METRICS = {
    metric.name: metric
    for metric in (
        _rate("tok_s", "window_tokens", "window_ns"),
        _rate("tok_s_window", "window_tokens", "window_ns"),
        _rate("tok_s_user", "decode_tokens", "decode_ns"),
        Metric(name="step_ms", better="lower", numerator="decode_ns", denominator="steps"),
        _acceptance("accept_len", "emitted", "steps"),
        _acceptance("accept_len_request_mean", "accept", "requests"),
        *(_latency(name, q) for name in ("ttft", "tpot", "e2e") for q in (50, 90, 95, 99)),
    )
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


def latency_ms(requests: pd.DataFrame, name: str) -> Array:
    """Compute a request's latency as contract section 6 defines it; NaN where not measured."""

    def at(column_name: str) -> Array:
        return column(requests, column_name, missing=np.nan)

    match name:
        case "ttft":
            span = at("first_token_ns") - at("intended_ns")
        case "e2e":
            span = at("end_ns") - at("intended_ns")
        case _:
            tokens = at("output_tokens") - at("tokens_in_first_chunk")
            decode = at("last_token_ns") - at("first_token_ns")
            span = np.where(
                (tokens > 0) & (decode > 0), decode / np.where(tokens > 0, tokens, 1), np.nan
            )
    return span / 1e6
