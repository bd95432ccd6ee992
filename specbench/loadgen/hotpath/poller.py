"""Waiting for sockets, with a deadline finer than the millisecond of epoll."""

import select
import sys
import time

READ, WRITE = select.POLLIN, select.POLLOUT
MAX_READY = 4096
"""More than a worker has connections: what a poll does not name had nothing to read."""
SPIN_NS = 150_000
"""The last stretch before a scheduled send is spun: a sleep may end that much late."""


class Poller:
    """epoll on Linux, poll elsewhere; both level-triggered, with the same masks."""

    def __init__(self) -> None:
        if sys.platform == "linux":
            self._epoll = select.epoll()
            self._fd, self._unit, self._limit = self._epoll.fileno(), 1e-9, (MAX_READY,)
            self._poll = self._epoll.poll
            self.register = self._epoll.register
            self.modify = self._epoll.modify
            self.unregister = self._epoll.unregister
        else:
            other = select.poll()
            self._fd, self._unit, self._limit = -1, 1e-6, ()
            self._poll = other.poll
            self.register = other.register
            self.modify = other.modify
            self.unregister = other.unregister

    def wait(self, until_ns: int, *, precise: bool) -> list[tuple[int, int]]:
        """Give (fd, mask) of what is ready, waiting until CLOCK_MONOTONIC `until_ns` at most.

        `precise` spends up to `SPIN_NS` of CPU to return at the nanosecond asked for.
        """
        left = until_ns - time.monotonic_ns()
        if left <= 0:
            return self.ready(0)
        if not precise:
            return self.ready(left)
        if left > SPIN_NS and self._fd >= 0:
            select.select([self._fd], [], [], (left - SPIN_NS) / 1e9)
        found = self.ready(0)
        while not found and time.monotonic_ns() < until_ns:
            found = self.ready(0)
        return found

    def ready(self, timeout_ns: int) -> list[tuple[int, int]]:
        """Give what is ready, waiting so long at most (rounded up to a millisecond)."""
        return self._poll(timeout_ns * self._unit, *self._limit)
