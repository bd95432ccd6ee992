"""What a worker knows about its own measuring: samples, counters, phases, the clocks' agreement."""

import time
from array import array
from collections.abc import Iterable

import msgspec

STEP_NS = 500_000


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
        """Add values in spec."""
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


class ClientStats:
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


class Window:
    """Marks when the measured phase began and ended, and when in-flight was at the target.

    Closed loop: the window opens when the number in flight first reaches `target` in the measured
    phase and closes when it first falls below after the last send. Open loop (`target` None): the
    window is from the first measured send to the last one. Times are CLOCK_MONOTONIC ns.
    """

    def __init__(self, target: int | None) -> None:
        self._target = target
        self.measured_start: int | None = None
        self.measured_end: int | None = None
        self.opened: int | None = None
        self.closed: int | None = None

    def sent(self, now: int, in_flight: int, *, measured: bool) -> None:
        """Note a send."""
        if measured and self.measured_start is None:
            self.measured_start = now
        if self.measured_start is None:
            return
        if self.opened is None and (self._target is None or in_flight >= self._target):
            self.opened = now
        if self._target is None:
            self.closed = now

    def ended(self, now: int, in_flight: int, *, measured: bool, last: bool) -> None:
        """Note the end of a request; `last` says that no send will follow."""
        if measured:
            self.measured_end = max(now, self.measured_end or now)
        below = self._target is not None and in_flight < self._target
        if below and last and self.opened is not None and self.closed is None:
            self.closed = now


class ClockWatch:
    """Follows wall minus monotonic; `drift_ns` is its range, `steps` counts its jumps.

    Stamps do not depend on the offset (see arrivals), only logs are correlated by it. NTP slews by
    at most 500 ppm (50 us in the 0.1 s between two looks); more than `STEP_NS` is a step.
    """

    def __init__(self) -> None:
        self._last = self._low = self._high = offset_ns()
        self.steps = 0

    @property
    def drift_ns(self) -> int:
        """How far the offset has wandered since the start, steps included."""
        return self._high - self._low

    def look(self) -> None:
        """Read the offset again."""
        offset = offset_ns()
        if abs(offset - self._last) > STEP_NS:
            self.steps += 1
        self._last = offset
        self._low, self._high = min(self._low, offset), max(self._high, offset)


def offset_ns() -> int:
    """Read CLOCK_REALTIME - CLOCK_MONOTONIC: the reading with the tightest bracket of three."""
    return min(_reading() for _ in range(3))[1]


def _reading() -> tuple[int, int]:
    before = time.monotonic_ns()
    wall = time.time_ns()
    after = time.monotonic_ns()
    return after - before, wall - (before + after) // 2
