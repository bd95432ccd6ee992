"""Faster or not, by how much, how surely, where, and why - or a refusal that names the columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from specbench.analysis.acceptance import profile
from specbench.analysis.arms import (
    Arm,
    Levels,
    MatchedCell,
    Matching,
    arm,
    level_rows,
    match,
    with_plain_texts,
)
from specbench.analysis.cell_flags import flags_that_withhold, prompts_differ
from specbench.analysis.comparison import ArmSummary, CellComparison, Comparison
from specbench.analysis.confounds import Difference, differences, refuse
from specbench.analysis.crossover import Crossover, crossover
from specbench.analysis.gate import lossless_gate
from specbench.analysis.judge import Measured, judge, together
from specbench.analysis.metrics import Metric, by_prompt, metric
from specbench.analysis.noise_floor import launches_of
from specbench.analysis.pareto import choices
from specbench.analysis.totals import Totals, totals
from specbench.errors import ConfoundError, InputError
from specbench.stats.effect import Effect, Variance, effect_of
from specbench.stats.nesting import Allowance, launch_effect
from specbench.stats.ratio import median_ratio

Blocks = Mapping[str, Mapping[str, Any]]


class Allowances(msgspec.Struct, frozen=True, kw_only=True):
    """Noise taken for granted where it was not replicated; None takes the metric's default."""

    restart: Allowance | None = None
    trial: Allowance | None = None


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
    allowances: Allowances | None = None,
) -> Comparison:
    """Compare arm b with arm a in their matched cells.

    `trials` and `requests` are the tables of contract section 6, `blocks` the recorded facts of
    each launch by block_id. `allow` accepts columns that differ (names or patterns); it is written
    into the answer. `where` limits the cells looked at.

    Raises:
        ConfoundError: the arms differ in more than was declared, or have no cell in common.
        InputError: an arm or the metric is unknown, or nothing was measured.
    """
    known = _with(_metric(metric), allowances or Allowances())
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
    sums = _totals(trials, requests, blocks, matching)
    measured = [
        _measure(trials, requests, sums, i, cell, found, known, tuple(allow))
        for i, (cell, found) in enumerate(zip(matching.cells, guarded, strict=True))
    ]
    cells = judge(measured, known)
    return _assemble(requests, blocks, arms, matching, measured, cells, known, tuple(allow))


def _metric(name: str) -> Metric:
    return metric(name)


def _with(metric: Metric, allowances: Allowances) -> Metric:
    """Put this host's own noise in place of the default; only clocks have a noise floor."""
    if not metric.speed:
        return metric
    return msgspec.structs.replace(
        metric,
        restart=allowances.restart or metric.restart,
        trial=allowances.trial or metric.trial,
    )


def _totals(
    trials: pd.DataFrame, requests: pd.DataFrame, blocks: Blocks, matching: Matching
) -> Totals:
    groups: list[list[str]] = []
    plain: list[bool] = []
    for cell in matching.cells:
        for rows in (cell.rows_a, cell.rows_b):
            table = trials.iloc[list(rows)]
            groups.append(table["trial_id"].astype(str).tolist())
            plain.append(_is_plain(table, blocks))
    return totals(requests, groups, plain)


def _is_plain(table: pd.DataFrame, blocks: Blocks) -> bool:
    """Whether the arm decodes one token a step; the launch says so, else accept_len does."""
    specs = [(blocks.get(str(name)) or {}).get("spec") or {} for name in table["block_id"]]
    said = [spec["speculative"] for spec in specs if "speculative" in spec]
    return not any(said) if said else bool((table["accept_len"] == 1.0).all())


def _measure(
    trials: pd.DataFrame, requests: pd.DataFrame, sums: Totals, index: int, cell: MatchedCell,
    found: tuple[Difference, ...], metric: Metric, allow: tuple[str, ...],
) -> Measured:  # fmt: skip
    a, b = (trials.iloc[list(rows)] for rows in (cell.rows_a, cell.rows_b))
    groups = (2 * index, 2 * index + 1)
    _same_prompts(sums, groups, allow)
    launches = [launches_of(side, metric.name) for side in (a, b)]
    if not all(launches):
        raise InputError(
            f"{metric.name} was not measured in {_words(cell.levels)}",
            hint="choose another --metric",
        )
    this = launch_effect(launches[0], launches[1], restart=metric.restart, trial=metric.trial)
    ids = (frozenset(a["trial_id"].astype(str)), frozenset(b["trial_id"].astype(str)))
    paired = by_prompt(metric, sums, groups, requests, ids)
    such = None
    if paired is not None:
        parts = [_variance(paired[0]), _variance(this)]
        such = effect_of(this.value, parts)
        if not _replicated(launches[0]) and not _replicated(launches[1]):
            # One trial an arm: the noise of requests cannot be told from that of prompts.
            this = such
    held = [d for d in flags_that_withhold(sums, groups, a, b) if d.split(":")[0] not in allow]
    return Measured(
        cell=cell,
        a=a,
        b=b,
        this=this,
        such=such,
        median=median_ratio(paired[1]) if paired is not None else None,
        prompts=prompts_differ(sums, groups)[2],
        doubts=tuple(held),
        differences=found,
    )


