"""The doubt of a chunk covers how long somebody on its way kept it back, whoever that was."""

import struct
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.read_log import LoopTick, ReadLog
from specbench.loadgen.hotpath.timestamps import Timestamps
from specbench.model.load import RequestRecord

US = 1_000
MS = 1_000_000
ORIGIN = 5_000_000_000
WALL = 1_700_000_000_000_000_000
FLOOR = 100 * US
ROUND_TRIP = 40 * US


@dataclass(frozen=True)
class Segment:
    """What came at once: when, and the numbers of the events in it."""

    at_ns: int
    events: tuple[int, ...]


def read_all(
    segments: list[Segment], lags: list[int], quiet_before: int
) -> tuple[Timestamps, list[int]]:
    """Read segments, each `lag` after it came; several that wait are one read, as a kernel does.

    Gives the arrivals and the stamp of each event.
    """
    log, stamps, heard = ReadLog(), [], quiet_before
    arrivals = Timestamps(ORIGIN)
    arrivals.follow(ORIGIN, ROUND_TRIP)
    waiting = list(segments)
    counts: list[int] = []
    for lag in [*lags, *[0] * len(segments)]:
        if not waiting:
            break
        at = max(waiting[0].at_ns + lag, heard)
        taken = [segment for segment in waiting if segment.at_ns <= at]
        waiting = waiting[len(taken) :]
        last = taken[-1].at_ns
        tick = LoopTick(ORIGIN + heard, WALL + at, ORIGIN + at)
        log.add(b"x" * 100, struct.pack("@qq", *divmod(WALL + last, 10**9)), tick)
        counts.append(sum(len(segment.events) for segment in taken))
        heard = at
    for stamp, count in zip(arrivals.stamp(log), counts, strict=True):
        stamps += [stamp] * count
    arrivals.account(stamps, set())
    return arrivals, stamps


def doubts_of(arrivals: Timestamps, stamps: list[int]) -> list[int]:
    """Give the doubt of each chunk, as the workers' figures have them: largest first."""
    record, stats = RequestRecord(rid="r", prompt_id="p", chunk_ns=stamps), ClientStats()
    arrivals.settle(record, stats)
    return sorted(stats.gap_doubt.values, reverse=True)


def by_nagle(written: list[int], delay: int) -> list[Segment]:
    """Keep events back as Nagle's algorithm does, each segment acknowledged `delay` after it."""
    segments: list[Segment] = []
    acknowledged, pending = 0, list(range(len(written)))
    while pending:
        leaves = max(written[pending[0]], acknowledged)
        group = tuple(number for number in pending if written[number] <= leaves)
        pending = pending[len(group) :]
        segments.append(Segment(leaves + ROUND_TRIP // 2, group))
        acknowledged = leaves + ROUND_TRIP + delay
    return segments


def by_timer(written: list[int], hold: int) -> list[Segment]:
    """Keep events back as a proxy does that sends what came in `hold` ns at once."""
    segments: list[Segment] = []
    pending = list(range(len(written)))
    while pending:
        leaves = written[pending[0]] + hold
        group = tuple(number for number in pending if written[number] <= leaves)
        pending = pending[len(group) :]
        segments.append(Segment(leaves, group))
    return segments


gaps = st.lists(st.integers(10 * US, 60 * MS), min_size=2, max_size=30)


def times(steps: list[int]) -> list[int]:
    return [sum(steps[: number + 1]) for number in range(len(steps))]


@given(gaps, st.integers(0, 45 * MS))
def test_the_doubt_covers_nagle_and_acknowledgements_at_the_read(
    steps: list[int], lag: int
) -> None:
    written = times(steps)
    segments = by_nagle(written, lag)

    arrivals, stamps = read_all(segments, [lag] * len(segments), 0)

    late = [stamp - at for stamp, at in zip(stamps, written, strict=True)]
    assert (arrivals.first_doubt or 0) + FLOOR >= late[0]
    assert (arrivals.last_doubt or 0) + FLOOR >= late[-1]
    held = sum(each > FLOOR for each in late)
    assert sum(doubt > 0 for doubt in doubts_of(arrivals, stamps)) >= held


@given(gaps)
def test_the_doubt_of_merged_events_covers_a_delayed_acknowledgement(steps: list[int]) -> None:
    written = times(steps)
    segments = by_nagle(written, 40 * MS)
    merged = [
        number for segment in segments if len(segment.events) > 1 for number in segment.events
    ]

    arrivals, stamps = read_all(segments, [], 0)

    late = sorted((stamps[number] - written[number] for number in merged), reverse=True)
    found = doubts_of(arrivals, stamps)
    assert all(doubt + FLOOR >= each for doubt, each in zip(found, late, strict=False))
    assert len(found) >= len(late)


@given(gaps, st.integers(1 * MS, 100 * MS))
def test_the_doubt_of_merged_events_covers_a_proxy_that_collects(
    steps: list[int], hold: int
) -> None:
    written = times(steps)
    segments = by_timer(written, hold)

    arrivals, stamps = read_all(segments, [], 0)

    if len(segments[0].events) > 1:
        assert (arrivals.first_doubt or 0) >= stamps[0] - written[0]
    if len(segments[-1].events) > 1:
        assert (arrivals.last_doubt or 0) >= stamps[-1] - written[-1]


@given(gaps, st.lists(st.integers(0, 80 * MS), min_size=30, max_size=30))
def test_the_doubt_covers_a_client_that_reads_late(steps: list[int], lags: list[int]) -> None:
    written = times(steps)
    segments = [Segment(at, (number,)) for number, at in enumerate(written)]

    arrivals, stamps = read_all(segments, lags, 0)

    late = sorted((stamp - at for stamp, at in zip(stamps, written, strict=True)), reverse=True)
    found = doubts_of(arrivals, stamps)
    assert all(doubt >= each for doubt, each in zip(found, late, strict=True))


@given(gaps, st.integers(0, 5 * US))
def test_events_that_come_alone_and_are_read_in_time_have_no_doubt(
    steps: list[int], lag: int
) -> None:
    written = times([step + MS for step in steps])
    segments = [Segment(at, (number,)) for number, at in enumerate(written)]

    arrivals, stamps = read_all(segments, [lag] * len(segments), 0)

    assert not any(doubts_of(arrivals, stamps))
    assert arrivals.exact_reads == len(written)
