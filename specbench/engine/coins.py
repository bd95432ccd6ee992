"""Where uniform random numbers come from: the server's generator, or a request's own seed."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specbench.engine.hashing import uniform
from specbench.engine.sequence import Sequence

CoinArray = NDArray[np.float64]
DEFAULT_SEED = 42  # SGLang's, under deterministic inference


@dataclass(slots=True)
class CoinSource:
    """Draws coins for verify steps.

    Under deterministic inference coins are a hash of the request's seed, its length and the
    column, so they do not depend on what else is in the batch; otherwise seeds are ignored.
    """

    seed: int
    deterministic: bool
    _generator: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)

    def draw(self, sequences: list[Sequence], width: int) -> tuple[CoinArray, CoinArray]:
        """Return coins of nodes (S, width) and final coins (S,), all in [0, 1)."""
        if self.deterministic:
            seeds = [s.params.sampling_seed for s in sequences]
            keys = np.array([DEFAULT_SEED if seed is None else seed for seed in seeds])
            lengths = np.array([len(s.prompt_ids) + len(s.output_ids) for s in sequences])
            coins = uniform(keys[:, None], lengths[:, None], np.arange(width + 1)[None, :])
        else:
            coins = self._generator.random((len(sequences), width + 1))
        return coins[:, :width], coins[:, width]
