"""The hypothesis of no law: every configuration fails or not by a coin, the same at each launch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.causes import Configuration
from specbench.planning.probe_noise import Counts, Noise

COINS = (0.1, 0.5, 0.9)
"""How often a configuration fails that was never launched; all three alike."""

GOOD_FAILS = 0.01

Ways = tuple[NDArray[np.float64], float]
"""Likelihood of a configuration's launches if it fails, and if it does not."""


@dataclass(frozen=True, kw_only=True)
class CatchAll:
    """What the launches so far say to it, for each grid point of the noise.

    `likelihood` is that of all launches; `failing[c]` the chance that a launched configuration is
    one that fails, `fresh` that another one is.
    """

    likelihood: NDArray[np.float64]
    failing: Mapping[Configuration, NDArray[np.float64]]
    fresh: NDArray[np.float64]
    bad: Configuration

    @classmethod
    def after(
        cls, launches: Iterable[tuple[Configuration, Counts]], noise: Noise, bad: Configuration
    ) -> "CatchAll":
        """Take in launches: those of one configuration share its coin."""
        ways: dict[Configuration, Ways] = {}
        for configuration, counts in launches:
            fails, sound = ways.get(configuration, (np.ones_like(noise.weight), 1.0))
            fails = fails * noise.when_failing(counts)
            ways[configuration] = (fails, sound * noise.when_sound(counts))
        each = [_with_coin(coin, ways, noise, bad) for coin in COINS]
        sums = np.sum([likelihood for likelihood, _ in each], axis=0)
        shares = [likelihood / sums for likelihood, _ in each]
        return cls(
            likelihood=sums / len(COINS),
            failing={
                c: np.sum([w * chances[c] for w, (_, chances) in zip(shares, each, strict=True)], 0)
                for c in ways
            },
            fresh=np.sum([w * coin for w, coin in zip(shares, COINS, strict=True)], axis=0),
            bad=bad,
        )

    def chances(
        self, configurations: Sequence[Configuration], weight: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Chance that each fails, over the grid's weights."""
        whole = float(weight.sum()) or 1.0
        known = {c: float(chance @ weight) / whole for c, chance in self.failing.items()}
        fresh = float(self.fresh @ weight) / whole
        return np.array([known.get(c, _coin(c, self.bad, fresh)) for c in configurations])


@dataclass(frozen=True, kw_only=True)
class Unlisted:
    """The part of the coins' patterns that is none of the laws: those have a hypothesis already.

    `prior` is the catch-all's, for each grid point; `listed[h]` the chance that the coins give just
    the pattern of law h, over the prior of h.
    """

    prior: NDArray[np.float64]
    grid: NDArray[np.float64]
    listed: NDArray[np.float64]

    def weigh(
        self, likelihood: NDArray[np.float64], joint: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Give the catch-all's prior times likelihood, less what belongs to the laws."""
        laws = self.listed @ joint[:-1] / self.grid
        weight: NDArray[np.float64] = self.prior * np.maximum(likelihood - laws, 0.0)
        return weight


def unlisted(
    belief: NDArray[np.float64],
    grid: NDArray[np.float64],
    fails: NDArray[np.bool_],
    configurations: Sequence[Configuration],
    bad: Configuration,
) -> Unlisted:
    """Find how likely the coins give the pattern of each law (columns of `fails`)."""
    chance = np.zeros(fails.shape[1] - 1)
    for coin in COINS:
        own = np.array([_coin(c, bad, coin) for c in configurations])[:, None]
        chance += np.prod(np.where(fails[:, :-1], own, 1 - own), axis=0) / len(COINS)
    # Laws of one pattern share its chance.
    _, twin, twins = np.unique(fails[:, :-1], axis=1, return_inverse=True, return_counts=True)
    listed = chance / twins[twin.ravel()] / belief[:-1]
    return Unlisted(prior=belief[-1] * grid, grid=grid, listed=listed)


def _with_coin(
    coin: float, ways: Mapping[Configuration, Ways], noise: Noise, bad: Configuration
) -> tuple[NDArray[np.float64], dict[Configuration, NDArray[np.float64]]]:
    likelihood = np.ones_like(noise.weight)
    chances = {}
    for configuration, (fails, sound) in ways.items():
        own = _coin(configuration, bad, coin)
        both = own * fails + (1 - own) * sound
        chances[configuration] = own * fails / both
        likelihood = likelihood * both
    return likelihood, chances


def _coin(configuration: Configuration, bad: Configuration, fresh: float) -> float:
    """Chance of failing before any launch: the good server was seen to pass, the bad to fail."""
    if configuration == bad:
        return 1.0
    return fresh if configuration else GOOD_FAILS
