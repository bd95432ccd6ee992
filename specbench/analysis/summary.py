"""One trial's requests to the columns of `model.columns`: the definitions, in one place."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.analysis import plausibility, stamps
from specbench.analysis.texts import text_flags
from specbench.model.columns import COLUMNS, Quantity
from specbench.model.load import FEWEST_A_SLOT, DriveReport, RequestRecord, ServiceLevels

SUMMARY_VERSION = 3
"""Raised whenever a definition below changes: stored rows of other versions are computed again."""

CACHED_SHARE_DOUBT = 0.05
"""Share of prompt tokens from the prefix cache above which a trial is flagged: chat templates
share a few leading tokens between prompts, repeats share everything."""

RECONCILABLE_STEPS = 1000
RECONCILED_WITHIN = 0.15
"""Relative difference between the server's accept length and the pooled one that is explained by
warm-up and late refresh."""

MS = 1e6  # nanoseconds in a millisecond

Floats = NDArray[np.float64]


def summarise(
    records: Iterable[RequestRecord],
    report: DriveReport,
    *,
    speculative: bool,
    levels: ServiceLevels | None = None,
) -> dict[str, Any]:
    """Compute the columns that come from the requests of one trial; what was not measured is None.

    `report` bounds the measured phase and the steady window on the records' clock; `levels` are
    the service levels asked for, if any. Figures whose own error bound is more than a tenth of them
    are withheld, and figures that rest on counts which cannot be true: `in_doubt` says which and
    why, by the flag that stands for it.
    """
    everything = list(records)
    measured = [record for record in everything if record.phase == "measured"]
    finished = [record for record in measured if record.status == "ok"]
    row = {
        "n_requests": len(measured),
        "n_failed": len(measured) - len(finished),
        "concurrency_effective": _concurrency(everything, report),
        "client_lag_ms_p99": _client_lag(report),
        **_throughput(everything, measured, report),
        **_latencies(finished),
        "goodput_rps": _goodput(finished, report, levels),
        **_acceptance(finished, speculative=speculative),
        "prompt_tokens": _total(record.prompt_tokens for record in measured),
        "output_tokens": _counted(measured),
        "reasoning_tokens": _total(record.reasoning_tokens for record in measured),
        "cached_tokens": _total(record.cached_tokens for record in measured),
        "retractions": _total(record.retractions for record in measured),
    }
    return _withheld(row, finished, report, speculative=speculative)


def _withheld(
    row: dict[str, Any],
    finished: list[RequestRecord],
    report: DriveReport,
    *,
    speculative: bool,
) -> dict[str, Any]:
    """Take out of a row what its own evidence cannot carry."""
    counts, resting = plausibility.untrue(finished, speculative=speculative)
    row |= {name: None for name in resting if name in row}
    bounds = stamps.errors(row, finished, report.accuracy)
    times = stamps.in_doubt(row, bounds)
    row |= dict.fromkeys(times)
    said = {
        "counts_in_doubt": "; ".join(counts.values()),
        "stamps_in_doubt": "; ".join(times.values()),
    }
    told = {flag: reason for flag, reason in said.items() if reason}
    return row | {"in_doubt": told or None}


def energy(row: Mapping[str, Any]) -> dict[str, float]:
    """Give `energy_j_per_token` where power and speed of a trial were measured, else nothing."""
    power, speed = row.get("gpu_power_w"), row.get("tok_s")
    return {"energy_j_per_token": power / speed} if power is not None and speed else {}


def raised_flags(
    row: dict[str, Any],
    report: DriveReport,
    records: Iterable[RequestRecord],
    *,
    n_prompts: int,
    slots: int | None = None,
) -> tuple[str, ...]:
    """Name what a reader of a trial should be careful about (column `flags`).

    `n_prompts` is the number of distinct prompts asked, `slots` the concurrency of a closed loop.
    """
    cached, asked = row["cached_tokens"], row["prompt_tokens"]
    records = list(records)
    found = {
        "failed_requests": bool(row["n_failed"]),
        "retractions": bool(row["retractions"]),
        "prefix_cache_hits": bool(cached and asked and cached / asked > CACHED_SHARE_DOUBT),
        "prompts_repeated": _unevenly(row["n_requests"], n_prompts),
        "few_requests": slots is not None and row["n_requests"] < FEWEST_A_SLOT * slots,
        "no_steady_window": report.window_start_ns is None,
        "interrupted": report.interrupted,
        **dict.fromkeys(row.get("in_doubt") or (), True),
        **text_flags(records),
        "accept_counters_mismatch": not all(map(counters_add_up, records)) or _disagrees(row),
    }
    raised = (name for name, holds in found.items() if holds)
    return tuple(dict.fromkeys((*report.accuracy.flags, *raised)))


def _unevenly(requests: int, prompts: int) -> bool:
    """Whether some prompts were asked more often than others: not in whole passes over them."""
    return requests > prompts and (prompts == 0 or requests % prompts != 0)


def counters_add_up(record: RequestRecord) -> bool:
    """Check the identities of one request's counters (sgl-project pull request 33518).

    sum h = verify steps and sum k h[k] = accepted drafts; true where a counter was not given.
    """
    histogram = record.spec_histogram
    if histogram is None or record.spec_verify_ct is None or record.spec_accepted is None:
        return True
    accepted = sum(k * count for k, count in enumerate(histogram))
    return sum(histogram) == record.spec_verify_ct and accepted == record.spec_accepted


def _disagrees(row: dict[str, Any]) -> bool:
    """Hold the server's own accept length against the pooled counters.

    The server counts the warm-up too and refreshes its figure every 40 steps, so only a large
    difference over many steps says that somebody counts something else.
    """
    own, said, steps = row["accept_len"], row.get("accept_len_server"), row["verify_steps"]
    if own is None or said is None or (steps or 0) < RECONCILABLE_STEPS:
        return False
    return bool(abs(said / own - 1) > RECONCILED_WITHIN)


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _counted(measured: list[RequestRecord]) -> int | None:
    """Add the tokens up; None where a reply that came to its end was not counted."""
    if any(r.status == "ok" and r.output_tokens is None for r in measured):
        return None
    return _total(record.output_tokens for record in measured)


def _percentile(values: Floats, q: float) -> float | None:
    return float(np.percentile(values, q)) if values.size else None


def _client_lag(report: DriveReport) -> float | None:
    """Lag of the client at the 99th percentile: kernel stamp to read, else the late sends."""
    accuracy = report.accuracy
    lag = accuracy.read_lag_us_p99
    if lag is None:
        lag = accuracy.start_late_us_p99
    return None if lag is None else lag / 1000


def _concurrency(records: list[RequestRecord], report: DriveReport) -> float | None:
    """Time average of requests in flight over the steady window (else the measured phase)."""
    start, end = report.window_start_ns, report.window_end_ns
    if start is None or end is None:
        start, end = report.measured_start_ns, report.measured_end_ns
    if end <= start:
        return None
    busy = sum(
        max(0, min(record.end_ns, end) - max(record.written_ns, start))
        for record in records
        if record.written_ns is not None and record.end_ns is not None
    )
    return busy / (end - start)


def _throughput(
    everything: list[RequestRecord], measured: list[RequestRecord], report: DriveReport
) -> dict[str, float | None]:
    """Output tokens counted by the server over wall time: the whole run, and the steady window."""
    seconds = (report.measured_end_ns - report.measured_start_ns) / 1e9
    tokens = _counted(measured)
    whole = tokens / seconds if tokens is not None and seconds > 0 else None
    return {"tok_s": whole, "tok_s_window": _window_throughput(everything, report)}


def _window_throughput(records: list[RequestRecord], report: DriveReport) -> float | None:
    """Tokens that arrived inside the window over its length, of all requests then in flight."""
    start, end = report.window_start_ns, report.window_end_ns
    if start is None or end is None or end <= start:
        return None
    if any(r.chunk_ns and not r.chunk_tokens for r in records if r.status == "ok"):
        return None
    arrivals = np.fromiter(chain.from_iterable(r.chunk_ns for r in records), np.int64)
    tokens = np.fromiter(chain.from_iterable(r.chunk_tokens for r in records), np.int64)
    if not tokens.size or tokens.size != arrivals.size:
        return None
    inside = (arrivals > start) & (arrivals <= end)
    return float(tokens[inside].sum() / ((end - start) / 1e9))


def _latencies(finished: list[RequestRecord]) -> dict[str, float | None]:
    """Take percentiles over requests; `tpot_n` of them came in more than one stamp."""
    tpot = np.array([value for r in finished if (value := tpot_ms(r)) is not None])
    values: dict[Quantity, Floats] = {
        "ttft_ms": np.array([value for r in finished if (value := ttft_ms(r)) is not None]),
        "tpot_ms": tpot,
        "chunk_gap_ms": _chunk_gaps(finished),
        "e2e_ms": np.array([value for r in finished if (value := e2e_ms(r)) is not None]),
    }
    percentiles = {
        column.name: _percentile(values[column.quantity], column.percent)
        for column in COLUMNS
        if column.quantity is not None
    }
    return {
        "tok_s_user": float(np.median(1000 / tpot)) if tpot.size else None,
        "tpot_n": tpot.size if finished else None,
        **percentiles,
    }


def _chunk_gaps(finished: list[RequestRecord]) -> Floats:
    gaps = [np.diff(np.array(r.chunk_ns)) for r in finished if len(r.chunk_ns) > 1]
    return np.concatenate(gaps) / MS if gaps else np.array([])


def _goodput(
    finished: list[RequestRecord], report: DriveReport, levels: ServiceLevels | None
) -> float | None:
    """Count requests that met every level asked for over wall time; no latency meets none."""
    seconds = (report.measured_end_ns - report.measured_start_ns) / 1e9
    if levels is None or seconds <= 0:
        return None
    asked = (
        (levels.ttft_ms, ttft_ms),
        (levels.tpot_ms, tpot_ms),
        (levels.e2e_ms, e2e_ms),
    )
    limits = [(limit, latency) for limit, latency in asked if limit is not None]
    met = sum(all(_within(latency(r), limit) for limit, latency in limits) for r in finished)
    return met / seconds if limits else None


def _within(value: float | None, limit: float) -> bool:
    return value is not None and value <= limit


def ttft_ms(record: RequestRecord) -> float | None:
    """Milliseconds from the intended send to the first chunk with content or reasoning."""
    first = record.first_token_ns
    return None if first is None else (first - record.intended_ns) / MS


def e2e_ms(record: RequestRecord) -> float | None:
    """Milliseconds from the intended send to the end of the stream."""
    return None if record.end_ns is None else (record.end_ns - record.intended_ns) / MS


def tpot_ms(record: RequestRecord) -> float | None:
    """Milliseconds a token of one request: (last - first) / (n - n_in_first_chunk).

    None where fewer than two chunks came, or the server gave no counts.
    """
    first, last = record.first_token_ns, record.last_token_ns
    n, n_first = record.output_tokens, record.tokens_in_first_chunk
    if first is None or last is None or n is None or n_first is None:
        return None
    if n <= n_first or last <= first:
        return None
    return (last - first) / MS / (n - n_first)


def _acceptance(finished: list[RequestRecord], *, speculative: bool) -> dict[str, Any]:
    """Pooled acceptance and the time of a step.

    accept_len = 1 + sum of accepted drafts / sum of verify steps, a ratio of sums over requests
    (a server's own per-request figure may also count the prefill's token). Plain decoding makes one
    step a token after the first, so its accept_len is 1 and its step_ms is comparable.
    """
    chunks = sum(len(r.chunk_ns) for r in finished if r.chunk_tokens)
    streamed = sum(sum(r.chunk_tokens) for r in finished)
    shared = {"tokens_per_chunk": streamed / chunks if chunks and streamed else None}
    if not speculative:
        plain = [r for r in finished if r.output_tokens]
        steps = sum(r.output_tokens - 1 for r in plain if r.output_tokens)
        return shared | {
            "accept_len": 1.0 if steps else None,
            "accept_len_request_mean": 1.0 if steps else None,
            "verify_steps": steps or None,
            "step_ms": _step_ms(plain, steps),
        }
    counted = [r for r in finished if r.spec_verify_ct and r.spec_accepted is not None]
    steps = sum(r.spec_verify_ct for r in counted if r.spec_verify_ct)
    accepted = sum(r.spec_accepted for r in counted if r.spec_accepted)
    each = [1 + (r.spec_accepted or 0) / r.spec_verify_ct for r in counted if r.spec_verify_ct]
    return shared | {
        "accept_steps": _definition(counted),
        "accept_len": 1 + accepted / steps if steps else None,
        "accept_len_request_mean": float(np.mean(each)) if each else None,
        "verify_steps": steps or None,
        "step_ms": _step_ms(counted, steps),
    }


def _definition(records: list[RequestRecord]) -> str | None:
    """Say whether the server counted the steps, or they follow from what it counted."""
    if not records:
        return None
    derived = any(record.spec_steps_of == "derived" for record in records)
    return "derived" if derived else "counted"


def _step_ms(records: list[RequestRecord], steps: int) -> float | None:
    """Decode time over steps: from the first token (prefill's) to the last."""
    spans = [
        r.last_token_ns - r.first_token_ns
        for r in records
        if r.first_token_ns is not None and r.last_token_ns is not None
    ]
    if not steps or len(spans) != len(records):
        return None
    return sum(spans) / MS / steps
