"""When bytes arrived, and how sure that is."""

import struct
from collections import Counter
from operator import attrgetter, sub

from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.read_log import (
    FULL_READ_BYTES,
    NO_STAMP,
    READ_BYTES,
    LoopTick,
    ReadLog,
)
from specbench.model.load import RequestRecord

_SECOND = 1_000_000_000
NEVER = -(1 << 62)
"""Of a reading: nothing can wait for its acknowledgement."""
ACKNOWLEDGED_NS = 100_000
"""From a read to the arrival of what waited for its acknowledgement, beside the round trip: two
softirqs, and a processor that was asleep."""
_offset, _end = attrgetter("offset_ns"), attrgetter("end_ns")


class Timestamps:
    """Turns the reads of one request into arrival times, and keeps account of their quality.

    The kernel stamps a segment on CLOCK_REALTIME when it arrives (SO_TIMESTAMPNS, Linux
    Documentation/networking/timestamping.rst). Both clocks are read in every tick of the loop, so
    a step or slew of the wall clock before or after it cannot move a stamp. The read lag runs to
    the end of the tick that read: no read was later than that.

    A chunk's doubt is how much earlier than its stamp it may have left the server:

    - a read of several chunks carries the last segment's stamp, and a segment of several chunks
      was kept back by somebody (Nagle's algorithm, a proxy): any of them may have left at any time
      since the read before;
    - a segment that comes as soon as the one before can have been acknowledged may have been kept
      back for just that (RFC 896), and left at any time since the read before;
    - without a kernel stamp a chunk came at any time since the last poll that did not name its
      socket.

    Acknowledgements leave with the read (`Connection.acknowledge_at_once`).
    """

    __slots__ = (
        "_before",
        "_doubts",
        "_ends",
        "_lags",
        "_log",
        "_origin",
        "_round_trip",
        "_stamps",
        "event_reads",
        "exact_reads",
        "first_doubt",
        "inexact",
        "kernel_reads",
        "last",
        "last_doubt",
        "reads",
    )

    def __init__(self, origin_ns: int) -> None:
        self._origin = origin_ns
        self._lags: list[int] = []
        self._log = ReadLog()
        self._stamps: list[int] = []
        self._ends: list[int] = []
        self._before: tuple[int, int] | None = None
        self._round_trip = 0
        self.last = 0
        self.reads = 0
        self.kernel_reads = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.inexact = 0
        self.first_doubt: int | None = None
        self.last_doubt: int | None = None
        self._doubts: list[int] = []

    def follow(self, written_ns: int | None, round_trip_ns: int) -> None:
        """Say what the reads given next come after, unless reads were given: the request."""
        self._round_trip = round_trip_ns
        if self._stamps:
            self._before = (self._stamps[-1], self._ends[-1])
        elif written_ns is not None:
            self._before = (written_ns - self._origin, NEVER)

    def stamp(self, log: ReadLog) -> list[int]:
        """Give the arrival of each read's last byte, in ns since the drive's start."""
        words = struct.unpack(f"@{2 * len(log.stamps)}q", b"".join(log.stamps))
        seconds, nanos, ticks = words[::2], words[1::2], log.ticks
        stamped = len(seconds) - seconds.count(0)
        if stamped == len(seconds):
            offsets = map(_offset, ticks)
            stamps = [
                second * _SECOND + nano + offset
                for second, nano, offset in zip(seconds, nanos, offsets, strict=True)
            ]
            ends = map(_end, ticks)
            self._lags += [end - stamp for end, stamp in zip(ends, stamps, strict=True)]
        else:
            stamps = list(map(self._stamp, seconds, nanos, ticks))
        origin = self._origin
        stamps = [stamp - origin for stamp in stamps]
        self.reads += len(stamps)
        self.kernel_reads += stamped
        self._log, self._stamps = log, stamps
        self._ends = [tick.end_ns - origin for tick in log.ticks]
        if stamps:
            self.last = stamps[-1]
        return stamps

    def _stamp(self, seconds: int, nanos: int, tick: LoopTick) -> int:
        if not seconds:
            return tick.end_ns
        stamp = seconds * _SECOND + nanos + tick.offset_ns
        self._lags.append(tick.end_ns - stamp)
        return stamp

    def account(self, chunks: list[int], cut: set[int]) -> None:
        """Note which of the stamps given last were chunks'.

        `chunks` are stamps, the same one again for each further chunk of a read; `cut` holds the
        indices of reads that ended inside an event.
        """
        if not chunks:
            return
        distinct = len(set(chunks))
        self.event_reads += distinct
        clean = distinct == len(chunks) and not cut and self.kernel_reads == self.reads
        if clean and not self._some_held():
            self.exact_reads += distinct
            self._note(0)
            return
        counts = Counter(chunks)
        for index, stamp in enumerate(self._stamps):
            if stamp in counts:
                self._doubt(index, counts.pop(stamp), cut=index in cut)

    def _some_held(self) -> bool:
        """Whether any segment may have waited for an acknowledgement: for nearly all, none."""
        before = [] if self._before is None else [self._before[1]]
        pauses = map(sub, self._stamps if before else self._stamps[1:], [*before, *self._ends])
        return min(pauses, default=-NEVER) <= self._reach

    @property
    def _reach(self) -> int:
        """How long after an acknowledgement that which waited for it is here."""
        return ACKNOWLEDGED_NS + self._round_trip + self._round_trip // 2

    def _doubt(self, index: int, chunks: int, *, cut: bool) -> None:
        stamp, single = self._stamps[index], chunks == 1 and not cut
        since, heard = self._read_before(index)
        held = since + self._round_trip // 2 <= stamp <= heard + self._reach
        stamped = self._log.stamps[index] != NO_STAMP
        if not single or held:
            doubt = max(stamp - since, 0)
        elif not stamped:
            doubt = max(stamp - (self._log.quiet_ns(index) - self._origin), 0)
        else:
            doubt = 0
        self.exact_reads += single
        self.inexact += chunks if doubt and stamped else 0
        self._doubts += [doubt] * chunks if doubt else []
        self._note(doubt)

    def _read_before(self, index: int) -> tuple[int, int]:
        """Give the arrival and the reading of what came before a read.

        A read that filled its buffer left something behind, which had come with it.
        """
        while index and len(self._log.data[index - 1]) in (READ_BYTES, FULL_READ_BYTES):
            index -= 1
        if index:
            return self._stamps[index - 1], self._ends[index - 1]
        return self._before or (self._stamps[0], NEVER)

    def _note(self, doubt: int) -> None:
        if self.first_doubt is None:
            self.first_doubt = doubt
        self.last_doubt = doubt

    def settle(self, record: RequestRecord, stats: ClientStats) -> None:
        """Write the account into the record and the worker's stats."""
        record.stamp = "kernel" if self.reads and self.kernel_reads == self.reads else "read"
        record.inexact_stamps = self.inexact
        record.first_doubt_ns, record.last_doubt_ns = self.first_doubt, self.last_doubt
        if self._lags:
            record.read_lag_max_us = max(self._lags) / 1e3
        stats.lag.extend(self._lags)
        stats.reads += self.reads
        stats.kernel_reads += self.kernel_reads
        stats.events += len(record.chunk_ns)
        stats.event_reads += self.event_reads
        stats.exact_reads += self.exact_reads
        certain = len(record.chunk_ns) - len(self._doubts)
        stats.gap_doubt.extend([0] * certain + self._doubts)
        if len(record.chunk_ns) > 1:
            span = record.chunk_ns[-1] - record.chunk_ns[0]
            stats.gap.add(span // (len(record.chunk_ns) - 1))
