"""Telling a slow server from a stuck one: by its log, its processors and its disks."""

from collections.abc import Callable

SIGN_OF_WORK = 0.02
"""Growth of `work` a second that counts as work: 2 % of a processor, or 20 kB read. A hung server
still wakes its idle threads now and then."""


class Stillness:
    """How long a server has given no sign of work.

    `work` returns CPU seconds plus megabytes read, or None where that cannot be seen; then silence
    is never judged, because a silent server may be busy. It is asked only after a quarter of
    `stall_s` without a byte of log, since asking costs a command on the host.
    """

    def __init__(self, now_s: float, stall_s: float, work: Callable[[], float | None]) -> None:
        self._ask = work
        self._pause_s = stall_s / 8
        self._quiet_s = stall_s / 4
        self._sign_s = self._asked_s = now_s
        self._work: float | None = None
        self._bytes_read = -1

    def measure(self, now_s: float, bytes_read: int) -> float:
        """Return the seconds since the last sign of work."""
        if bytes_read != self._bytes_read:
            self._bytes_read = bytes_read
            self._sign_s, self._work = now_s, None
        elif now_s - self._sign_s > self._quiet_s and now_s - self._asked_s >= self._pause_s:
            self._look(now_s)
        return now_s - self._sign_s

    def excuse(self, now_s: float) -> None:
        """Begin anew: while the host was out of reach nothing could be seen."""
        self._sign_s = self._asked_s = now_s
        self._work = None

    def _look(self, now_s: float) -> None:
        newest = self._ask()
        elapsed_s = now_s - self._asked_s
        if newest is None or self._grew(newest, elapsed_s):
            self._sign_s = now_s
        self._work, self._asked_s = newest, now_s

    def _grew(self, newest: float, elapsed_s: float) -> bool:
        return self._work is not None and newest - self._work > SIGN_OF_WORK * elapsed_s
