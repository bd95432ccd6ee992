"""How many requests the server really ran at once while a stage asked it, by its own count."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from specbench.errors import SpecbenchError
from specbench.verify.client import Client

# The first look comes soon, since a short batch is over soon; later ones cost the server less.
_FIRST_S, _LAST_S = 0.02, 0.2
# A server may publish its count now and then only, and when it becomes idle, so an
# older batch may still be seen for a while.
_STALE_S = 3.0
_FEWEST = 4
_GIVE_UP_S = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """One batch of requests: `limit` were kept in flight, the server said at most `peak`.

    `foreign` is the median number of requests above everything that was asked for, where most
    looks saw some; `peak` None: the server does not say how many it runs.
    """

    limit: int
    peak: int | None
    foreign: int
    ended: float


@dataclass(slots=True)
class Watch:
    """All batches of one run, in order."""

    loads: list[Load] = field(default_factory=list)

    @contextmanager
    def over(self, client: Client, limit: int) -> Iterator[None]:
        """Count while the body runs; `limit` sequences are in flight at most."""
        counts: list[int] = []
        recent = [x.limit for x in self.loads if time.monotonic() - x.ended < _STALE_S]
        stop = threading.Event()
        thread = threading.Thread(target=_count, args=(client.running, stop, counts), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            # A server that hangs must not hold up what stopped the stage.
            thread.join(_GIVE_UP_S)
            peak, foreign = summarise(tuple(counts), max(limit, *recent, 0))
            self.loads.append(Load(limit, peak, foreign, time.monotonic()))

    def peak(self, limit: int) -> int | None:
        """Return the most that the server ran while `limit` were asked for, over the whole run."""
        known = [x.peak for x in self.loads if x.limit >= limit and x.peak is not None]
        return max(known, default=None)

    def since(self, start: int) -> tuple[int | None, int]:
        """Return (peak, foreign) of the batches from number `start` on."""
        part = self.loads[start:]
        known = [x.peak for x in part if x.peak is not None]
        return max(known, default=None), max((x.foreign for x in part), default=0)


def summarise(counts: Sequence[int], limit: int) -> tuple[int | None, int]:
    """Return the largest count, and the median excess over `limit` where most counts exceed it.

    None where no look met a running request: the batch was over too soon to say anything.
    """
    if not any(counts):
        return None, 0
    above = sorted(count - limit for count in counts if count > limit)
    foreign = len(counts) >= _FEWEST and 2 * len(above) > len(counts)
    return max(counts), above[len(above) // 2] if foreign else 0


def _count(ask: Callable[[], int | None], stop: threading.Event, counts: list[int]) -> None:
    """Look until told to stop, and once more then; a server that does not say is left alone."""
    pause, last = _FIRST_S, False
    while not last:
        last = stop.wait(pause)
        pause = min(2 * pause, _LAST_S)
        try:
            seen = ask()
        except SpecbenchError:
            # The requests of the stage meet the same server, and say what is wrong with it.
            return
        if seen is None:
            return
        counts.append(seen)
