"""Several cells at once: errors that cells of one launch share, joint intervals, one answer.

Cells that were measured in the same launches share the error of those launches, so it is estimated
from their mean and simulated once for all of them (max-|T|: Westfall and Young 1993).
"""

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from specbench.stats.contaminated import Posterior
from specbench.stats.effect import CONFIDENCE, Effect, Outlying, Variance, effect_of
from specbench.stats.launches import Array, LaunchPrior, Noise, Pairs

DRAWS = 3999
EQUIVALENCE = 0.90
"""No difference is decided by the 90 % interval: two one-sided tests at 5 % (Schuirmann 1987)."""

INTERACTION = Variance(value=2 * 0.003**2, df=4.0)
"""Noise of one cell in one launch beside its requests: 0.3 % an arm, until cells show it."""

NOISY_REQUESTS = 0.04
"""Request noise of a pair of launches above which an outlying launch can hide in it."""

DRIFT = 0.02
"""Slowing of a machine over a run that an uneven order may carry into the effect."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that were measured in the same pairs of launches, and the noise they share.

    `common` is the variance of all their effects together, `own` that of each beside its requests.
    `wider` is the factor of the second opinion on their mean; `off` each pair's chance to be off.
    """

    launches: int
    common: Variance
    drift: float
    own: Variance
    outlying: Outlying | None
    wider: float
    off: tuple[float, ...]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One effect of a family: its error is one that it shares with its `source`, and its own."""

    value: float
    common: Variance
    own: Variance
    source: Hashable
    drift: float = 0.0
    outlying: Outlying | None = None
    wider: float = 1.0

    @property
    def effect(self) -> Effect:
        """The effect judged alone."""
        parts = [self.common, self.own, Variance(value=self.drift)]
        alone = effect_of(self.value, parts, self.outlying)
        return msgspec.structs.replace(alone, se=alone.se * self.wider)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """An effect with what its family makes of it: half-widths that hold together, adjusted p.

    `half` is of the 95 % interval that decides a direction, `half_90` of the one that decides no
    difference.
    """

    effect: Effect
    p: float
    p_adjusted: float
    half: float
    half_90: float

    @classmethod
    def alone(cls, effect: Effect) -> "Judged":
        """Judge an effect that stands in no family."""
        return _judged(effect, None, 1)

    @property
    def decided(self) -> bool:
        """Whether the interval that decides excludes no effect."""
        return abs(self.effect.value) > self.half

    def within(self, margin: float) -> bool:
        """Whether the interval that decides no difference lies inside +-margin."""
        return abs(self.effect.value) + self.half_90 < margin


def group_of(
    cells: Sequence[Pairs], noises: Sequence[Noise], prior: LaunchPrior, leak: float = 0.0
) -> Group:
    """Estimate what cells of the same launches share.

    `leak` is the mean place of b in the run less that of a, in units of the run.
    """
    launches = max(cell.launches for cell in cells)
    table = np.full((len(cells), launches), math.nan)
    for row, cell in zip(table, cells, strict=True):
        row[: cell.launches] = cell.by_launch()
    requests = float(np.mean([noise.launch for noise in noises]))
    centred = table - np.nanmean(table, axis=1, keepdims=True)
    mean = np.nanmean(centred, axis=0)
    between = float((mean**2).sum()) / max(launches - 1, 1) - requests / len(cells)
    common = prior.moderated(between, launches)
    wider, off = _second_opinion(
        np.nanmean(table) + mean, requests / len(cells), prior, common, launches
    )
    return Group(
        launches=launches,
        common=Variance(value=common.value / launches, df=common.df),
        drift=(leak * DRIFT) ** 2,
        own=_interaction(centred - mean, requests),
        outlying=prior.outlying if launches == 1 else None,
        wider=wider,
        off=off,
    )


def _interaction(residuals: Array, requests: float) -> Variance:
    """Variance of one cell in one launch, beside requests; nothing for a single cell."""
    cells, launches = residuals.shape
    df = (cells - 1) * (launches - 1)
    if cells == 1:
        return Variance(value=0.0)
    seen = max(0.0, float(np.nansum(residuals**2)) / df - requests) if df else 0.0
    total = INTERACTION.df + df
    value = (INTERACTION.df * INTERACTION.value + df * seen) / total
    return Variance(value=value / launches, df=total)


def _second_opinion(
    by_launch: Array, requests: float, prior: LaunchPrior, common: Variance, launches: int
) -> tuple[float, tuple[float, ...]]:
    """How much wider an interval must be to hold the contaminated posterior's; and who is off."""
    if launches < 2 or prior.outlying is None:
        return 1.0, ()
    posterior = Posterior(by_launch, requests, prior)
    off = tuple(float(chance) for chance in posterior.off())
    if math.sqrt(requests) <= NOISY_REQUESTS:
        return 1.0, off
    value = float(by_launch.mean())
    parts = [
        Variance(value=common.value / launches, df=common.df),
        Variance(value=requests / launches, df=max(launches - 1, 1) * 8),
    ]
    plain = effect_of(value, parts)
    wider = max(
        posterior.half_width(value, confidence) / plain.half_width(confidence)
        for confidence in (CONFIDENCE, EQUIVALENCE)
    )
    return max(1.0, wider), off


