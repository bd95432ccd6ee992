"""Waiting out a load: how long, what is still to come, and slow told from stuck."""

from collections.abc import Callable, Mapping

import msgspec

from specbench.model.service import LoadProgress, Phase

SIGN_OF_WORK = 0.02
"""Growth of `work` a second that counts as work: 2 % of a processor, or 20 kB read. A hung server
still wakes its idle threads now and then."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for what.

    A server is stuck when log, processors and disks stand still for `stall_s`; one that works on in
    silence is only slow. `unreachable_s`: how long a host may be out of reach before its service
    is given up. `silent_s`: how long one that accepts connections may answer nothing; None where
    it may be loading still.
    """

    load_timeout_s: float = 1200.0
    stall_s: float = 120.0
    poll_s: float = 0.25
    canary_timeout_s: float = 120.0
    unreachable_s: float = 180.0
    silent_s: float | None = None


class LoadClock:
    """Time per phase of one load, and the estimate of what is left.

    `history` maps a phase to the seconds it took before; without it no estimate is made, because
    the fraction of one phase says nothing about the next. Times come from the caller's clock.
    """

    def __init__(self, started_s: float, history: Mapping[str, float] | None = None) -> None:
        self._started_s = started_s
        self._history = dict(history or {})
        self._phase: Phase = "starting"
        self._entered_s = started_s
        self._spent: dict[str, float] = {}

    @property
    def phase(self) -> Phase:
        """The phase the load is in."""
        return self._phase

    def times(self, now_s: float) -> dict[str, float]:
        """Seconds spent in each phase so far."""
        spent = dict(self._spent)
        spent[self._phase] = spent.get(self._phase, 0.0) + now_s - self._entered_s
        return spent

    def progress(
        self, now_s: float, phase: Phase, *, fraction: float | None = None, detail: str = ""
    ) -> LoadProgress:
        """Enter (or stay in) a phase and describe the load."""
        if phase != self._phase:
            self._spent = self.times(now_s)
            self._phase, self._entered_s = phase, now_s
        return LoadProgress(
            phase=phase,
            fraction=fraction,
            detail=detail,
            elapsed_s=now_s - self._started_s,
            eta_s=self._left_s(now_s, fraction),
        )

    def _left_s(self, now_s: float, fraction: float | None) -> float | None:
        if not self._history:
            return None
        spent = self.times(now_s)
        here = spent[self._phase]
        expected = self._history.get(self._phase, 0.0)
        if fraction:
            expected = here / fraction
        later = sum(s for phase, s in self._history.items() if phase not in spent)
        return max(0.0, expected - here) + later


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
