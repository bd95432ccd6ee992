"""Numbers that look random and depend on nothing but their arguments."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(*values: ArrayLike) -> NDArray[np.uint64]:
    """Hash integers, broadcast against each other (the finaliser of SplitMix64)."""
    state = np.zeros(1, dtype=np.uint64)
    for value in values:
        state = state * _GOLDEN + np.asarray(value).astype(np.uint64) + _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        state ^= state >> np.uint64(31)
    return state


def uniform(*values: ArrayLike) -> NDArray[np.float64]:
    """Return coins in [0, 1) that depend on the arguments alone."""
    return (mix(*values) >> np.uint64(11)).astype(np.float64) * 2.0**-53