def cell_member(
    pairs: Pairs, noise: Noise, group: Group, source: Hashable, *, such: bool
) -> Member:
    """One cell's effect, for such workloads or for this one."""
    rest = noise.prompts if such else noise.requests
    parts = [part for part in (group.own, rest) if part.value != 0]
    own = effect_of(0.0, parts) if parts else Effect(value=0.0, se=0.0)
    return Member(
        value=float(pairs.by_launch().mean()),
        common=Variance(
            value=group.common.value * group.launches / pairs.launches, df=group.common.df
        ),
        own=Variance(value=own.se**2, df=own.df),
        source=source,
        drift=group.drift,
        outlying=group.outlying,
        wider=group.wider,
    )


def judged_together(members: Sequence[Member], seed: int = 0) -> list[Judged]:
    """Judge a family: each interval holds together with all others.

    The order of members does not matter: each gets its draws by the size of its errors.
    """
    effects = [member.effect for member in members]
    known = [i for i, effect in enumerate(effects) if math.isfinite(effect.se) and effect.se > 0]
    largest = _largest(members, effects, known, seed) if len(known) > 1 else None
    return [_judged(effect, largest, len(known)) for effect in effects]


def _judged(effect: Effect, largest: Array | None, known: int) -> Judged:
    half, half_90 = effect.half_width(CONFIDENCE), effect.half_width(EQUIVALENCE)
    p = adjusted = effect.p_value
    if largest is not None and known > 1 and math.isfinite(effect.se):
        size = abs(effect.value) / half if half > 0 else math.inf
        above = len(largest) - int(np.searchsorted(largest, size, side="left"))
        half_90 = max(half_90, _critical(largest, EQUIVALENCE) * half)
        half = max(half, _critical(largest, CONFIDENCE) * half)
        adjusted = max(p, (1 + above) / (1 + len(largest)))
    return Judged(effect=effect, p=p, p_adjusted=adjusted, half=half, half_90=half_90)


def _critical(largest: Array, confidence: float) -> float:
    """Size that the largest error passes with probability 1 - confidence."""
    return float(largest[-(round((1 - confidence) * (len(largest) + 1)) - 1)])


def _largest(
    members: Sequence[Member], effects: Sequence[Effect], known: Sequence[int], seed: int
) -> Array:
    """Draw the errors of the whole family; the largest of each draw, in half-widths, sorted."""
    random = np.random.default_rng(seed)
    order = sorted(
        known, key=lambda i: (members[i].common.value, members[i].own.value, effects[i].se)
    )
    shared: dict[Hashable, tuple[Array, Array]] = {}
    largest = np.zeros(DRAWS)
    for i in order:
        member = members[i]
        if member.source not in shared:
            shared[member.source] = _shared(member, random)
        launch, rest = shared[member.source]
        error = launch * math.sqrt(member.common.value) + rest + _drawn(member.own, random)
        half = effects[i].half_width(CONFIDENCE) / member.wider
        np.maximum(largest, np.abs(error) / half, out=largest)
    largest.sort()
    return largest


def _shared(member: Member, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw what members of one source share: the launches' error in its own unit, and the rest."""
    launch = _drawn(Variance(value=1.0, df=member.common.df), random)
    rest = _drawn(Variance(value=member.drift), random)
    if member.outlying is not None:
        off = random.random(DRAWS) < member.outlying.share
        rest = rest + off * random.normal(0.0, member.outlying.sd, DRAWS)
    return launch, rest


def _drawn(part: Variance, random: np.random.Generator) -> NDArray[np.float64]:
    if not part.value > 0:
        return np.zeros(DRAWS)
    if part.df > 200:
        return random.normal(0.0, math.sqrt(part.value), DRAWS)
    return random.standard_t(part.df, DRAWS) * math.sqrt(part.value)
