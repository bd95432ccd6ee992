"""What each test saw, in words: a p-value says that something is wrong, a size says what."""

from __future__ import annotations

import math

import numpy as np

from specbench.verify.statistics import scores
from specbench.verify.statistics.evidence import Effect
from specbench.verify.statistics.shaping import Atoms
from specbench.verify.statistics.tokens import Floats

_RANK_NAMES = ("the favourite", "rank 2", "rank 3 or 4", "a rank of 5 to 8", "a rank from 9 on")
_TAIL_NAME = "a token beyond the known ranks"


def temperature_size(effect: Effect, temperature: float) -> str:
    """Say the effective temperature beside the one asked for."""
    way = "hotter" if effect.value > 0 else "colder"
    effective = temperature * (1 + effect.value / 100)
    return (
        f"sampled {abs(effect.value):.3g} % {way} than asked, as if at temperature "
        f"{effective:.3g} instead of {temperature:g}{_limits(effect)}"
    )


def greedy_size(effect: Effect) -> str:
    """Say the share of tokens that were the favourite without having been drawn."""
    if effect.value < 0:
        return (
            f"the target's favourite was taken too seldom, by {-effect.value:.3g} %"
            f"{_limits(effect)}"
        )
    return f"{effect.value:.3g} % of the tokens were taken greedily, not drawn{_limits(effect)}"


def count_size(what: str, score: scores.Score, observed: int) -> str:
    """Say how often something happened beside its mean and standard deviation under losslessness.

    `score` holds indicator minus probability, so the mean is `observed` minus its sum.
    """
    due = observed - float(score.difference.sum())
    spread = math.sqrt(float(score.variance.sum()))
    return f"{what} {observed} times where {due:.1f} +- {spread:.1f} are due"


def rank_size(atoms: Atoms) -> str:
    """Say which cell of the rank table is farthest from its mean, in standard deviations."""
    expected, observed = scores.rank_cells(atoms)
    spread = np.sqrt((expected * (1 - expected)).sum(axis=0))
    gap = (observed - expected).sum(axis=0)
    cell = int(np.argmax(np.abs(gap) / np.maximum(spread, 1.0)))
    last = cell == expected.shape[1] - 1
    name = _TAIL_NAME if last else _RANK_NAMES[cell]
    return (
        f"{name} was drawn {observed.sum(axis=0)[cell]:.0f} times where "
        f"{expected.sum(axis=0)[cell]:.1f} +- {spread[cell]:.1f} are due"
    )


def pit_size(uniforms: Floats, bins: int = 20) -> str:
    """Say which part of the target's distribution was hit too often or too seldom."""
    known = uniforms[~np.isnan(uniforms)]
    counts = np.bincount(np.minimum((known * bins).astype(int), bins - 1), minlength=bins)
    due = len(known) / bins
    worst = int(np.argmax(np.abs(counts - due)))
    return (
        f"{counts[worst]} of {len(known)} draws fall between the quantiles {worst / bins:.2f} and "
        f"{(worst + 1) / bins:.2f} of the target's distribution where {due:.0f} "
        f"+- {math.sqrt(due):.0f} are due"
    )


def serial_size(score: scores.Score, lag: int) -> str:
    """Say how strongly draws `lag` apart in one request hang together."""
    n = len(score.difference)
    apart = "neighbouring draws" if lag == 1 else f"draws {lag} apart"
    return (
        f"{apart} of a request are correlated by {score.difference.sum() / max(n, 1):+.2f} where "
        f"0 +- {1 / math.sqrt(max(n, 1)):.2f} is due"
    )


def shift_size(context: int, token: int, seen: float, due: float, draws: int) -> str:
    """Say which token of which frozen context moved farthest; shares of `draws`."""
    sd = math.sqrt(max(due * (1 - due), 1e-9) / max(draws, 1))
    return (
        f"in context {context}, token {token} was drawn in {100 * seen:.0f} % of {draws} draws "
        f"where {100 * due:.0f} +- {100 * sd:.0f} % are due"
    )


def decisive(p_values: dict[str, float], greedy: Effect | None) -> str:
    """Name the test that tells most: the smallest p-value, or greedy decoding where it is plain.

    Greedy verification makes every test reject at once; only one of them says what happens.
    """
    if greedy is not None and greedy.low > 50.0 and "favourite" in p_values:
        return "favourite"
    return min(p_values, key=lambda name: p_values[name])


def _limits(effect: Effect) -> str:
    """Say the interval; a margin that contains it would contradict what it is quoted for."""
    shown = f" (interval {effect.low:.3g} to {effect.high:.3g}"
    if effect.margin is None:
        return f"{shown} %)"
    if effect.inside:
        return f"{shown} %: certain, though small)"
    return f"{shown}, margin +-{effect.margin:g} %)"
