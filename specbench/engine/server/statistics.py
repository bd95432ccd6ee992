"""What the scheduler counts, and the windows in which SGLang lets others see it.

The accept figures are SGLang's, traps included: sums over every verify step (drafts + bonus,
also those beyond EOS or max_new_tokens), shown only at a decode-log interval, cumulative since the
last flush, warm-up and everybody's traffic in them.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

from specbench.engine.server.request import Request

TTFT_BUCKETS = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
)  # fmt: skip
E2E_BUCKETS = (*TTFT_BUCKETS, 600, 1200, 1800, 2400)
ITL_BUCKETS = (
    0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080,
    0.100, 0.200, 0.400, 0.600, 0.800, 1.0, 2.0, 4.0, 6.0, 8.0,
)  # fmt: skip


class Histogram:
    """A Prometheus histogram: counts per bucket, sum and count."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Add `times` observations of the same value."""
        index = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[index] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)


@dataclass
class Interval:
    """What happened since the last decode log line."""

    began: float = field(default_factory=time.monotonic)
    iterations: int = 0
    tokens: int = 0
    accepted: int = 0
    verified: int = 0


@dataclass
class Statistics:
    """Counters since the start, cumulative accept sums since the last flush, and the last window.

    `width` is the number of draft tokens (0 for a plain server).
    """

    width: int
    log_interval: int = 40
    counters: Counter[str] = field(default_factory=Counter)
    by_stream: Counter[tuple[str, bool]] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    ttft: dict[bool, Histogram] = field(
        default_factory=lambda: {s: Histogram(TTFT_BUCKETS) for s in (False, True)}
    )
    e2e: dict[bool, Histogram] = field(
        default_factory=lambda: {s: Histogram(E2E_BUCKETS) for s in (False, True)}
    )
    queue: Histogram = field(default_factory=lambda: Histogram(TTFT_BUCKETS))
    inter_token: Histogram = field(default_factory=lambda: Histogram(ITL_BUCKETS))
    interval: Interval = field(default_factory=Interval)
    iterations: int = 0
    accept_tokens: int = 0
    verify_steps: int = 0
    avg_accept_length: float | None = None
    last_accept_length: float = 0.0
    last_accept_rate: float = 0.0
    gen_throughput: float = 0.0
    cache_hit_rate: float = 0.0
    last_published: float = field(default_factory=time.monotonic)

    def step(self, tokens: int, accepted: int, verified: int) -> bool:
        """Count one decode iteration; True when its interval is full and a line is due.

        `tokens` were emitted; `verified` requests had a verify step that accepted `accepted`
        drafts in all.
        """
        window = self.interval
        self.iterations += 1
        window.iterations += 1
        window.tokens += tokens
        window.accepted += accepted
        window.verified += verified
        self.modes["decode"] += tokens
        return window.iterations >= self.log_interval

    def prefilled(self, new: int, cached: int) -> None:
        """Count one prefill batch: tokens computed and tokens found in the prefix cache."""
        self.cache_hit_rate = cached / (new + cached)
        self.modes["prefill_compute"] += new
        self.modes["prefill_cache"] += cached

    def finished(self, request: Request) -> None:
        """Count a request at its end; health probes do not count."""
        if request.wish.deaf:
            return
        stream = request.wish.stream
        self.by_stream["num_requests_total", stream] += 1
        self.by_stream["prompt_tokens_total", stream] += request.prompt_tokens
        self.by_stream["generation_tokens_total", stream] += len(request.ids)
        self.by_stream["cached_tokens_total", stream] += request.cached_tokens
        self.counters["spec_verify_calls_total"] += request.sequence.verify_ct
        self.queue.observe(request.queue_s)
        self.e2e[stream].observe(request.e2e_s)
        self.ttft[stream].observe(request.first_token_s)
        gaps = len(request.ids) - 1
        if gaps > 0:
            gap = (request.e2e_s - request.first_token_s) / gaps
            self.inter_token.observe(gap, gaps)

    def publish(self) -> None:
        """Close the window: refresh the gauges and the cumulative accept length."""
        window, now = self.interval, time.monotonic()
        self.gen_throughput = window.tokens / max(now - window.began, 1e-9)
        if window.verified:
            self.accept_tokens += window.accepted + window.verified
            self.verify_steps += window.verified
            self.last_accept_length = 1 + window.accepted / window.verified
            self.last_accept_rate = window.accepted / (window.verified * max(self.width - 1, 1))
            self.avg_accept_length = self.accept_tokens / self.verify_steps
        self.interval = Interval()
        self.last_published = now

    def shown_throughput(self) -> float:
        """Return the throughput gauge, zero after 30 seconds without an update."""
        return self.gen_throughput if time.monotonic() - self.last_published < 30 else 0.0

    def flush(self) -> None:
        """Forget the accept statistics, as a successful /flush_cache does."""
        self.interval = Interval()
        self.accept_tokens = self.verify_steps = 0
        self.avg_accept_length = None
        self.last_accept_length = self.last_accept_rate = 0.0
        self.gen_throughput = self.cache_hit_rate = 0.0
