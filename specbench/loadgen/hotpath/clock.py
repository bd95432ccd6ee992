"""The quality of the clocks: whether the wall clock keeps pace with the monotonic one."""

import time

STEP_NS = 500_000


class ClockWatch:
    """Follows wall minus monotonic; `drift_ns` is its range, `steps` counts its jumps.

    Stamps do not depend on the offset (see arrivals), only logs are correlated by it. NTP slews by
    at most 500 ppm (50 us in the 0.1 s between two looks); more than `STEP_NS` is a step.
    """

    def __init__(self) -> None:
        self._last = self._low = self._high = offset_ns()
        self.steps = 0

    @property
    def drift_ns(self) -> int:
        """How far the offset has wandered since the start, steps included."""
        return self._high - self._low

    def look(self) -> None:
        """Read the offset again."""
        offset = offset_ns()
        if abs(offset - self._last) > STEP_NS:
            self.steps += 1
        self._last = offset
        self._low, self._high = min(self._low, offset), max(self._high, offset)


def offset_ns() -> int:
    """Read CLOCK_REALTIME - CLOCK_MONOTONIC: the reading with the tightest bracket of three."""
    return min(_reading() for _ in range(3))[1]


def _reading() -> tuple[int, int]:
    before = time.monotonic_ns()
    wall = time.time_ns()
    after = time.monotonic_ns()
    return after - before, wall - (before + after) // 2
