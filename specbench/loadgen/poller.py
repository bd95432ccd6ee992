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
        self._source = select.epoll() if sys.platform == "linux" else select.poll()
        self.register = self._source.register
        self.modify = self._source.modify
        self.unregister = self._source.unregister

    def wait(self, until_ns: int, *, precise: bool) -> list[tuple[int, int]]:
        """Give (fd, mask) of what is ready, waiting until CLOCK_MONOTONIC `until_ns` at most.

        `precise` spends up to `SPIN_NS` of CPU to return at the nanosecond asked for.
        """
        left = until_ns - time.monotonic_ns()
        if left <= 0:
            return self._ready(0)
        if not precise:
            return self._ready(left)
        if left > SPIN_NS and isinstance(self._source, select.epoll):
            select.select([self._source.fileno()], [], [], (left - SPIN_NS) / 1e9)
        ready = self._ready(0)
        while not ready and time.monotonic_ns() < until_ns:
            ready = self._ready(0)
        return ready

    def _ready(self, timeout_ns: int) -> list[tuple[int, int]]:
        if isinstance(self._source, select.epoll):
            return self._source.poll(timeout_ns / 1e9, MAX_READY)
        return self._source.poll(timeout_ns / 1e6)

    def close(self) -> None:
        """Give the descriptor back."""
        if isinstance(self._source, select.epoll):
            self._source.close()
