"""What a worker knows about its own measuring: bounded samples and counters, merged at the end."""

from array import array
from collections.abc import Iterable

import msgspec


class Sampler:
    """A systematic sample of at most `limit` values, whatever their number; the maximum is exact.

    Every stride-th value is kept; when the sample is full, every other one is dropped and the
    stride doubles. No coin is tossed, so equal input gives an equal sample.
    """

    __slots__ = ("_limit", "_seen", "_stride", "maximum", "values")

    def __init__(self, limit: int = 1 << 14) -> None:
        self.values = array("q")
        self.maximum: int | None = None
        self._limit = limit
        self._stride = 1
        self._seen = 0

    def extend(self, values: list[int]) -> None:
        """Add values in order."""
        if not values:
            return
        largest = max(values)
        if self.maximum is None or largest > self.maximum:
            self.maximum = largest
        self.values.extend(values[-self._seen % self._stride :: self._stride])
        self._seen += len(values)
        while len(self.values) > self._limit:
            self.values = self.values[::2]
            self._stride *= 2

    def add(self, value: int) -> None:
        """Add one value."""
        self.extend([value])


class WorkerSummary(msgspec.Struct, frozen=True, kw_only=True, tag="worker_summary"):
    """Everything that one worker tells at its end; times relative to the drive's start, in ns.

    Samples are in nanoseconds. `lag`: kernel stamp to read; `late`: intended send to its last byte
    written; `turnaround`: end of a reply to the next send of its slot; `ttft_doubt`, `gap_doubt`:
    by how much the TTFT of each request and the stamp of each chunk may be off for what this
    client knows; `gap`: the mean gap between the chunks of a request.
    """

    worker: int
    requests: int = 0
    failed: int = 0
    answered: int = 0
    unreachable: int = 0
    output_tokens: int = 0
    measured_start_ns: int | None = None
    measured_end_ns: int | None = None
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    interrupted: bool = False
    kernel_reads: int = 0
    reads: int = 0
    events: int = 0
    event_reads: int = 0
    exact_reads: int = 0
    lag: list[int] = []
    late: list[int] = []
    turnaround: list[int] = []
    ttft_doubt: list[int] = []
    gap_doubt: list[int] = []
    gap: list[int] = []
    rtt: list[int] = []
    lag_max: int | None = None
    cpu_share: float = 0.0
    cpu_ns: int = 0
    socket_backlog_max: int = 0
    clock_drift_ns: int = 0
    clock_steps: int = 0
    reconnects: int = 0
    first_failure: str = ""
    gave_up: str = ""


class Tally:
    """The counters behind a WorkerSummary, as they grow."""

    def __init__(self) -> None:
        self.lag = Sampler()
        self.late = Sampler()
        self.turnaround = Sampler()
        self.ttft_doubt = Sampler()
        self.gap_doubt = Sampler()
        self.gap = Sampler(4096)
        self.rtt = Sampler(4096)
        self.kernel_reads = 0
        self.reads = 0
        self.events = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.socket_backlog_max = 0
        self.reconnects = 0

    def figures(self) -> dict[str, int | list[int] | None]:
        """Give all of it under the names of WorkerSummary."""
        samplers = ("lag", "late", "turnaround", "ttft_doubt", "gap_doubt", "gap", "rtt")
        counters = ("kernel_reads", "reads", "events", "event_reads", "exact_reads")
        return {
            **{name: list(getattr(self, name).values) for name in samplers},
            **{name: getattr(self, name) for name in counters},
            "lag_max": self.lag.maximum,
            "socket_backlog_max": self.socket_backlog_max,
            "reconnects": self.reconnects,
        }


def percentile(values: Iterable[int], share: float) -> float | None:
    """Give the smallest value that `share` of the values do not exceed; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])
