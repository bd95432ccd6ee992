"""When bytes arrived, and how sure that is."""

import struct
from collections import Counter

from specbench.loadgen.tally import Tally
from specbench.model.load import RequestRecord

Read = tuple[bytes, list[tuple[int, int, bytes]] | None, int, int]
"""(data, ancillary, clock, monotonic_ns) of one read.

With an ancillary list, `clock` is CLOCK_REALTIME at the read, to be held against the kernel's
stamp. Without one (None: TLS), it is the monotonic time since when the data may have waited."""

_TIMESPEC = struct.Struct("@qq").unpack
_SECOND = 1_000_000_000


class Arrivals:
    """Turns the reads of one request into arrival times, and keeps account of their quality.

    The kernel stamps a segment on CLOCK_REALTIME when it arrives (SO_TIMESTAMPNS, Linux
    Documentation/networking/timestamping.rst). Both clocks are read right after the read, so a
    step or slew of the wall clock cannot move a stamp: only the lag between the two is used.
    A read of several segments carries the last one's stamp. Chunks before it in the same read may
    have arrived at any time since the read before: that is their doubt.
    """

    __slots__ = (
        "_lags",
        "_monos",
        "_origin",
        "_stamps",
        "_waits",
        "event_reads",
        "exact_reads",
        "first_doubt",
        "inexact",
        "kernel_reads",
        "last",
        "reads",
        "worst_doubt",
    )

    def __init__(self, origin_ns: int) -> None:
        self._origin = origin_ns
        self._lags: list[int] = []
        self._monos: list[int] = [0]
        self._stamps: list[int] = []
        self._waits: list[int] = []
        self.last = 0
        self.reads = 0
        self.kernel_reads = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.inexact = 0
        self.first_doubt: int | None = None
        self.worst_doubt = 0

    def stamp(self, reads: list[Read]) -> list[int]:
        """Give the arrival of each read's last byte, in ns since the drive's start."""
        stamps, lags, origin = [], self._lags, self._origin
        kernel = len(lags)
        for _, ancillary, clock, mono in reads:
            if ancillary:
                seconds, nanos = _TIMESPEC(ancillary[0][2])
                lag = clock - seconds * _SECOND - nanos
                lags.append(lag)
                stamps.append(mono - origin - lag)
            else:
                stamps.append(mono - origin)
        self.reads += len(reads)
        self.kernel_reads += len(lags) - kernel
        self._monos = [self._monos[-1], *[read[3] for read in reads]]
        self._stamps = stamps
        if self.kernel_reads < self.reads:
            self._waits = [
                _wait(read, before) for read, before in zip(reads, self._monos, strict=False)
            ]
        if stamps:
            self.last = stamps[-1]
        return stamps

    def account(self, chunks: list[int], cut: set[int]) -> None:
        """Note which of the stamps given last were chunks'.

        `chunks` are stamps, the same one again for each further chunk of a read; `cut` holds the
        indices of reads that ended inside an event.
        """
        if not chunks:
            return
        distinct = len(set(chunks))
        self.event_reads += distinct
        if distinct == len(chunks) and not cut and not self._waits:
            self.exact_reads += distinct
            if self.first_doubt is None:
                self.first_doubt = 0
            return
        counts = Counter(chunks)
        for index, stamp in enumerate(self._stamps):
            if stamp in counts:
                self._doubt(index, counts.pop(stamp), cut=index in cut)

    def _doubt(self, index: int, chunks: int, *, cut: bool) -> None:
        doubt = self._waits[index] if self._waits else 0
        if chunks == 1 and not cut:
            self.exact_reads += 1
        else:
            self.inexact += chunks if cut else chunks - 1
            before = self._monos[index]
            since = self._stamps[index] - (before - self._origin) if before else 0
            doubt = max(doubt, since)
        if self.first_doubt is None:
            self.first_doubt = doubt
        self.worst_doubt = max(self.worst_doubt, doubt)

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
        if self.first_doubt is not None:
            tally.gap_doubt.add(self.worst_doubt)


def _wait(read: Read, before_ns: int) -> int:
    """Give how long a read without a kernel stamp may have waited."""
    _, ancillary, clock, mono = read
    if ancillary:
        return 0
    since = clock if ancillary is None else before_ns
    return max(mono - since, 0) if since else 0