def _replicated(launches: Sequence[Sequence[float]]) -> bool:
    return len(launches) > 1 or any(len(launch) > 1 for launch in launches)


def _variance(effect: Effect) -> Variance:
    return Variance(value=effect.se**2, df=max(effect.df, 1e-9))


def _same_prompts(sums: Totals, groups: tuple[int, int], allow: tuple[str, ...]) -> None:
    n_a, n_b, common = prompts_differ(sums, groups)
    if "prompts" in allow or not n_a or not n_b or common >= 0.95 * min(n_a, n_b):
        return
    columns = {"prompts": (f"{n_a} prompts", f"{n_b} prompts, {common} of them the same")}
    raise ConfoundError(
        f"the arms were asked different prompts: {n_a} and {n_b}, {common} in common",
        columns=columns,
        hint="measure both arms with the same dataset and seed, or accept it with --allow prompts",
    )


def _assemble(
    requests: pd.DataFrame, blocks: Blocks, arms: Sequence[Arm],
    matching: Matching, measured: Sequence[Measured], cells: Sequence[CellComparison],
    metric: Metric, allow: tuple[str, ...],
) -> Comparison:  # fmt: skip
    found = list(dict.fromkeys(d for cell in cells for d in cell.differences))
    sides = [pd.concat([m.a for m in measured]), pd.concat([m.b for m in measured])]
    sides = [side.drop_duplicates("trial_id") for side in sides]
    used = pd.concat(sides).reset_index(drop=True)
    return Comparison(
        metric=metric.name,
        better=metric.better,
        a=_summary(arms[0].name, sides[0], requests),
        b=_summary(arms[1].name, sides[1], requests),
        cells=tuple(cells),
        verdict=together(cell.verdict for cell in cells),
        verdict_this_workload=together(cell.verdict_this_workload for cell in cells),
        declared=matching.declared,
        coupled=tuple(d for d in found if d.kind == "coupled"),
        allowed=tuple(d for d in found if d.kind == "allowed"),
        unrecorded=tuple(d for d in found if d.kind == "unrecorded"),
        allow=allow,
        unmatched=matching.unmatched,
        crossovers=_crossovers(measured) if metric.speed and metric.better == "higher" else (),
        ranking=choices(used, blocks, restart=metric.restart, trial=metric.trial),
        restart_allowance=metric.restart.source,
        caveats=_caveats(matching, cells, sides),
    )


def _summary(name: str, side: pd.DataFrame, requests: pd.DataFrame) -> ArmSummary:
    counted = "spec_verify_ct" in requests.columns and "spec_histogram" in requests.columns
    mine = requests[requests["trial_id"].isin(side["trial_id"])] if counted else None
    return ArmSummary(
        name=name,
        lossless=lossless_gate(side),
        launches=int(side["block_id"].nunique()),
        trials=len(side),
        acceptance=profile(mine) if mine is not None else None,
    )


def _crossovers(measured: Sequence[Measured]) -> tuple[Crossover, ...]:
    """Follow each pair of configurations over concurrency; no cell whose verdict is withheld."""
    curves: dict[str, list[Measured]] = {}
    for m in measured:
        fixed = {name: level for name, level in m.cell.levels.items() if name != "concurrency"}
        if not m.doubts and isinstance(m.cell.levels.get("concurrency"), int | float):
            curves.setdefault(repr((fixed, m.cell.own_a, m.cell.own_b)), []).append(m)
    found = [_crossover(curve) for curve in curves.values()]
    return tuple(one for one in found if one is not None)


def _crossover(curve: Sequence[Measured]) -> Crossover | None:
    cell = curve[0].cell
    points = [(float(str(m.cell.levels["concurrency"])), m.such or m.this) for m in curve]
    fixed = {name: level for name, level in cell.levels.items() if name != "concurrency"}
    return crossover(points, levels=fixed, own_a=cell.own_a, own_b=cell.own_b)


def _caveats(
    matching: Matching, cells: Sequence[CellComparison], sides: Sequence[pd.DataFrame]
) -> tuple[str, ...]:
    found = []
    if len(matching.declared) > 1:
        found.append(
            f"{len(matching.declared)} declared factors differ ({', '.join(matching.declared)}):"
            " no attribution to one of them; `specbench isolate` can find which"
        )
    if any(min(cell.launches) == 1 for cell in cells):
        found.append("an arm was launched once: its restart variance is an allowance")
    if any(max(cell.trials) == 1 for cell in cells):
        found.append("one trial an arm: this workload cannot be told from such workloads")
    gates = [lossless_gate(side) for side in sides]
    if "violated" in gates:
        found.append("an arm is not lossless: its speed is shown and not ranked")
    if {"untested", "inconclusive"} & set(gates):
        found.append("losslessness of an arm is not established; `specbench verify` tests it")
    if len(cells) > 1:
        found.append(f"verdicts are corrected for {len(cells)} matched cells (Holm)")
    return tuple(found)


def _words(levels: Levels) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items() if level is not None)
