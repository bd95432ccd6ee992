"""One matched cell: launches and trials in pairs, prompts inside them, and the errors of both.

A restart carries its own variance (graph capture, autotune, memory layout, clocks), which no
number of trials inside the launch can show. The method and its tables: docs, explanation,
comparison.
"""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.stats.effect import Outlying, Variance

Array = NDArray[np.float64]

SLOW_LAUNCH = Outlying(share=0.19, sd=0.16)
"""A pair of launches has one that is off with probability 1 - 0.9^2: one launch in ten is."""


class LaunchFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Standard deviation of a log metric between launches of one server, from other launches."""

    sd: float
    df: float
    source: str


class LaunchPrior(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken for granted of launch noise: `sd` of one launch's log metric, worth `df`.

    A scaled inverse chi-square prior (Smyth 2004, "moderated t"). One launch an arm says nothing
    of its own noise; there the prior counts `df_alone`, and `outlying` is what one launch cannot
    rule out. `source` is said in every output that rests on it.
    """

    sd: float
    df: float
    df_alone: float
    source: str
    outlying: Outlying | None = None

    def with_floor(self, floor: LaunchFloor | None) -> "LaunchPrior":
        """Pool what this host showed with the default, by degrees of freedom."""
        if floor is None or floor.df <= 0:
            return self
        df = self.df + floor.df
        sd = math.sqrt((self.df * self.sd**2 + floor.df * floor.sd**2) / df)
        return msgspec.structs.replace(
            self, sd=sd, df=df, df_alone=max(self.df_alone, df), source=floor.source
        )

    def moderated(self, seen: float, launches: int) -> Variance:
        """Variance of a pair of launches: the prior's, and what `launches` pairs showed."""
        if launches < 2:
            return Variance(value=2 * self.sd**2, df=self.df_alone)
        df = self.df + launches - 1
        squares = self.df * 2 * self.sd**2 + (launches - 1) * max(0.0, seen)
        return Variance(value=squares / df, df=df)


CLOCKS = LaunchPrior(
    sd=0.02, df=1.0, df_alone=4.0, source="default: 2 % between launches", outlying=SLOW_LAUNCH
)
ACCEPTANCE = LaunchPrior(
    sd=0.003, df=3.0, df_alone=3.0, source="default: 0.3 % in accept_len between launches"
)
"""Acceptance depends on texts, not on clocks: near-tie flips after a restart move it a little."""


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """The pairs of trials of one cell: their log ratios, and each prompt's share in them.

    `launch[j]` numbers the pair of launches of trial pair j from 0; `value[j]` is log b - log a.
    `share[j, p]` is the first-order share of prompt p (influence of b less that of a), `met[j, p]`
    whether it was asked there; both are None where the metric has no form by prompt, and then
    `unseen` is the variance of requests and prompts together, had elsewhere.
    """

    launch: NDArray[np.int64]
    value: Array
    share: Array | None = None
    met: NDArray[np.bool_] | None = None
    unseen: Variance | None = None

    @property
    def launches(self) -> int:
        """Pairs of launches."""
        return int(self.launch.max()) + 1

    def by_launch(self) -> Array:
        """Mean log ratio of each pair of launches."""
        counts = np.bincount(self.launch)
        means: Array = np.bincount(self.launch, weights=self.value) / counts
        return means

    def weights(self) -> Array:
        """Weight of each pair of trials: launches weigh the same, however often measured."""
        counts = np.bincount(self.launch)
        weights: Array = 1.0 / (len(counts) * counts[self.launch])
        return weights


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Request and prompt noise of one cell.

    `launch` is the variance that requests give one pair of launches; `requests` and `prompts` the
    variances of the cell's mean for this workload and for such workloads. `by_prompt` holds each
    prompt's share in the mean, `asked` which prompts those are.
    """

    launch: float
    requests: Variance
    prompts: Variance
    by_prompt: Array | None
    asked: NDArray[np.bool_] | None = None

    @property
    def same(self) -> bool:
        """Whether this workload and such workloads cannot be told apart."""
        return self.requests is self.prompts


def noise_of(pairs: Pairs, *, repeated: bool = True) -> Noise:
    """Split what varies inside launches: requests by their repeats, prompts between them.

    With w_jp the share of prompt p in pair j: requests give one pair sum_p var_j(w_jp), prompts
    P/(P-1) sum_p mean_j(w_jp)^2 (Cochran 1977, 6.4). A prompt asked once shows no repeat: its whole
    share counts as noise; so do all of them where not `repeated` (other prompts on each side).
    """
    if pairs.share is None or pairs.met is None:
        unseen = pairs.unseen or Variance(value=0.0)
        return Noise(launch=0.0, requests=unseen, prompts=unseen, by_prompt=None)
    asked = np.any(pairs.met, axis=0)
    share, met = pairs.share[:, asked], pairs.met[:, asked]
    n = int(asked.sum())
    weights = pairs.weights()
    inflate = n / (n - 1) if n > 1 else math.inf
    by_prompt = weights @ pairs.share
    between = inflate * float((by_prompt**2).sum()) if n > 1 else math.nan
    prompts = Variance(value=between, df=max(n - 1, 1))
    times = met.sum(axis=0)
    if len(share) < 2 or not repeated:
        seen = 0.0 if n < 2 else between * pairs.launches
        return Noise(
            launch=seen, requests=prompts, prompts=prompts, by_prompt=by_prompt, asked=asked
        )
    own = share.sum(axis=0) / times
    squares = (met * (share - own) ** 2).sum(axis=0)
    alone = inflate * share.sum(axis=0) ** 2
    each = np.where(times > 1, squares / np.maximum(times - 1, 1), alone)
    within = (met * each).sum(axis=1)
    mean = float((weights**2 * within).sum())
    requests = Variance(value=mean, df=max(n - 1, 1))
    if between <= mean:
        prompts = requests
    return Noise(
        launch=mean * pairs.launches, requests=requests, prompts=prompts, by_prompt=by_prompt,
        asked=asked,
    )  # fmt: skip
