"""Faster or not, by how much, how surely, where, and why - or a refusal that names the columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from specbench.analysis.acceptance import profile
from specbench.analysis.answer import by_factor, together, whole
from specbench.analysis.arms import (
    Arm,
    MatchedCell,
    Matching,
    arm,
    level_rows,
    match,
    with_plain_texts,
)
from specbench.analysis.caveats import caveats
from specbench.analysis.cells import Sides, cell_of, sides_of
from specbench.analysis.comparison import ArmSummary, CellComparison, Comparison
from specbench.analysis.confounds import differences, refuse
from specbench.analysis.crossover import Crossover, crossovers
from specbench.analysis.equal_answers import equal_answers
from specbench.analysis.gate import lossless_gate
from specbench.analysis.judge import Verdicts, judge
from specbench.analysis.metrics import Metric, metric
from specbench.analysis.pairing import places
from specbench.analysis.pareto import choices
from specbench.analysis.totals import Totals
from specbench.model.block_facts import BlockFacts
from specbench.stats.launches import LaunchFloor

Blocks = Mapping[str, BlockFacts]


def compare(
    trials: pd.DataFrame,
    requests: pd.DataFrame,
    blocks: Blocks,
    a: str | Arm,
    b: str | Arm,
    *,
    metric: str = "tok_s",
    allow: Sequence[str] = (),
    where: Callable[[Mapping[str, Any]], bool] | None = None,
    floor: LaunchFloor | None = None,
    details: bool = True,
) -> Comparison:
    """Compare arm b with arm a in their matched cells.

    `trials` and `requests` are the tables of contract section 6, `blocks` the recorded facts of
    each launch by block_id. `allow` accepts columns that differ (names or patterns); it is written
    into the answer. `where` limits the cells looked at. `floor` is what other launches of this host
    showed of its noise. Without `details` only the verdicts are made: no acceptance profile, no
    decomposition, no ranking.

    Raises:
        ConfoundError: the arms differ in more than was declared, or have no cell in common.
        InputError: an arm or the metric is unknown, or nothing was measured.
    """
    known = _with(_metric(metric), floor)
    if where is not None:
        trials = trials[[where(levels) for levels in level_rows(trials)]]
    trials = with_plain_texts(trials.reset_index(drop=True))
    arms = [arm(side, trials) if isinstance(side, str) else side for side in (a, b)]
    matching = match(trials, arms[0], arms[1], allow=allow)
    guarded = [
        differences(trials, blocks, cell, declared=matching.declared, allow=allow)
        for cell in matching.cells
    ]
    refuse(arms[0].name, arms[1].name, list(dict.fromkeys(d for found in guarded for d in found)))
    totals = Totals(requests, _plain(trials, blocks, matching))
    starts = places(trials)
    sides = [
        sides_of(trials, requests, totals, starts, cell, known, tuple(allow))
        for cell in matching.cells
    ]
    apart = "recording" in trials.columns
    verdicts = judge([one.cell for one in sides], known, apart=apart)
    cells = [
        cell_of(cell, one, verdict, found, known, totals, len(sides), details=details)
        for cell, one, verdict, found in zip(matching.cells, sides, verdicts, guarded, strict=True)
    ]
    return _assemble(
        requests, blocks, totals, arms, matching, sides, verdicts, cells, known, tuple(allow),
        details,
    )  # fmt: skip


def _metric(name: str) -> Metric:
    return metric(name)


def _with(metric: Metric, floor: LaunchFloor | None) -> Metric:
    """Pool this host's own launch noise with the default; only clocks have a noise floor."""
    if not metric.speed:
        return metric
    return msgspec.structs.replace(metric, prior=metric.prior.with_floor(floor))


def _plain(trials: pd.DataFrame, blocks: Blocks, matching: Matching) -> list[str]:
    """List the trials of arms that decode one token a step."""
    found: list[str] = []
    for cell in matching.cells:
        for rows in (cell.rows_a, cell.rows_b):
            table = trials.iloc[list(rows)]
            found += table["trial_id"].astype(str).tolist() if _is_plain(table, blocks) else []
    return found


