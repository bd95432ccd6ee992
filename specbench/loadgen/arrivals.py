"""When bytes arrived, and how sure that is."""

import struct

from specbench.loadgen.tally import Tally
from specbench.model.load import RequestRecord

Read = tuple[bytes, list[tuple[int, int, bytes]] | None, int, int]
"""(data, ancillary, clock, monotonic_ns) of one read.

With an ancillary list, `clock` is CLOCK_REALTIME at the read, to be held against the kernel's
stamp. Without one (None: TLS), it is the monotonic time of the poll before the read's own, since
when the data may have been waiting."""

_TIMESPEC = struct.Struct("@qq")
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
        "_previous",
        "_since",
        "_waited",
        "event_reads",
        "exact_reads",
        "first_doubt",
        "inexact",
        "kernel_reads",
        "last",
        "reads",
        "worst_doubt",
    )

    def __init__(self) -> None:
        self._lags: list[int] = []
        self._previous = 0
        self._since = 0
        self._waited = 0
        self.last = 0
        self.reads = 0
        self.kernel_reads = 0
        self.event_reads = 0
        self.exact_reads = 0
        self.inexact = 0
        self.first_doubt: int | None = None
        self.worst_doubt = 0

    def stamp(self, read: Read) -> int:
        """Give the arrival of a read's last byte on CLOCK_MONOTONIC."""
        _, ancillary, clock, mono = read
        self.reads += 1
        stamp = mono
        if ancillary:
            seconds, nanos = _TIMESPEC.unpack(ancillary[0][2])
            lag = max(clock - seconds * _SECOND - nanos, 0)
            self._lags.append(lag)
            self.kernel_reads += 1
            stamp = mono - lag
            self._waited = 0
        else:
            self._waited = max(mono - clock, 0) if ancillary is None else 0
        self._since = max(stamp - self._previous, 0) if self._previous else 0
        self._previous, self.last = mono, stamp
        return stamp

    def account(self, chunks: int, *, cut: bool) -> None:
        """Note that the last read held `chunks` chunks; `cut`: and part of another event."""
        if not chunks:
            return
        self.event_reads += 1
        doubt = self._waited
        if chunks == 1 and not cut:
            self.exact_reads += 1
        else:
            self.inexact += chunks if cut else chunks - 1
            doubt = max(doubt, self._since)
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
