"""The steady window of a closed loop: all slots are busy, from the first send to the tail.

It ends with the first reply that ends when no request is left to send. Tokens over wall time
includes the tail, in which slots stand empty, and so depends on which reply happens to be the last.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def window_ends(
    trial: NDArray[np.int64], sent: Array, ended: Array, trials: int
) -> tuple[Array, Array]:
    """Start and end of each trial's window, from the sends and ends of its requests.

    `trial` numbers each request's trial; NaN where a request was not sent or did not end. NaN for
    a trial that shows neither.
    """
    start, last, close = (np.full(trials, value) for value in (np.inf, -np.inf, np.inf))
    known = np.isfinite(sent)
    np.minimum.at(start, trial[known], sent[known])
    np.maximum.at(last, trial[known], sent[known])
    tail = np.isfinite(ended) & (ended > last[trial])
    np.minimum.at(close, trial[tail], ended[tail])
    shown = np.isfinite(start) & np.isfinite(close)
    return np.where(shown, start, np.nan), np.where(shown, close, np.nan)


def share_by_stamps(
    cut: float, sent: float, stamps: Sequence[float], tokens: Sequence[float]
) -> float | None:
    """Share of a reply's tokens that were made until `cut`, from the arrivals of its chunks.

    A chunk's tokens are spread over the time since the chunk before it: the step that the cut goes
    through counts in part, so that long steps lose no more than short ones. None without counts.
    """
    total = float(sum(tokens))
    if not len(stamps) or len(stamps) != len(tokens) or total <= 0:
        return None
    made = np.concatenate(([0.0], np.cumsum(np.asarray(tokens, dtype=float))))
    times = np.concatenate(([sent], np.asarray(stamps, dtype=float)))
    return float(np.interp(cut, times, made)) / total


def share_by_ends(cut: Array, first: Array, last: Array, tokens: Array, in_first: Array) -> Array:
    """Share of replies' tokens made until `cut`, spread evenly from the first token to the last."""
    decode = np.where(last > first, last - first, 1.0)
    passed = np.clip((cut - first) / decode, 0.0, 1.0)
    made = np.where(cut < first, 0.0, in_first + (tokens - in_first) * passed)
    share: Array = np.clip(made / np.where(tokens > 0, tokens, 1.0), 0.0, 1.0)
    return share
