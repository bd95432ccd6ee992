"""From what was measured in matched cells to verdicts that share one error rate."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from specbench.analysis.comparison import Estimate, Outcome
from specbench.analysis.metrics import Metric
from specbench.analysis.pairing import Paired
from specbench.stats.family import Group, Judged, Member, cell_member, group_of, judged_together
from specbench.stats.launches import Noise, Pairs, noise_of
from specbench.stats.pooled import Answered

EQUIVALENT = math.log(1.02)
"""Differences below 2 % are called no difference, when the whole 90 % interval is below."""

ALPHA = 0.05

SMALL = math.log(1.05)
"""With few requests a slot the window leans on few prompts: no verdict that 5 % explain."""

UNEVEN_ORDER = 0.5
BEYOND_DRIFT = math.log(1.3)
"""An order in which one arm is (nearly) always later supports no verdict that a drift of the
machine could explain; beyond 30 % none does."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One matched cell before it is judged: its pairs, and what withholds a verdict.

    `order` is the leak of the order (None: unknown), `few` says how few requests a slot had (or
    nothing), `held` are doubts that withhold every verdict; `same_prompts` that both sides were
    asked the same.
    """

    paired: Paired
    pairs: Pairs
    noise: Noise
    order: float | None
    few: str
    held: tuple[str, ...]
    same_prompts: bool


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """One cell judged: for this workload and for such workloads, with the doubts that withhold.

    `few` says how few requests a slot had, or nothing: whatever the effect was, and so it is no
    doubt of a large one.
    """

    this: Judged
    such: Judged
    answered: Answered
    doubts: tuple[str, ...]
    few: str = ""


def measured(
    paired: Paired, pairs: Pairs, order: float | None, few: str, held: Sequence[str],
    *, same_prompts: bool,
) -> Cell:  # fmt: skip
    """Split a cell's noise and keep what was found beside it."""
    return Cell(
        paired=paired, pairs=pairs, noise=noise_of(pairs, repeated=same_prompts), order=order,
        few=few, held=tuple(held), same_prompts=same_prompts,
    )  # fmt: skip


def judge(cells: Sequence[Cell], metric: Metric, *, apart: bool = False) -> list[Verdicts]:
    """Judge all cells together: the verdicts share one error rate.

    Cells of the same launches share their error; cells in doubt are judged alone, they are in no
    sentence. `apart` says that the arms were measured at different times (a baseline): their order
    is no order inside a run, and counts as drift instead.
    """
    groups, sources = _groups(cells, metric, apart=apart)
    sides = [
        [
            cell_member(one.pairs, one.noise, groups[source], source, such=such)
            for one, source in zip(cells, sources, strict=True)
        ]
        for such in (False, True)
    ]
    judged = [_family(side, cells) for side in sides]
    return [
        Verdicts(
            this=this,
            such=such,
            answered=Answered(
                value=this.effect.value,
                group=groups[source],
                source=source,
                sides=(_of(cell, 0), _of(cell, 1)),
                noise=cell.noise,
            ),
            doubts=(*cell.held, *_withheld(cell, such, apart=apart)),
            few=cell.few,
        )
        for cell, source, this, such in zip(cells, sources, judged[0], wider(*judged), strict=True)
    ]


def _of(cell: Cell, side: int) -> tuple[str, ...]:
    """Name one side's launches."""
    return tuple(pair[side] for pair in cell.paired.blocks)


def wider(this: Sequence[Judged], such: Sequence[Judged]) -> list[Judged]:
    """Keep such workloads as uncertain as this one at least: they hold its uncertainty as well.

    More degrees of freedom can make a sum of errors look better known than one of its parts.
    """
    return [_at_least(a, b) for a, b in zip(this, such, strict=True)]


def _at_least(this: Judged, such: Judged) -> Judged:
    alone = max(this.effect, such.effect, key=lambda effect: effect.half_width())
    return Judged(
        effect=alone,
        p=max(this.p, such.p),
        p_adjusted=max(this.p_adjusted, such.p_adjusted),
        half=max(this.half, such.half),
        half_90=max(this.half_90, such.half_90),
    )


def _family(members: Sequence[Member], cells: Sequence[Cell]) -> list[Judged]:
    sound = [i for i, cell in enumerate(cells) if not cell.held]
    together = dict(zip(sound, judged_together([members[i] for i in sound]), strict=True))
    return [
        together[i] if i in together else judged_together([member])[0]
        for i, member in enumerate(members)
    ]


