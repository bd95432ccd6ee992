"""What is to be sent next, and when: the clockwork behind a closed and an open loop."""

import heapq
from collections.abc import Iterator
from typing import Protocol

from specbench.loadgen.schedule import Share, arrivals, closed_starts
from specbench.model.load import Closed, LoadSpec, Open, Ramp, Replay

_SECOND = 1_000_000_000


class Pacer(Protocol):
    """Says which send is due next. Times are CLOCK_MONOTONIC ns."""

    scheduled: bool

    def next_ns(self, in_flight: int) -> int | None:
        """Give the time of the next send; None while nothing may be sent."""

    def pop(self) -> tuple[int, int | None]:
        """Take the next send: its slot, and its intended time where a schedule gives one."""

    def free(self, slot: int, at_ns: int) -> None:
        """Note that a slot may send again from `at_ns` on."""

    @property
    def exhausted(self) -> bool:
        """Whether nothing will ever be due again, even when slots become free."""


class ClosedPacer:
    """Closed loop: a slot is due as soon as it is free."""

    scheduled = False
    exhausted = False

    def __init__(self, shape: Closed, share: Share, origin_ns: int) -> None:
        starts = enumerate(closed_starts(shape, share))
        self._due = [(origin_ns + round(start * _SECOND), slot) for slot, start in starts]
        heapq.heapify(self._due)

    def next_ns(self, in_flight: int) -> int | None:  # noqa: ARG002 - slots bound it already
        """Give the time at which the next slot is free."""
        return self._due[0][0] if self._due else None

    def pop(self) -> tuple[int, int | None]:
        """Take the slot that is due."""
        return heapq.heappop(self._due)[1], None

    def free(self, slot: int, at_ns: int) -> None:
        """Note that a slot may send again from `at_ns` on."""
        heapq.heappush(self._due, (at_ns, slot))


class SchedulePacer:
    """Open loop: sends are due by the clock, whatever has become of the ones before.

    With `max_in_flight` a send that is due waits for a place; it is late then, and the record's
    intended time says so.
    """

    scheduled = True

    def __init__(
        self, shape: Open | Ramp | Replay, load: LoadSpec, share: Share, origin_ns: int
    ) -> None:
        every = enumerate(arrivals(shape, warmup=load.warmup_requests, seed=load.seed))
        self._mine = (at for index, at in every if index % share.of == share.index)
        self._origin = origin_ns
        self._bound = None
        if isinstance(shape, Open) and shape.max_in_flight is not None:
            self._bound = max(1, share.count(shape.max_in_flight))
        self._free: list[int] = []
        self._slots = 0
        self._next = self._advance(self._mine)

    @property
    def exhausted(self) -> bool:
        """Whether the schedule has come to its end."""
        return self._next is None

    def next_ns(self, in_flight: int) -> int | None:
        """Give the next time of the schedule, unless too many are in flight."""
        return None if self._bound is not None and in_flight >= self._bound else self._next

    def pop(self) -> tuple[int, int | None]:
        """Take the next send; its slot is the lowest that is free."""
        intended, self._next = self._next, self._advance(self._mine)
        if self._free:
            return heapq.heappop(self._free), intended
        self._slots += 1
        return self._slots - 1, intended

    def free(self, slot: int, at_ns: int) -> None:  # noqa: ARG002 - the clock says when, not the slot
        """Note that a slot is free."""
        heapq.heappush(self._free, slot)

    def _advance(self, times: Iterator[float]) -> int | None:
        at = next(times, None)
        return None if at is None else self._origin + round(at * _SECOND)


def new_pacer(load: LoadSpec, share: Share, origin_ns: int) -> Pacer:
    """Give the pacer of a load's shape."""
    if isinstance(load.shape, Closed):
        return ClosedPacer(load.shape, share, origin_ns)
    return SchedulePacer(load.shape, load, share, origin_ns)
