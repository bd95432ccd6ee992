"""What can be said about speed: ratios with intervals, crossovers, where the time went."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specbench.model.matrix import LOAD_FACTORS
from specbench.report import cells, flags
from specbench.report.cells import cell_rows
from specbench.report.checklist import Item
from specbench.report.inputs import Evidence
from specbench.report.numbers import between, show, times
from specbench.report.speedups import SpeedUp
from specbench.report.statements import Section, Statement, Table, count, listed

MIN_LAUNCHES_NOTE = 2
MAX_SENTENCES = 24
"""Cells above which each cell's sentence is left to the table, and only groups get one."""


OF_SPEED = frozenset({"C5", "C9", "M4", "M6", "M8", "M13", "M14", "M15", "M16", "M17", "O9"})
"""Mistakes that bend a speed; launches and intervals stand in each sentence anyway."""

WHOLE_RUN = "C9"
"""The mistake that questions every comparison of a run, whatever its rows."""


def section(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Section:
    """Say which arms are faster than their control, by how much, and up to which load."""
    statements = [*_ratios(evidence, pairs, items), *_crossovers(evidence, pairs, items)]
    return Section(
        anchor="speed",
        title="Is it faster?",
        intro=f"Each ratio is of tok_s over the control `{evidence.control}` at equal levels of"
        " every other factor, judged by the rate of the steady window; its 95 % interval decides"
        " and holds in all cells of the comparison together.",
        statements=tuple(statements),
        tables=(_table(pairs),) if pairs else (),
        plots=("speedup", "per_user", "pareto"),
        lead=True,
    )


def flags_on(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> str:
    """Name, for a sentence about comparisons, the found mistakes that hit its rows."""
    compared = {cell for pair in pairs for cell in (pair.cell_id, str(pair.control_id))}
    trials = evidence.trials[evidence.trials["cell_id"].isin(list(compared))]
    own = compared | {str(trial) for trial in trials["trial_id"]}
    raised = cells.flags_of(trials["flags"])
    told = []
    for item in items:
        hit = not own.isdisjoint(item.answer.rows) or item.pitfall.id == WHOLE_RUN
        if item.answer.state == "found" and item.pitfall.id in OF_SPEED and hit:
            guards = flags.with_pitfall(item.pitfall.id)
            named = [f"`{flag}`" for flag in raised if flag in guards] or [item.pitfall.mistake]
            told.append(f"{', '.join(named)} ({item.pitfall.id})")
    return f"; flags: {listed(told)}" if told else ""


def _ratios(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Iterator[Statement]:
    decided = [pair for pair in pairs if pair.decided]
    for pair in decided if len(decided) <= MAX_SENTENCES else ():
        yield _claim(evidence, pair, items)
    equal = [pair for pair in pairs if pair.verdict == "no_difference" and not pair.lossy]
    if equal:
        yield Statement(
            kind="claim",
            text=f"{count(len(equal), 'cell')} as fast as `{evidence.control}`: the whole 90 %"
            f" interval lies within 2 % (n = {sum(p.n_trials for p in equal)} trials"
            f"{flags_on(evidence, equal, items)}):"
            f" {listed([pair.label for pair in equal])}.",
            rows=tuple(pair.cell_id for pair in equal),
        )
    yield from _withheld(pairs)
    if not pairs:
        yield Statement(
            kind="withheld", text="No speed-up is claimed: no speculative cell was measured."
        )


def _withheld(pairs: list[SpeedUp]) -> Iterator[Statement]:
    """Say for which cells no claim is made, and why; equal reasons are said once."""
    reasons: dict[str, list[SpeedUp]] = defaultdict(list)
    for pair in pairs:
        if pair.lossy or not (pair.decided or pair.verdict == "no_difference"):
            reasons[_reason(pair)].append(pair)
    for reason, mine in reasons.items():
        needed = [pair.launches_needed for pair in mine if pair.launches_needed]
        undecided = len(needed) == len(mine) and not any(pair.lossy for pair in mine)
        more = f" {max(needed)} launches of each arm would likely decide." if undecided else ""
        yield Statement(
            kind="withheld",
            text=f"No speed-up is claimed for {count(len(mine), 'cell')}"
            f" ({listed([pair.label for pair in mine], most=3)}): {reason}.{more}",
            rows=tuple(pair.cell_id for pair in mine),
        )


def _reason(pair: SpeedUp) -> str:
    told = ["its output is not lossless"] if pair.lossy else []
    if pair.withheld:
        told += pair.withheld
    elif pair.low is None:
        told.append(pair.reason)
    elif not pair.lossy:
        told.append(_undecided(pair))
    return "; ".join(one for one in told if one)


def _undecided(pair: SpeedUp) -> str:
    """Say why a sound cell is not decided; the size that would be found differs by cell."""
    return pair.reason.split(";", maxsplit=1)[0] or "the 95 % interval spans 1"


def _claim(evidence: Evidence, pair: SpeedUp, items: list[Item]) -> Statement:
    word = "faster" if (pair.ratio or 0) > 1 else "slower"
    resting = (
        ""
        if pair.n_launches > MIN_LAUNCHES_NOTE
        else ("; one launch on each arm, so a slow launch cannot be told from a slow arm")
    )
    return Statement(
        kind="claim",
        text=f"{pair.label} is {word} than `{evidence.control}`: {times(pair.ratio)} of its tok_s,"
        f" 95 % interval {between(pair.low or 0, pair.high or 0)} (n ="
        f" {count(pair.n_trials, 'trial')} in {count(pair.n_launches, 'launch', 'launches')}"
        f"{resting}{flags_on(evidence, [pair], items)}).",
        rows=(pair.cell_id, str(pair.control_id)),
    )


def _crossovers(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Iterator[Statement]:
    for (server, asked), series in _by_server(pairs).items():
        load = "concurrency" if series[0].levels.get("concurrency") is not None else "rate"
        decided = sorted((p for p in series if p.decided), key=lambda p: p.levels[load])
        gains = [p for p in decided if (p.ratio or 0) > 1]
        losses = [p for p in decided if (p.ratio or 0) < 1]
        where = f"{server}{asked}"
        if gains and losses and gains[-1].levels[load] < losses[0].levels[load]:
            low, high = gains[-1], losses[0]
            yield Statement(
                kind="claim",
                text=f"{where}: the advantage ends between {load}"
                f" {cells.show_level(low.levels[load])} ({times(low.ratio)}"
                f" {between(low.low or 0, low.high or 0)}) and"
                f" {cells.show_level(high.levels[load])} ({times(high.ratio)}"
                f" {between(high.low or 0, high.high or 0)}; n ="
                f" {count(low.n_trials + high.n_trials, 'trial')}"
                f"{flags_on(evidence, [low, high], items)}).",
                rows=(low.cell_id, high.cell_id),
            )
        elif len(series) > 1 and gains and len(gains) == len(series):
            last = gains[-1]
            yield Statement(
                kind="claim",
                text=f"{where}: faster at all {len(series)} measured levels of {load}; the last is"
                f" {cells.show_level(last.levels[load])} ({times(last.ratio)}"
                f" {between(last.low or 0, last.high or 0)}; n ="
                f" {count(last.n_trials, 'trial')}{flags_on(evidence, gains, items)})."
                " Beyond it nothing was measured.",
                rows=tuple(pair.cell_id for pair in gains),
            )


def _by_server(pairs: list[SpeedUp]) -> dict[tuple[str, str], list[SpeedUp]]:
    """Group comparisons that differ in load only."""
    matched = [pair for pair in pairs if pair.control_id is not None]
    names = sorted(
        {
            n
            for p in matched
            for n in p.levels
            if len({q.levels.get(n) for q in matched} - {None}) > 1
        },
        key=lambda name: name != "algorithm",
    )
    groups: dict[tuple[str, str], list[SpeedUp]] = defaultdict(list)
    for pair in matched:
        server = cells.server_label(
            pair.levels, ["algorithm", *(n for n in names if n not in cells.REQUEST_SIDE)]
        )
        asked = "".join(
            f", {name} {cells.show_level(pair.levels[name])}"
            for name in names
            if name in cells.REQUEST_SIDE and name not in LOAD_FACTORS
        )
        groups[server, asked].append(pair)
    return groups


def _table(pairs: list[SpeedUp]) -> Table:
    return Table(
        heads=("cell", "speed-up", "95 % interval", "accept_len", "step time",
               "trials", "launches", "remark"),
        rows=tuple(
            (
                pair.label,
                times(pair.ratio) + (cells.NOT_LOSSLESS if pair.lossy and pair.ratio else ""),
                between(pair.low, pair.high) if pair.low is not None and pair.high else None,
                times(pair.accept_ratio),
                times(pair.step_ratio),
                pair.n_trials or None,
                pair.n_launches or None,
                "" if pair.decided else (_reason(pair) or pair.verdict.replace("_", " ")),
            )
            for pair in pairs
        ),
        caption="Ratios to the control: the speed-up, and what it is made of",
        keys=tuple(f"pair-{pair.cell_id}" for pair in pairs),
    )  # fmt: skip


def decomposition(evidence: Evidence, pairs: list[SpeedUp], items: list[Item]) -> Section:
    """Say where a speed-up came from, and where acceptance was lost again."""
    statements = []
    told = [pair for pair in pairs if pair.accept_ratio and pair.step_ratio and pair.ratio]
    for pair in told if len(told) <= MAX_SENTENCES else _lost(told):
        if pair.accept_ratio is None or pair.step_ratio is None:
            continue
        outcome = (
            f"{times(pair.ratio)} {between(pair.low or 0, pair.high or 0)}"
            if pair.low is not None
            else f"{times(pair.ratio)} without an interval"
        )
        sound = pair.low is not None and not pair.lossy and not pair.withheld
        hit = flags_on(evidence, [pair], items) if sound else ""
        asides = (["not lossless"] if pair.lossy else []) + list(pair.withheld)
        aside = f" No claim: {'; '.join(asides)}." if asides else ""
        lost = " The longer step ate the gain." if _ate(pair) else ""
        statements.append(
            Statement(
                kind="claim" if sound else "fact",
                text=f"{pair.label}: accept_len {times(pair.accept_ratio)} of the control's, step"
                f" time {times(pair.step_ratio)}; their quotient is"
                f" {times(pair.accept_ratio / pair.step_ratio)}, and tok_s came to {outcome}"
                f" (n = {count(pair.n_trials, 'trial')}{hit}).{lost}{aside}",
                rows=(pair.cell_id, str(pair.control_id)),
            )
        )
    return Section(
        anchor="decomposition",
        title="Where the speed comes from",
        intro="At equal concurrency, tok_s is about accept_len divided by the time of a step."
        " What is left over is queueing, prefill and the ends of the run.",
        statements=tuple(statements),
        plots=("decomposition",) if statements else (),
        lead=True,
    )


def _lost(pairs: list[SpeedUp]) -> list[SpeedUp]:
    """Keep the cells whose acceptance did not become speed: those need a sentence."""
    return [pair for pair in pairs if _ate(pair)]


def _ate(pair: SpeedUp) -> bool:
    """Whether a gain in acceptance is known not to have become speed."""
    decided = pair.verdict in {"slower", "no_difference"}
    return decided and (pair.accept_ratio or 0) > 1.05


MAX_CURVES = 6
"""Curves above which those that go on rising share one sentence."""


def capacity(evidence: Evidence) -> Section:
    """Say the highest throughput that was measured, and whether it was still rising."""
    lossy = cells.not_lossless(evidence.trials)
    peaks = [_peak(label, series) for label, series in _curves(evidence) if len(series) > 1]
    rising = [peak for peak in peaks if peak.rising]
    told = [peak.statement(lossy) for peak in peaks if len(peaks) <= MAX_CURVES or not peak.rising]
    if rising and len(peaks) > MAX_CURVES:
        told.append(
            Statement(
                kind="fact",
                text=f"{len(rising)} of {count(len(peaks), 'curve')} of throughput over concurrency"
                " are highest at the highest level measured, so their limits were not reached.",
                rows=tuple(str(peak.best["cell_id"]) for peak in rising),
            )
        )
    table = Table(
        heads=("server and request", "highest mean tok/s", "at concurrency", "measured up to",
               "trials", "limit"),
        rows=tuple(peak.row(lossy) for peak in peaks),
        caption="Highest mean throughput over all measured concurrencies",
        keys=tuple(f"peak-{peak.best['cell_id']}" for peak in peaks),
    )  # fmt: skip
    return Section(
        anchor="capacity", title="Capacity and latency", statements=tuple(told),
        tables=(table,) if peaks else (), plots=("latency",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Peak:
    """The cell of a curve over concurrency with the highest mean tok_s."""

    label: str
    best: dict[str, Any]
    top: Any

    @property
    def rising(self) -> bool:
        return bool(self.best["concurrency"] == self.top)

    def speed(self, lossy: frozenset[str], unit: str = "") -> str:
        marked = cells.NOT_LOSSLESS if self.best["cell_id"] in lossy else ""
        return f"{show(self.best['tok_s'])}{unit}{marked}"

    def statement(self, lossy: frozenset[str]) -> Statement:
        best = self.best
        limit = (
            "the highest level measured, so its limit was not reached"
            if self.rising
            else f"higher levels were measured up to {cells.show_level(self.top)}"
        )
        return Statement(
            kind="fact",
            text=f"{self.label}: the highest mean throughput is {self.speed(lossy, ' tok/s')}, at"
            f" concurrency {cells.show_level(best['concurrency'])} (n ="
            f" {count(best['trials'], 'trial')}); {limit}.",
            rows=(best["cell_id"],),
        )

    def row(self, lossy: frozenset[str]) -> tuple[Any, ...]:
        return (
            self.label, self.speed(lossy),
            cells.show_level(self.best["concurrency"]), cells.show_level(self.top),
            self.best["trials"], "not reached" if self.rising else "reached",
        )  # fmt: skip


def _curves(evidence: Evidence) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Group measured cells that differ in concurrency only."""
    names = [n for n in cells.varying(evidence.trials) if n not in LOAD_FACTORS]
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in cell_rows(evidence):
        if row["tok_s"] and row.get("concurrency") is not None:
            groups[cells.cell_label(row, ["algorithm", *names])].append(row)
    yield from groups.items()


def _peak(label: str, series: list[dict[str, Any]]) -> _Peak:
    return _Peak(
        label=label,
        best=max(series, key=lambda row: row["tok_s"]),
        top=max(row["concurrency"] for row in series),
    )
