"""One answer over many cells: their mean effect, its error, and how much the cells differ."""

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from scipy.special import fdtrc

from specbench.stats.effect import Effect, Outlying, Variance, effect_of, satterthwaite
from specbench.stats.family import Group, Member
from specbench.stats.launches import Array, Noise


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What one cell brings to a pooled answer. `sides` name its sets of launches, a's and b's."""

    value: float
    group: Group
    source: Hashable
    sides: tuple[Hashable, Hashable]
    noise: Noise


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The mean effect over cells: of these for this and for such workloads, and of such cells.

    `spread` is the standard deviation of the true effects between cells (DerSimonian and Laird
    1986); None for a single cell, as is `cells`.
    """

    this: Member
    such: Member
    cells: Effect | None
    spread: float | None


def pool(answered: Sequence[Answered]) -> Pool:
    """Pool cells, each with equal weight.

    Errors of launches are shared by the cells of those launches, and an arm's half of them by all
    cells that its launches stand in. Prompts that several cells ask are one unit in all of them.
    """
    values = np.array([one.value for one in answered])
    n = len(values)
    common = _common(answered)
    own = satterthwaite([_scaled(one.group.own, 1 / n**2) for one in answered])
    requests = satterthwaite([_scaled(one.noise.requests, 1 / n**2) for one in answered])
    prompts = _prompts(answered, requests)
    this, such = (
        _member(answered, float(values.mean()), common, [own, rest]) for rest in (requests, prompts)
    )
    if n < 2:
        return Pool(this=this, such=such, cells=None, spread=None)
    scatter = float(values.var(ddof=1))
    noise = float(np.mean([one.noise.requests.value + one.group.own.value for one in answered]))
    beside = max(0.0, prompts.value - requests.value)
    between = [Variance(value=scatter / n, df=n - 1), Variance(value=beside, df=prompts.df)]
    cells = _member(answered, float(values.mean()), common, between).effect
    return Pool(this=this, such=such, cells=cells, spread=math.sqrt(max(0.0, scatter - noise)))


def differ(members: Sequence[Member]) -> float:
    """P value of equal effects: Cochran's Q of what members do not share."""
    known = [member for member in members if member.own.value > 0]
    if len(known) < 2:
        return 1.0
    values = np.array([member.value for member in known])
    precision = np.array([1 / member.own.value for member in known])
    mean = float((values * precision).sum() / precision.sum())
    q = float((precision * (values - mean) ** 2).sum()) / (len(known) - 1)
    df = min(member.own.df for member in known)
    return _f_tail(q, len(known) - 1, df)


def _f_tail(ratio: float, df1: float, df2: float) -> float:
    return float(fdtrc(df1, min(df2, 1e9), ratio))


def _common(answered: Sequence[Answered]) -> Variance:
    """Variance that launches give the mean: half from each arm's, by how often they stand in it."""
    n = len(answered)
    groups = {one.source: one.group for one in answered}
    total = 0.0
    for side in (0, 1):
        shares: dict[Hashable, float] = {}
        halves: dict[Hashable, list[float]] = {}
        for one in answered:
            shares[one.sides[side]] = shares.get(one.sides[side], 0.0) + 1 / n
            halves.setdefault(one.sides[side], []).append(one.group.common.value / 2)
        total += sum(shares[name] ** 2 * float(np.mean(halves[name])) for name in shares)
    return Variance(value=total, df=max(group.common.df for group in groups.values()))


def _prompts(answered: Sequence[Answered], requests: Variance) -> Variance:
    known = [one.noise.by_prompt for one in answered if one.noise.by_prompt is not None]
    n = len(answered)
    if len(known) < n:
        return satterthwaite([_scaled(one.noise.prompts, 1 / n**2) for one in answered])
    mean: Array = np.sum(known, axis=0) / n
    met = [one.noise.asked for one in answered if one.noise.asked is not None]
    asked = int(np.any(met, axis=0).sum())
    if asked < 2:
        return Variance(value=math.nan, df=1)
    value = asked / (asked - 1) * float((mean**2).sum())
    return Variance(value=value, df=asked - 1) if value > requests.value else requests


def _member(
    answered: Sequence[Answered], value: float, common: Variance, rest: Sequence[Variance]
) -> Member:
    own = effect_of(0.0, [part for part in rest if part.value != 0] or [Variance(value=0.0)])
    return Member(
        value=value,
        common=common,
        own=Variance(value=own.se**2, df=own.df),
        source=tuple(sorted({one.source for one in answered}, key=repr)),
        drift=max(one.group.drift for one in answered),
        outlying=_outlying(answered),
        wider=max(one.group.wider for one in answered),
    )


def _outlying(answered: Sequence[Answered]) -> Outlying | None:
    return next((one.group.outlying for one in answered if one.group.outlying is not None), None)


def _scaled(part: Variance, factor: float) -> Variance:
    return Variance(value=part.value * factor, df=part.df)
