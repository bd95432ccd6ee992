"""A continuous-batching server under a closed loop: many trials at once, exact and without a clock.

Every active request advances by one step in each step of the engine. So in *virtual time*, counted
in engine steps, requests are a plain queue with `slots` servers, and the length of a step (which
may grow with the batch, and may be held up by prefills) only maps virtual time to real time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Played:
    """Times in milliseconds, one row a trial, one column a request in the order of sending.

    `window_end` is when fewer than `slots` were in flight for the first time after the last send
    (the window opens at 0), `window_tokens` what had been decoded by then, `busy` the mean number
    in flight inside the window.
    """

    sent: Array
    first: Array
    end: Array
    makespan: Array
    window_end: Array
    window_tokens: Array
    busy: Array


@dataclass(frozen=True)
class Engine:
    """How long a step takes. `slowing`: ms is `step_ms * batch ** slowing`.

    `stall_ms` is what the prefill of a new request holds up everybody.
    """

    step_ms: float = 10.0
    slowing: float = 0.0
    stall_ms: float = 0.0

    def at(self, batch: NDArray[np.int64]) -> Array:
        """Milliseconds of a step at a batch size; nothing passes while nobody is there."""
        return np.where(batch > 0, self.step_ms * np.maximum(batch, 1) ** self.slowing, 0.0)


def play(prefill: Array, decode: Array, tokens: Array, slots: int, engine: Engine) -> Played:
    """Send requests in their order to `slots` slots; `prefill` and `decode` count steps."""
    begun, ended = _queue(prefill + decode, slots)
    first = begun + prefill
    real = _clock(begun, first, ended, engine)
    starts, firsts, ends = (real[:, :, i] for i in range(3))
    last = begun.max(axis=1)
    after = np.where(ended > last[:, None], ended, np.inf)
    at = after.argmin(axis=1)
    rows = np.arange(len(begun))
    closed = after[rows, at]
    share = np.clip((closed[:, None] - first) / np.maximum(decode, 1e-9), 0, 1)
    seen = np.where(closed[:, None] >= first, 1 + (tokens - 1) * share, 0.0)
    closes = ends[rows, at]
    inside = np.minimum(ends, closes[:, None]) - np.minimum(starts, closes[:, None])
    return Played(
        sent=starts,
        first=firsts,
        end=ends,
        makespan=ends.max(axis=1),
        window_end=closes,
        window_tokens=seen.sum(axis=1),
        busy=inside.sum(axis=1) / closes,
    )


def _queue(work: Array, slots: int) -> tuple[Array, Array]:
    """Virtual times of each request's begin and end: the next one takes the first free slot."""
    trials, requests = work.shape
    free = np.zeros((trials, slots))
    begun = np.empty_like(work)
    rows = np.arange(trials)
    for i in range(requests):
        slot = free.argmin(axis=1)
        begun[:, i] = free[rows, slot]
        free[rows, slot] += work[:, i]
    return begun, begun + work


def _clock(begun: Array, first: Array, ended: Array, engine: Engine) -> Array:
    """Map the three virtual times of every request to real milliseconds."""
    trials, requests = begun.shape
    at = np.stack([begun, first, ended], axis=2).reshape(trials, -1)
    change = np.tile([1, 0, -1], requests)
    # At one and the same moment a slot is left before it is taken: stable order, ends first.
    order = np.lexsort((np.broadcast_to(change, at.shape), at), axis=1)
    batch = np.cumsum(change[order], axis=1)
    places = np.take_along_axis(at, order, axis=1)
    spans = np.diff(places, axis=1) * engine.at(batch[:, :-1])
    if engine.stall_ms:
        spans = spans + engine.stall_ms * (change[order][:, :-1] == 1)
    passed = np.concatenate([np.zeros((trials, 1)), np.cumsum(spans, axis=1)], axis=1)
    real = np.empty_like(passed)
    np.put_along_axis(real, order, passed, axis=1)
    return real.reshape(trials, requests, 3)
