"""The phases of a drive as they pass: warm-up, measured, and the steady window inside it."""


class Window:
    """Marks when the measured phase began and ended, and when in-flight was at the target.

    Closed loop: the window opens when the number in flight first reaches `target` in the measured
    phase and closes when it first falls below after the last send. Open loop (`target` None): the
    window is from the first measured send to the last one. Times are CLOCK_MONOTONIC ns.
    """

    def __init__(self, target: int | None) -> None:
        self._target = target
        self.measured_start: int | None = None
        self.measured_end: int | None = None
        self.opened: int | None = None
        self.closed: int | None = None

    def sent(self, now: int, in_flight: int, *, measured: bool) -> None:
        """Note a send."""
        if measured and self.measured_start is None:
            self.measured_start = now
        if self.measured_start is None:
            return
        if self.opened is None and (self._target is None or in_flight >= self._target):
            self.opened = now
        if self._target is None:
            self.closed = now

    def ended(self, now: int, in_flight: int, *, measured: bool, last: bool) -> None:
        """Note the end of a request; `last` says that no send will follow."""
        if measured:
            self.measured_end = max(now, self.measured_end or now)
        below = self._target is not None and in_flight < self._target
        if below and last and self.opened is not None and self.closed is None:
            self.closed = now
