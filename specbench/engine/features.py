"""What a row of the model computes from the key-value slots it sees, in whole numbers.

The history enters the logits through one matrix product. Its operands are whole numbers small
enough that every partial sum is exact in float32, so the product does not depend on how a library
blocks it: the same row gives the same bits alone, in a batch, in a chain or in a tree. Real servers
call that batch invariance and pay for it; numerical noise is added on purpose by `noise`.
"""

import numpy as np
from numpy.typing import NDArray

from specbench.engine.weights import Floats

NOTHING = -1  # the token of a slot that is not there
REACH = 3  # a row looks up the tokens of this many positions before its own
MEMORY = 64  # numbers in the memory of a slot
WAVES = (8, 32, 128, 1024)  # periods of the position features
FEATURES = MEMORY + 2 * len(WAVES)
LARGEST_UNIT = 127.0
FEATURE_STEP = 1 / 24  # one unit of a feature
PROJECTION_SCALE = 1 / 96  # one unit of a weight; 72 * 127 * 127 < 2**24, so sums are exact

_ANGLES = 2 * np.pi * np.arange(max(WAVES))[:, None] / np.array(WAVES)
_POSITIONS = np.rint(0.5 / FEATURE_STEP * np.hstack([np.sin(_ANGLES), np.cos(_ANGLES)])).astype(
    np.float32
)


def remember(before: Floats, written: Floats, decay: Floats) -> Floats:
    """Return the memory of slots: (R, MEMORY) from that of the slots before them.

    Element by element, so grouping slots into steps differently changes no bit.
    """
    return before * decay + written


def features(memory: Floats, positions: NDArray[np.int64]) -> Floats:
    """Return the whole-number features (R, FEATURES) of memories and positions."""
    units = np.rint(memory * np.float32(1 / FEATURE_STEP))
    np.clip(units, -LARGEST_UNIT, LARGEST_UNIT, out=units)
    return np.concatenate([units, _POSITIONS[positions % len(_POSITIONS)]], axis=1)
