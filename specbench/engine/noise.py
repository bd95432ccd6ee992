"""Numerical noise as real kernels make it: it depends on the kernel and on the batch's shape.

Two kernels, or one kernel at two batch sizes, sum in different orders and disagree in the last
bits; where the two best tokens are nearly tied that changes the text. The same context in the same
kernel at the same batch size always gets the same noise, and an autotuned launch gets its own.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specbench.engine.hashing import mix
from specbench.engine.weights import Floats

Ints = NDArray[np.int64]
Kernel = Literal["prefill", "decode", "verify"]
_KERNEL_NUMBERS: dict[Kernel, int] = {"prefill": 1, "decode": 2, "verify": 3}
_TABLE = 1 << 18


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """sd: standard deviation of the noise on a logit; autotune: whether each launch has its own.

    seed: of the launch; it matters only with autotune.
    """

    sd: float = 0.0
    autotune: bool = True
    seed: int = 0


@dataclass(slots=True)
class Noise:
    """Adds the noise of a kernel launch to logits."""

    config: NoiseConfig
    _table: Floats = field(init=False, repr=False)
    _launch: int = field(init=False)

    def __post_init__(self) -> None:
        size = _TABLE if self.config.sd > 0 else 0
        table = np.random.default_rng(77).standard_normal(size) * self.config.sd
        self._table = table.astype(np.float32)
        self._launch = self.config.seed if self.config.autotune else 0

    def add(
        self, logits: Floats, kernel: Kernel, batch: int, tokens: Ints, context: Ints, places: Ints
    ) -> None:
        """Disturb logits (R, V) in place; rows are told apart by token, context and position."""
        if self.config.sd <= 0.0:
            return
        key = mix(
            self._launch,
            _KERNEL_NUMBERS[kernel],
            batch,
            tokens,
            context[:, 0] + 1,
            context[:, 1] + 1,
            places,
        )
        vocab = logits.shape[1]
        start = (key % np.uint64(_TABLE - vocab)).astype(np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(self._table, vocab)
        logits += windows[start]
