"""The raw record of one response: bytes, kernel stamps and clocks, appended and not looked at."""

import time

READ_BYTES = 2048  # an event fits, and the allocator serves it faster than 8 or 64 KiB
FULL_READ_BYTES = 65536
NO_STAMP = bytes(16)
"""In place of a struct timespec that the kernel did not give."""
HOLD_READS = 256


class LoopTick:
    """The clocks of one tick of the loop, shared by all its reads, in ns.

    `quiet_ns` is when the last poll of the tick before returned: what a socket gives in this tick
    was not there yet. `offset_ns` leads from CLOCK_REALTIME to CLOCK_MONOTONIC. `end_ns` is when
    the tick was over, so that every read of it had happened.
    """

    __slots__ = ("end_ns", "offset_ns", "quiet_ns")

    def __init__(self, quiet_ns: int, wall_ns: int, monotonic_ns: int) -> None:
        self.quiet_ns = quiet_ns
        self.offset_ns = monotonic_ns - wall_ns
        self.end_ns = monotonic_ns

    def now(self) -> "LoopTick":
        """Give clocks of its own to a read just done.

        Where no kernel stamped it they are all that says when; and a tick that goes on to send the
        next request would make its lag longer than it was.
        """
        return LoopTick(self.quiet_ns, time.time_ns(), time.monotonic_ns())


class ReadLog:
    """Reads in order: their bytes, a struct timespec each or `NO_STAMP`, and their ticks.

    Three lists beside each other: of all forms that were tried (a tuple a read, one buffer a
    stream, one for all) the cheapest at the read, and ready for what comes later.
    """

    __slots__ = ("data", "stamps", "ticks")

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.stamps: list[bytes] = []
        self.ticks: list[LoopTick] = []

    @property
    def long(self) -> bool:
        """Whether so much is held that it should be understood though more is to come."""
        return len(self.data) > HOLD_READS or (
            len(self.data) > HOLD_READS // 8 and len(self.data[-1]) > READ_BYTES
        )

    def add(self, data: bytes, timespec: bytes, tick: LoopTick) -> None:
        """Append a read."""
        self.data.append(data)
        self.stamps.append(timespec or NO_STAMP)
        self.ticks.append(tick)

    def forget_last(self) -> None:
        """Take back the read added last."""
        for each in (self.data, self.stamps, self.ticks):
            each.pop()

    def tail(self) -> bytes:
        """Join the last seven bytes that arrived, however they were split."""
        tail = b""
        for data in reversed(self.data):
            tail = data[-7:] + tail
            if len(tail) >= 7:
                break
        return tail[-7:]

    def quiet_ns(self, index: int) -> int:
        """Since when, at the least, a read's socket had been empty when its bytes came.

        A read that filled its buffer left something behind, which had come before that.
        """
        while index and len(self.data[index - 1]) in (READ_BYTES, FULL_READ_BYTES):
            index -= 1
        return self.ticks[index].quiet_ns

    def clear(self) -> None:
        """Forget everything, in place: the loop appends to these very lists."""
        self.data.clear()
        self.stamps.clear()
        self.ticks.clear()
