"""One answer to the whole question: the mean over cells, and where it differs."""

import math
from collections.abc import Iterable, Mapping, Sequence

from specbench.analysis.comparison import Outcome, Pooled
from specbench.analysis.judge import EQUIVALENT, SMALL, Verdicts, estimate, outcome, wider
from specbench.analysis.metrics import Metric
from specbench.model.matrix import Level
from specbench.stats.family import Judged, judged_together
from specbench.stats.pooled import Pool, differ, pool

FACTORS = ("temperature", "concurrency", "rate")
"""Load and request factors by which the answer is also given."""

FEW = "few_requests:"
"""The doubt that only small effects cannot stand against."""

OPPOSITE: tuple[frozenset[str], ...] = (
    frozenset({"faster", "slower"}),
    frozenset({"higher", "lower"}),
)


def whole(verdicts: Sequence[Verdicts], metric: Metric) -> Pooled:
    """Pool all cells that support a verdict; where none does, all of them, without a verdict."""
    used = _sound(verdicts) or verdicts
    one = pool([verdict.answered for verdict in used])
    return _pooled([one], [used], metric, [(None, None)], len(verdicts) - len(used), None)[0]


def by_factor(
    verdicts: Sequence[Verdicts], levels: Sequence[Mapping[str, Level]], metric: Metric
) -> tuple[Pooled, ...]:
    """Pool the cells of each level of temperature and load; the levels of one are a family."""
    found: list[Pooled] = []
    for factor in FACTORS:
        parts: dict[Level, list[Verdicts]] = {}
        for verdict, own in zip(verdicts, levels, strict=True):
            if own.get(factor) is not None:
                parts.setdefault(own[factor], []).append(verdict)
        sound = {level: _sound(part) for level, part in parts.items() if _sound(part)}
        if len(sound) < 2 or all(len(part) == 1 for part in sound.values()):
            continue
        pools = [pool([one.answered for one in part]) for part in sound.values()]
        apart = differ([one.this for one in pools])
        places = [(factor, level) for level in sound]
        found += _pooled(pools, list(sound.values()), metric, places, 0, apart)
    return tuple(found)


def together(cells: Iterable[Outcome], pooled: Outcome) -> Outcome:
    """Give `mixed` where two cells are decided in opposite directions, else the pooled answer."""
    found = frozenset(map(str, cells))
    return "mixed" if any(pair <= found for pair in OPPOSITE) else pooled


def _sound(verdicts: Sequence[Verdicts]) -> list[Verdicts]:
    """Keep the cells whose doubts, if any, are of small effects only."""
    return [one for one in verdicts if all(doubt.startswith(FEW) for doubt in one.doubts)]


def _pooled(
    pools: Sequence[Pool], parts: Sequence[Sequence[Verdicts]], metric: Metric,
    places: Sequence[tuple[str | None, Level]], withheld: int, differs: float | None,
) -> list[Pooled]:  # fmt: skip
    this = judged_together([one.this for one in pools])
    such = wider(this, judged_together([one.such for one in pools]))
    return [
        _answer(one, this[i], such[i], parts[i], metric, places[i], len(pools), withheld, differs)
        for i, one in enumerate(pools)
    ]


def _answer(
    one: Pool, this: Judged, such: Judged, part: Sequence[Verdicts], metric: Metric,
    place: tuple[str | None, Level], family: int, withheld: int, differs: float | None,
) -> Pooled:  # fmt: skip
    doubts = _doubts(part, (this, such))
    verdict, why = outcome(such, metric, doubts, family)
    alone = [] if one.cells is None else [Judged.alone(one.cells)]
    return Pooled(
        scope="all" if place[0] is None else f"{place[0]}={place[1]}",
        factor=place[0],
        level=place[1],
        cells=len(part),
        withheld=withheld,
        this_workload=estimate(this),
        such_workloads=None if one.this.own == one.such.own else estimate(such),
        such_cells=estimate(alone[0]) if alone else None,
        tau_pct=None if one.spread is None else 100 * one.spread,
        differs_p=differs,
        verdict=verdict,
        verdict_this_workload=outcome(this, metric, doubts, family)[0],
        why=why.replace(" cells", " levels") if family > 1 else why,
    )


def _doubts(part: Sequence[Verdicts], judged: Sequence[Judged]) -> list[str]:
    """Name what withholds the pooled verdict.

    Few requests a slot may lean a cell by as much as its interval must be beyond; the mean over
    cells leans by their share of it.
    """
    found = [doubt for verdict in part for doubt in verdict.doubts if not doubt.startswith(FEW)]
    few = [verdict.few for verdict in part if verdict.few]
    lean = SMALL * len(few) / len(part)
    if found or all(_stands(one, lean) for one in judged):
        return found[:1]
    where = f" in {len(few)} of {len(part)} cells" if len(part) > 1 else ""
    least = f"{100 * math.expm1(lean):.2g} %"
    return [f"{FEW} {few[0]}{where}; no verdict unless its interval is beyond {least}"]


def _stands(judged: Judged, lean: float) -> bool:
    """Whether what would be said is true of a mean that leans by so much."""
    if judged.decided:
        return abs(judged.effect.value) - judged.half >= lean
    if judged.within(EQUIVALENT):
        return judged.within(EQUIVALENT - lean)
    return judged.effect.minimum_detectable(half=judged.half) >= lean