def _is_plain(table: pd.DataFrame, blocks: Blocks) -> bool:
    """Whether the arm decodes one token a step; the launch says so, else accept_len does."""
    launches = [blocks.get(str(name)) for name in table["block_id"]]
    said = [one.spec.speculative for one in launches if one and one.spec]
    if said:
        return not any(said)
    return "accept_len" in table.columns and bool((table["accept_len"] == 1.0).all())


def _assemble(
    requests: pd.DataFrame, blocks: Blocks, totals: Totals, arms: Sequence[Arm],
    matching: Matching, sides: Sequence[Sides], verdicts: Sequence[Verdicts],
    cells: Sequence[CellComparison], metric: Metric, allow: tuple[str, ...], details: bool,
) -> Comparison:  # fmt: skip
    found = list(dict.fromkeys(d for cell in cells for d in cell.differences))
    tables = [pd.concat([one.a for one in sides]), pd.concat([one.b for one in sides])]
    tables = [table.drop_duplicates("trial_id") for table in tables]
    pooled = whole(verdicts, metric)
    turns = metric.speed and metric.better == "higher"
    used = pd.concat(tables).reset_index(drop=True)
    return Comparison(
        metric=metric.name,
        better=metric.better,
        a=_summary(arms[0].name, tables[0], requests, details=details),
        b=_summary(arms[1].name, tables[1], requests, details=details),
        cells=tuple(cells),
        pooled=pooled,
        by=by_factor(verdicts, [cell.levels for cell in cells], metric),
        verdict=together((cell.verdict for cell in cells), pooled.verdict),
        verdict_this_workload=together(
            (cell.verdict_this_workload for cell in cells),
            pooled.verdict_this_workload,
        ),
        declared=matching.declared,
        coupled=tuple(d for d in found if d.kind == "coupled"),
        allowed=tuple(d for d in found if d.kind == "allowed"),
        unrecorded=tuple(d for d in found if d.kind == "unrecorded"),
        allow=allow,
        unmatched=matching.unmatched,
        crossovers=_crossovers(matching.cells, verdicts) if turns else (),
        ranking=choices(used, blocks, totals, prior=metric.prior) if details else (),
        launch_noise=metric.prior.source,
        caveats=(
            *caveats(matching, sides, verdicts, cells, tables),
            *equal_answers(requests, [(one.a, one.b) for one in sides]),
        ),
    )


def _summary(name: str, side: pd.DataFrame, requests: pd.DataFrame, *, details: bool) -> ArmSummary:
    counted = {"spec_verify_ct", "spec_accepted", "spec_histogram"} <= set(requests.columns)
    mine = requests[requests["trial_id"].isin(side["trial_id"])] if counted and details else None
    return ArmSummary(
        name=name,
        lossless=lossless_gate(side),
        launches=int(side["block_id"].nunique()),
        trials=len(side),
        acceptance=profile(mine) if mine is not None else None,
    )


def _crossovers(
    cells: Sequence[MatchedCell], verdicts: Sequence[Verdicts]
) -> tuple[Crossover, ...]:
    """Follow each pair of configurations over concurrency; no cell whose verdict is withheld."""
    curves: dict[str, list[tuple[MatchedCell, Verdicts]]] = {}
    for cell, verdict in zip(cells, verdicts, strict=True):
        fixed = {name: level for name, level in cell.levels.items() if name != "concurrency"}
        if not verdict.doubts and isinstance(cell.levels.get("concurrency"), int | float):
            key = repr((fixed, cell.own_a, cell.own_b))
            curves.setdefault(key, []).append((cell, verdict))
    return tuple(turn for curve in curves.values() for turn in _curve(curve))


def _curve(curve: Sequence[tuple[MatchedCell, Verdicts]]) -> tuple[Crossover, ...]:
    cell = curve[0][0]
    return crossovers(
        [(float(str(one.levels["concurrency"])), verdict.such) for one, verdict in curve],
        levels={name: level for name, level in cell.levels.items() if name != "concurrency"},
        own_a=cell.own_a,
        own_b=cell.own_b,
    )
