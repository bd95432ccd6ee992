"""When bytes arrived, and how sure that is."""

import struct
from collections import Counter

from specbench.loadgen.tally import Tally
from specbench.model.load import RequestRecord

Read = tuple[bytes, bytes, int, int, int]
"""(data, timespec, wall_ns, monotonic_ns, quiet_ns) of one read.

`timespec` is the kernel's stamp, empty where there is none; `wall_ns` is CLOCK_REALTIME at the
read, to be held against it. `quiet_ns` is when the poll before returned: whatever this read holds
was not there yet."""

_TIMESPEC = struct.Struct("@qq").unpack
_SECOND = 1_000_000_000


class Arrivals:
    """Turns the reads of one request into arrival times, and keeps account of their quality.

    The kernel stamps a segment on CLOCK_REALTIME when it arrives (SO_TIMESTAMPNS, Linux
    Documentation/networking/timestamping.rst). Both clocks are read right after the read, so a
    step or slew of the wall clock cannot move a stamp: only the lag between the two is used.
    A read of several segments carries the last one's stamp. Chunks before it in the same read may
    have arrived at any time since the socket was last known to be empty: that is their doubt.
    Without a kernel stamp it is the doubt of every chunk.
    """

    __slots__ = (
        "_doubts",
        "_lags",
        "_origin",
        "_reads",
        "_stamps",
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
        self._reads: list[Read] = []
        self._stamps: list[int] = []
        self.last = 0
        self.reads = 0
        self.kernel_reads = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.inexact = 0
        self.first_doubt: int | None = None
        self._doubts: list[int] = []

    def stamp(self, reads: list[Read]) -> list[int]:
        """Give the arrival of each read's last byte, in ns since the drive's start."""
        stamps, lags, origin = [], self._lags, self._origin
        kernel = len(lags)
        for _, timespec, wall, mono, _ in reads:
            if timespec:
                seconds, nanos = _TIMESPEC(timespec)
                lag = wall - seconds * _SECOND - nanos
                lags.append(lag)
                stamps.append(mono - origin - lag)
            else:
                stamps.append(mono - origin)
        self.reads += len(reads)
        self.kernel_reads += len(lags) - kernel
        self._reads, self._stamps = reads, stamps
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
        _, timespec, _, _, quiet = self._reads[index]
        if index:
            quiet = max(quiet, self._reads[index - 1][3])
        exact = single and bool(timespec)
        doubt = 0 if exact else max(self._stamps[index] - (quiet - self._origin), 0)
        if self.first_doubt is None:
            self.first_doubt = doubt
        self._doubts += [doubt] * (inexact if timespec else chunks)

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
