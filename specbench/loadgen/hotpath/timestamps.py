"""When bytes arrived, and how sure that is."""

import struct
from collections import Counter
from operator import attrgetter

from specbench.loadgen.hotpath.client_stats import Tally
from specbench.loadgen.hotpath.read_log import NO_STAMP, Tape, Turn
from specbench.model.load import RequestRecord

_SECOND = 1_000_000_000
_offset, _end = attrgetter("offset_ns"), attrgetter("end_ns")


class Arrivals:
    """Turns the reads of one request into arrival times, and keeps account of their quality.

    The kernel stamps a segment on CLOCK_REALTIME when it arrives (SO_TIMESTAMPNS, Linux
    Documentation/networking/timestamping.rst). Both clocks are read in every turn of the loop, so
    a step or slew of the wall clock before or after it cannot move a stamp. The read lag runs to
    the end of the turn that read: no read was later than that.
    A read of several segments carries the last one's stamp. Chunks before it in the same read may
    have arrived at any time since the socket was last known to be empty: that is their doubt.
    Without a kernel stamp it is the doubt of every chunk.
    """

    __slots__ = (
        "_doubts",
        "_lags",
        "_origin",
        "_stamps",
        "_tape",
        "event_reads",
        "exact_reads",
        "first_doubt",
        "inexact",
        "kernel_reads",
        "last",
        "reads",
    )

    def __init__(self, origin_ns: int) -> None:
        self._origin = origin_ns
        self._lags: list[int] = []
        self._tape = Tape()
        self._stamps: list[int] = []
        self.last = 0
        self.reads = 0
        self.kernel_reads = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.inexact = 0
        self.first_doubt: int | None = None
        self._doubts: list[int] = []

    def stamp(self, tape: Tape) -> list[int]:
        """Give the arrival of each read's last byte, in ns since the drive's start."""
        words = struct.unpack(f"@{2 * len(tape.stamps)}q", b"".join(tape.stamps))
        seconds, nanos, turns = words[::2], words[1::2], tape.turns
        stamped = len(seconds) - seconds.count(0)
        if stamped == len(seconds):
            offsets = map(_offset, turns)
            stamps = [
                second * _SECOND + nano + offset
                for second, nano, offset in zip(seconds, nanos, offsets, strict=True)
            ]
            ends = map(_end, turns)
            self._lags += [end - stamp for end, stamp in zip(ends, stamps, strict=True)]
        else:
            stamps = list(map(self._stamp, seconds, nanos, turns))
        origin = self._origin
        stamps = [stamp - origin for stamp in stamps]
        self.reads += len(stamps)
        self.kernel_reads += stamped
        self._tape, self._stamps = tape, stamps
        if stamps:
            self.last = stamps[-1]
        return stamps

    def _stamp(self, seconds: int, nanos: int, turn: Turn) -> int:
        if not seconds:
            return turn.end_ns
        stamp = seconds * _SECOND + nanos + turn.offset_ns
        self._lags.append(turn.end_ns - stamp)
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
        if distinct == len(chunks) and not cut and self.kernel_reads == self.reads:
            self.exact_reads += distinct
            if self.first_doubt is None:
                self.first_doubt = 0
            return
        counts = Counter(chunks)
        for index, stamp in enumerate(self._stamps):
            if stamp in counts:
                self._doubt(index, counts.pop(stamp), cut=index in cut)

    def _doubt(self, index: int, chunks: int, *, cut: bool) -> None:
        single = chunks == 1 and not cut
        self.exact_reads += single
        inexact = chunks if cut else chunks - 1
        self.inexact += inexact
        stamped = self._tape.stamps[index] != NO_STAMP
        quiet = self._tape.quiet_ns(index) - self._origin
        doubt = 0 if single and stamped else max(self._stamps[index] - quiet, 0)
        if self.first_doubt is None:
            self.first_doubt = doubt
        self._doubts += [doubt] * (inexact if stamped else chunks)

    def settle(self, record: RequestRecord, tally: Tally) -> None:
        """Write the account into the record and the worker's tally."""
        record.stamp = "kernel" if self.reads and self.kernel_reads == self.reads else "read"
        record.inexact_stamps = self.inexact
        if self._lags:
            record.read_lag_max_us = max(self._lags) / 1e3
        tally.lag.extend(self._lags)
        tally.reads += self.reads
        tally.kernel_reads += self.kernel_reads
        tally.events += len(record.chunk_ns)
        tally.event_reads += self.event_reads
        tally.exact_reads += self.exact_reads
        certain = len(record.chunk_ns) - len(self._doubts)
        tally.gap_doubt.extend([0] * certain + self._doubts)
        if len(record.chunk_ns) > 1:
            span = record.chunk_ns[-1] - record.chunk_ns[0]
            tally.gap.add(span // (len(record.chunk_ns) - 1))
