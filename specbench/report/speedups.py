"""Speed-ups of a report: each cell against its control, as `analysis.compare` judges it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pandas as pd

from specbench.analysis.compare import compare
from specbench.analysis.comparison import CellComparison, Comparison
from specbench.analysis.crossover import Crossover
from specbench.errors import ConfoundError, InputError
from specbench.report import cells
from specbench.report.inputs import Evidence
from specbench.report.judged import floor_for, judged


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """One cell against the control cell that is equal in every factor applying to both.

    `ratio` is of the rate of `tok_s`, `low`/`high` the 95 % interval that decides the verdict: it
    holds in all matched cells together, and `why` says by what. None where it cannot be had, and
    `reason` says why. `verdict` is of `analysis.compare`.
    `accept_ratio` and `step_ratio` decompose it (step_ratio > 1: a step takes longer), `reading`
    says so in words. `withheld` are the flags under which no verdict is given. `guarded`: what was
    recorded of both servers was compared, and `confounds` names the columns that forbid the
    comparison. `length_ratio`: tokens answered to the prompts that both arms met. `lossy`: a
    verdict says that the output is wrong.
    """

    cell_id: str
    label: str
    levels: Mapping[str, Any]
    control_id: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = "inconclusive"
    n_trials: int = 0
    n_launches: int = 0
    n_prompts: int = 0
    launches_needed: int | None = None
    advice: str = ""
    p: float | None = None
    p_adjusted: float | None = None
    why: str = ""
    accept_ratio: float | None = None
    step_ratio: float | None = None
    reading: str = ""
    length_ratio: float | None = None
    withheld: tuple[str, ...] = ()
    confounds: tuple[str, ...] = ()
    guarded: bool = False
    lossy: bool = False
    reason: str = ""

    @property
    def decided(self) -> bool:
        """Whether the cell is said to be faster or slower; wrong output is neither."""
        return not self.lossy and self.verdict in {"faster", "slower"}


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """All comparisons of a report. `crossovers` are of whole curves, `caveats` of whole arms."""

    pairs: tuple[SpeedUp, ...] = ()
    crossovers: tuple[Crossover, ...] = ()
    caveats: tuple[str, ...] = ()


def speed_ups(evidence: Evidence) -> list[SpeedUp]:
    """Compare every measured cell of another arm with its control; refused ones say why."""
    return list(speeds(evidence).pairs)


@lru_cache(maxsize=4)
def speeds(evidence: Evidence) -> Speeds:
    """Compare every arm with the control, in all matched cells together.

    An arm that cannot be compared as a whole is compared cell by cell, so that a confound of one
    launch refuses the cells measured in it and no others.
    """
    found = _speeds(evidence)
    lossy = cells.not_lossless(evidence.trials)
    return replace(
        found, pairs=tuple(replace(pair, lossy=pair.cell_id in lossy) for pair in found.pairs)
    )


def _speeds(evidence: Evidence) -> Speeds:
    book = _Book(evidence)
    if evidence.control not in book.arms:
        return Speeds(pairs=tuple(book.alone(cell) for cell in book.speculative()))
    pairs: dict[str, SpeedUp] = {}
    crossovers: list[Crossover] = []
    caveats: dict[str, None] = {}
    for arm in book.arms:
        if arm == evidence.control:
            continue
        found = judged(evidence, evidence.control, arm)
        if found is None:
            pairs |= {pair.cell_id: pair for pair in _one_by_one(evidence, book, arm)}
            continue
        pairs |= {pair.cell_id: pair for pair in book.pairs_of(found)}
        crossovers += found.crossovers
        caveats |= dict.fromkeys(found.caveats)
    everything = (pairs.get(cell) or book.alone(cell) for cell in book.speculative())
    return Speeds(pairs=tuple(everything), crossovers=tuple(crossovers), caveats=tuple(caveats))


def _compare(
    evidence: Evidence, trials: pd.DataFrame, requests: pd.DataFrame, arm: str
) -> Comparison:
    floor = floor_for(evidence, evidence.control, arm)
    return compare(trials, requests, evidence.blocks, evidence.control, arm, floor=floor)


def _one_by_one(evidence: Evidence, book: "_Book", arm: str) -> Iterator[SpeedUp]:
    """Compare an arm's cells alone with their controls; a refusal becomes the cell's reason."""
    for cell in book.cells_of(arm):
        control = book.control_of(cell)
        if control is None:
            continue
        both = {cell, control}
        trials = evidence.compared[evidence.compared["cell_id"].isin(both)]
        requests = evidence.requests[evidence.requests["cell_id"].isin(both)]
        try:
            yield from book.pairs_of(_compare(evidence, trials, requests, arm))
        except ConfoundError as refusal:
            columns = tuple(refusal.columns)
            reason = f"the arms also differ in {', '.join(columns) or refusal.what}"
            yield book.refused(cell, control, reason, columns)
        except InputError as refusal:
            yield book.refused(cell, control, refusal.what, ())


class _Book:
    """Cells of the usable trials: their levels, their labels, their controls."""

    def __init__(self, evidence: Evidence) -> None:
        good = cells.usable(evidence.trials)
        factors = cells.factors_of(good)
        self._control = evidence.control
        self._names = ["algorithm", *(n for n in cells.varying(good) if n != "algorithm")]
        each = good.drop_duplicates("cell_id").to_dict("records")
        levels = [cells.levels_of(row, factors) for row in each]
        self._levels = {
            str(each[position]["cell_id"]): levels[position]
            for position in cells.in_order(levels, factors, evidence.control)
        }
        self._by_levels = {_key(levels): cell for cell, levels in self._levels.items()}
        self._lengths = _lengths(evidence.requests)
        self.arms = list(dict.fromkeys(str(v["algorithm"]) for v in self._levels.values()))

    def speculative(self) -> list[str]:
        """List the cells of every arm but the control."""
        return [c for c, levels in self._levels.items() if levels["algorithm"] != self._control]

    def cells_of(self, arm: str) -> list[str]:
        """List the cells of one arm."""
        return [c for c, levels in self._levels.items() if levels["algorithm"] == arm]

    def control_of(self, cell: str) -> str | None:
        """Find the control cell that is equal in every factor applying to both."""
        mine = self._levels[cell]
        matched = [
            c for c in self.cells_of(self._control) if cells.matches_control(mine, self._levels[c])
        ]
        return matched[0] if len(matched) == 1 else None

    def alone(self, cell: str) -> SpeedUp:
        """Say why a cell stands alone."""
        controls = [self._levels[c] for c in self.cells_of(self._control)]
        if not controls:
            reason = "no control cell was measured"
        else:
            differing = min((_differing(self._levels[cell], c) for c in controls), key=len)
            reason = f"the nearest control differs in {', '.join(differing) or 'the host'}"
        return SpeedUp(
            cell_id=cell, label=self._label(cell), levels=self._levels[cell], reason=reason
        )

    def refused(self, cell: str, control: str, reason: str, columns: tuple[str, ...]) -> SpeedUp:
        """Say why a matched cell is not compared."""
        return SpeedUp(
            cell_id=cell,
            label=self._label(cell),
            levels=self._levels[cell],
            control_id=control,
            confounds=columns,
            guarded=bool(columns),
            length_ratio=self._length_ratio(cell, control),
            reason=" ".join(reason.split()),
        )

    def pairs_of(self, found: Comparison) -> Iterator[SpeedUp]:
        """Turn the compared cells of one arm into speed-ups."""
        for one in found.cells:
            cell = self._by_levels.get(_key({**one.levels, **one.own_b}))
            control = self._by_levels.get(_key({**one.levels, **one.own_a}))
            if cell is not None and control is not None:
                yield self._pair(one, cell, control)

    def _pair(self, one: CellComparison, cell: str, control: str) -> SpeedUp:
        estimate = one.estimate
        known = math.isfinite(estimate.high) and estimate.low > 0
        parts = one.decomposition
        return SpeedUp(
            cell_id=cell,
            label=self._label(cell),
            levels=self._levels[cell],
            control_id=control,
            ratio=estimate.ratio,
            low=estimate.low if known else None,
            high=estimate.high if known else None,
            verdict=one.verdict,
            n_trials=sum(one.trials),
            n_launches=sum(one.launches),
            n_prompts=one.prompts,
            launches_needed=one.launches_needed,
            advice=one.advice,
            p=estimate.p,
            p_adjusted=estimate.p_adjusted,
            why=one.why,
            accept_ratio=parts.accept_len.ratio if parts else None,
            step_ratio=parts.step_time_ratio if parts else None,
            reading=parts.reading if parts else "",
            length_ratio=self._length_ratio(cell, control),
            withheld=one.doubts,
            guarded=True,
            reason=one.why if one.verdict == "inconclusive" else "",
        )

    def _label(self, cell: str) -> str:
        return cells.cell_label(self._levels[cell], self._names)

    def _length_ratio(self, cell: str, control: str) -> float | None:
        mine, theirs = self._lengths.get(cell), self._lengths.get(control)
        if mine is None or theirs is None:
            return None
        common = mine.index.intersection(theirs.index)
        total = theirs.loc[common].sum()
        return float(mine.loc[common].sum() / total) if total > 0 else None


def _key(levels: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset(
        (name, level) for name, level in levels.items() if level is not None and name != "host"
    )


def _differing(levels: Mapping[str, Any], control: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, level in levels.items()
        if name != "algorithm" and control.get(name) != level and None not in (control[name], level)
    ]


def _lengths(requests: pd.DataFrame) -> dict[str, pd.Series]:
    """Give, by cell, the mean output tokens of each prompt."""
    if requests.empty:
        return {}
    good = requests[(requests["phase"] == "measured") & (requests["status"] == "ok")]
    means = good.groupby(["cell_id", "prompt_id"], observed=True)["output_tokens"].mean()
    return {
        str(cell): part.droplevel("cell_id")
        for cell, part in means.dropna().groupby(level="cell_id", observed=True)
    }