def _groups(
    cells: Sequence[Cell], metric: Metric, *, apart: bool
) -> tuple[dict[int, Group], list[int]]:
    """Bring cells that have a pair of launches in common together."""
    source = list(range(len(cells)))
    first: dict[tuple[str, str], int] = {}
    for i, cell in enumerate(cells):
        for blocks in cell.paired.blocks:
            joined = first.setdefault(blocks, i)
            old, new = source[i], source[joined]
            source = [new if one == old else one for one in source]
    groups = {}
    for name in dict.fromkeys(source):
        mine = [cell for cell, own in zip(cells, source, strict=True) if own == name]
        orders = [abs(cell.order) for cell in mine if cell.order is not None]
        place = 1.0 if apart else max(orders, default=0.0)
        groups[name] = group_of(
            [cell.pairs for cell in mine],
            [cell.noise for cell in mine],
            metric.prior,
            leak=place if metric.speed and (apart or mine[0].pairs.launches > 1) else 0.0,
        )
    return groups, source


def _withheld(cell: Cell, judged: Judged, *, apart: bool) -> list[str]:
    """Doubts that a small effect cannot stand against."""
    found = []
    size = abs(judged.effect.value)
    if cell.few and size - judged.half < SMALL:
        found.append(f"few_requests: {cell.few}; no verdict unless its interval is beyond 5 %")
    uneven = cell.order is not None and abs(cell.order) >= UNEVEN_ORDER and not apart
    if uneven and cell.pairs.launches > 1 and size - judged.half < BEYOND_DRIFT:
        later = "second" if (cell.order or 0) > 0 else "first"
        found.append(
            f"order: the {later} arm was launched later nearly every time, so that a drift of the"
            " machine cannot be told from it"
        )
    return found


def outcome(
    judged: Judged, metric: Metric, doubts: Sequence[str], cells: int = 1
) -> tuple[Outcome, str]:
    """Give a verdict and why, from the intervals that are printed beside it."""
    if doubts:
        return "inconclusive", doubts[0]
    if not math.isfinite(judged.half):
        return "inconclusive", "one prompt and one launch show no variation"
    corrected = f" after correction for {cells} cells" if cells > 1 else ""
    if judged.decided:
        p = f"p = {judged.p:.2g}"
        told = f"{p}, {judged.p_adjusted:.2g}{corrected}" if cells > 1 else p
        return direction(judged.effect.value, metric), told
    if judged.within(EQUIVALENT):
        value, half = judged.effect.value, judged.half_90
        told = f"[{math.exp(value - half):.3f}, {math.exp(value + half):.3f}]"
        return "no_difference", f"the 90 % interval {told} lies within 2 %{corrected}"
    if judged.p < ALPHA:
        return "inconclusive", (
            f"not significant{corrected}, p {judged.p:.2g} -> {judged.p_adjusted:.2g}"
        )
    found = 100 * math.expm1(judged.effect.minimum_detectable(half=judged.half))
    return "inconclusive", (
        f"the 95 % interval spans 1{corrected}; a difference of {found:.1f} % would be found"
    )


def direction(value: float, metric: Metric) -> Outcome:
    """Name the direction of a log ratio."""
    more = value > 0
    if not metric.speed:
        return "higher" if more else "lower"
    return "faster" if more == (metric.better == "higher") else "slower"


def estimate(judged: Judged) -> Estimate:
    """Render a judged effect as a ratio with its intervals."""
    value = judged.effect.value
    low, high = _ratios(value, judged.half)
    low_90, high_90 = _ratios(value, judged.half_90)
    low_alone, high_alone = judged.effect.ratio_interval()
    detectable = judged.effect.minimum_detectable(half=judged.half)
    return Estimate(
        ratio=judged.effect.ratio,
        low=low,
        high=high,
        low_90=low_90,
        high_90=high_90,
        low_alone=low_alone,
        high_alone=high_alone,
        p=judged.p,
        p_adjusted=judged.p_adjusted,
        detectable_pct=100 * math.expm1(detectable) if detectable < 700 else math.inf,
    )


def _ratios(value: float, half: float) -> tuple[float, float]:
    if not math.isfinite(half):
        return 0.0, math.inf
    return math.exp(value - half), float(np.exp(min(value + half, 700.0)))
