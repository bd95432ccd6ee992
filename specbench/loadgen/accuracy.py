"""What a drive's figures are worth: summaries of the workers into one report with its accuracy.

The bound on an error is built from what the client knows, and from nothing that it hopes:

    TTFT error <= (last byte written - intended send) + doubt of the first chunk + round trip
    gap error  <= doubt of its chunks (see arrivals)

plus `FLOOR_US` for what no client can see: the time between a server's last instruction and the
stamp (softirq, and the server's own preemption: 2 to 10 us on a quiet loopback, 40 us beside busy
neighbours). The TTFT's is the 99.5th percentile over requests, for a claim of 99 % of them; the
gap's the 99.5th percentile over chunks, for a claim of 99 % of the gaps, each of which has two.
A finish, usage or [DONE] event in the same read as the last chunk is taken to have left with it:
the servers measured with write them out of the same engine output.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from specbench.loadgen.hotpath.client_stats import WorkerSummary, percentile
from specbench.model.load import Accuracy, DriveReport

FLOOR_US = 100.0
CLAIM = 0.995
CPU_BOUND = 0.90
LATE_BOUND_US = 10_000.0
EXACT_BOUND = 0.95


def report(summaries: Sequence[WorkerSummary], *, start_unix_ns: int) -> DriveReport:
    """Merge what the workers say into one report."""
    starts = [each.measured_start_ns for each in summaries if each.measured_start_ns is not None]
    ends = [each.measured_end_ns for each in summaries if each.measured_end_ns is not None]
    window = _window(summaries)
    return DriveReport(
        start_unix_ns=start_unix_ns,
        measured_start_ns=min(starts, default=0),
        measured_end_ns=max(ends, default=0),
        window_start_ns=window[0] if window else None,
        window_end_ns=window[1] if window else None,
        requests=sum(each.requests for each in summaries),
        failed=sum(each.failed for each in summaries),
        interrupted=any(each.interrupted for each in summaries),
        gave_up=next((each.gave_up for each in summaries if each.gave_up), ""),
        accuracy=accuracy_of(summaries),
    )


def accuracy_of(summaries: Sequence[WorkerSummary]) -> Accuracy:
    """Derive the accuracy. Where nothing was seen, a figure is None and not zero."""
    lag, gaps = _samples(summaries, "lag"), _samples(summaries, "gap")
    late = _samples(summaries, "late")
    turnaround = _samples(summaries, "turnaround")
    rtt = _us(percentile(_samples(summaries, "rtt"), 0.5))
    reads = sum(each.reads for each in summaries)
    kernel = sum(each.kernel_reads for each in summaries)
    event_reads = sum(each.event_reads for each in summaries)
    exact = sum(each.exact_reads for each in summaries)
    lag_maxima = [each.lag_max for each in summaries if each.lag_max is not None]
    draft = Accuracy(
        stamp="kernel" if reads and kernel == reads else "mixed" if kernel else "read",
        processes=len(summaries),
        events=sum(each.events for each in summaries),
        reads=reads,
        exact_share=exact / event_reads if event_reads else None,
        read_lag_us_p50=_us(percentile(lag, 0.5)),
        read_lag_us_p99=_us(percentile(lag, 0.99)),
        read_lag_us_max=max(lag_maxima) / 1e3 if lag_maxima else None,
        start_late_us_p50=_us(percentile(late, 0.5)),
        start_late_us_p99=_us(percentile(late, 0.99)),
        turnaround_us_p50=_us(percentile(turnaround, 0.5)),
        turnaround_us_p99=_us(percentile(turnaround, 0.99)),
        reconnects=sum(each.reconnects for each in summaries),
        cpu_share=max((each.cpu_share for each in summaries), default=None),
        cpu_s=sum(each.cpu_ns for each in summaries) / 1e9,
        socket_backlog_max=max((each.socket_backlog_max for each in summaries), default=None),
        clock_offset_drift_us=max((each.clock_drift_ns for each in summaries), default=0) / 1e3,
        clock_steps=sum(each.clock_steps for each in summaries),
        rtt_us_p50=rtt,
        ttft_error_us=_bound(_samples(summaries, "ttft_doubt"), rtt or 0.0),
        gap_error_us=_bound(_samples(summaries, "gap_doubt"), 0.0),
    )
    return msgspec.structs.replace(draft, flags=doubts(draft, _us(percentile(gaps, 0.5))))


def merge(reports: Sequence[DriveReport]) -> DriveReport:
    """Make one report of those of several hosts that drove together.

    Counts are added; of everything else the worst host speaks, and the window is the common part.
    """
    windows = [
        (each.window_start_ns, each.window_end_ns)
        for each in reports
        if each.window_start_ns is not None and each.window_end_ns is not None
    ]
    window = _common(windows) if len(windows) == len(reports) else None
    found = [each.accuracy for each in reports]
    stamps = {each.stamp for each in found}
    shares = [each.exact_share for each in found if each.exact_share is not None]
    figures = {name: sum(getattr(each, name) for each in found) for name in _ADDED}
    figures |= {name: _worst(getattr(each, name) for each in found) for name in _WORST}
    return DriveReport(
        start_unix_ns=min(each.start_unix_ns for each in reports),
        measured_start_ns=min(each.measured_start_ns for each in reports),
        measured_end_ns=max(each.measured_end_ns for each in reports),
        window_start_ns=window[0] if window else None,
        window_end_ns=window[1] if window else None,
        requests=sum(each.requests for each in reports),
        failed=sum(each.failed for each in reports),
        interrupted=any(each.interrupted for each in reports),
        gave_up=next((each.gave_up for each in reports if each.gave_up), ""),
        accuracy=msgspec.structs.replace(
            found[0],
            stamp=stamps.pop() if len(stamps) == 1 else "mixed",
            exact_share=min(shares, default=None),
            flags=tuple(sorted({flag for each in found for flag in each.flags})),
            **figures,
        ),
    )


_ADDED = ("processes", "events", "reads", "reconnects", "clock_steps")
_WORST = (
    "read_lag_us_p50",
    "read_lag_us_p99",
    "read_lag_us_max",
    "start_late_us_p50",
    "start_late_us_p99",
    "turnaround_us_p50",
    "turnaround_us_p99",
    "cpu_share",
    "cpu_s",
    "socket_backlog_max",
    "clock_offset_drift_us",
    "rtt_us_p50",
    "ttft_error_us",
    "gap_error_us",
)


def _worst(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def doubts(found: Accuracy, gap_us: float | None) -> tuple[str, ...]:
    """Give the flags that the figures of an accuracy call for.

    `client_saturated`: the busiest process took more than 90 % of a core, or sends were more than
    10 ms late (p99), or reads were late (p99) by more than `gap_us`, the typical gap between
    chunks, while more than 5 % of them held several chunks.
    """
    behind = gap_us is not None and (found.read_lag_us_p99 or 0.0) > gap_us
    merged = found.exact_share is not None and found.exact_share < EXACT_BOUND
    saturated = (
        (found.cpu_share or 0.0) > CPU_BOUND
        or (found.start_late_us_p99 or 0.0) > LATE_BOUND_US
        or (behind and merged)
    )
    flags = {"client_saturated": saturated, "clock_step": found.clock_steps > 0}
    return tuple(name for name, raised in flags.items() if raised)


def _window(summaries: Sequence[WorkerSummary]) -> tuple[int, int] | None:
    """Intersect the steady windows of all workers; None when there is no common part."""
    windows = [
        (each.window_start_ns, each.window_end_ns)
        for each in summaries
        if each.window_start_ns is not None and each.window_end_ns is not None
    ]
    return _common(windows) if len(windows) == len(summaries) else None


def _common(windows: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    start = max((window[0] for window in windows), default=0)
    end = min((window[1] for window in windows), default=0)
    return (start, end) if start < end else None


def _bound(doubt_ns: list[int], round_trip_us: float) -> float | None:
    worst = _us(percentile(doubt_ns, CLAIM))
    return None if worst is None else worst + round_trip_us + FLOOR_US


def _samples(summaries: Sequence[WorkerSummary], name: str) -> list[int]:
    return list(chain.from_iterable(getattr(each, name) for each in summaries))


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e3
