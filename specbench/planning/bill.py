"""Adds up what a plan costs, and finds the changes that would make it cheap."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from specbench.model.bill import NOTHING, Bill, BillPart, Saving, Source, Span
from specbench.model.host import Host
from specbench.model.matrix import LOAD_FACTORS, Level, Matrix
from specbench.model.plan import Block, Trial
from specbench.planning.durations import Durations, Told, shards_of

HOUR_S = 3600.0
MOST_SAVINGS = 2
MOST_WEIGHED = 5000
"""Trials up to which cheaper plans are looked for."""


@dataclass(frozen=True)
class _Item:
    """A launch or a trial with its time."""

    what: str
    block: Block
    trial: Trial | None
    seconds: Span
    source: Source


def bill(
    blocks: Sequence[Block], matrix: Matrix, hosts: Mapping[str, Host], durations: Durations
) -> Bill:
    """Add up the launches and trials of a plan; without hours where something is unknown."""
    if not blocks:
        return Bill(hours=NOTHING, gpu_hours=NOTHING)
    items, unknown = _items(blocks, durations)
    if unknown:
        return Bill(unknown=unknown)
    by_host: dict[str, Span] = {}
    for item in items:
        host = item.block.host
        by_host[host] = by_host.get(host, NOTHING) + item.seconds.times(1 / HOUR_S)
    gpu_hours, usd = _dear(by_host, blocks, hosts)
    parts = _parts(items)
    return Bill(
        hours=_longest(by_host.values()),
        gpu_hours=gpu_hours,
        usd=usd,
        parts=tuple(parts),
        savings=tuple(_dearest_first(items, parts, matrix)),
    )


def _items(blocks: Sequence[Block], durations: Durations) -> tuple[list[_Item], tuple[str, ...]]:
    """Give every launch and trial its time, and what of them nothing tells."""
    items: list[_Item] = []
    known: dict[tuple[str, str, str], Told | None] = {}
    unknown: dict[str, None] = {}
    for block in blocks:
        load = durations.launch(block)
        if load is None:
            unknown["how long a launch takes: say --launch-minutes"] = None
        else:
            items.append(_Item("launches", block, None, load.seconds, load.source))
        for trial in block.trials:
            key = (block.host, trial.cell.cell_id, trial.kind)
            if key not in known:
                known[key] = durations.trial(trial, block)
            told = known[key]
            if told is None:
                unknown["how fast the model is: say --tok-s, of one stream"] = None
            else:
                items.append(_Item(_name(trial), block, trial, told.seconds, told.source))
    return items, tuple(unknown)


def _name(trial: Trial) -> str:
    """Name the part that a trial belongs to: its load, or verification."""
    if trial.kind == "verify":
        return "verdicts"
    load = [
        f"{name} {trial.cell.levels[name]}"
        for name in sorted(LOAD_FACTORS)
        if trial.cell.levels.get(name) is not None
    ]
    return f"trials at {', '.join(load)}" if load else "trials"


def _longest(hours: Iterable[Span]) -> Span:
    """Hosts work side by side: the slowest of them decides."""
    every = list(hours)
    return Span(
        low=max(one.low for one in every),
        expected=max(one.expected for one in every),
        high=max(one.high for one in every),
    )


def _dear(
    by_host: Mapping[str, Span], blocks: Sequence[Block], hosts: Mapping[str, Host]
) -> tuple[Span, Span | None]:
    """Give GPU-hours, and money where every host has a price."""
    gpu_hours, usd = NOTHING, NOTHING
    priced = True
    for name, hours in by_host.items():
        used = max(shards_of(block) for block in blocks if block.host == name)
        host = hosts[name]
        there = [one.gpus for one in (host, *host.node_hosts) if one.gpus is not None]
        spent = hours.times(sum(there) if there else used)
        gpu_hours = gpu_hours + spent
        priced = priced and host.usd_per_gpu_hour is not None
        usd = usd + spent.times(host.usd_per_gpu_hour or 0.0)
    return gpu_hours, usd if priced else None


def _parts(items: Sequence[_Item]) -> list[BillPart]:
    """Sum by what it is, the largest first."""
    grouped: dict[str, list[_Item]] = {}
    for item in items:
        grouped.setdefault(item.what, []).append(item)
    parts = [
        BillPart(
            what=what,
            hours=sum((one.seconds for one in some), NOTHING).times(1 / HOUR_S),
            count=len(some),
            sources=tuple(sorted({one.source for one in some})),
        )
        for what, some in grouped.items()
    ]
    return sorted(parts, key=lambda part: -part.hours.expected)


def _dearest_first(
    items: Sequence[_Item], parts: Sequence[BillPart], matrix: Matrix
) -> list[Saving]:
    """Give savings in the dearest part, and in the dearest trials where these are launches."""
    found: dict[str, Saving] = {}
    trials = [part for part in parts if part.what.startswith("trials")]
    for part in dict.fromkeys((parts[0], *trials[:1])):
        found |= {saving.line: saving for saving in _savings(items, part, matrix)}
    return list(found.values())


def _savings(items: Sequence[_Item], dearest: BillPart, matrix: Matrix) -> Iterator[Saving]:
    """Yield changes that halve the dearest part, those that drop the fewest trials first.

    Where none does, the largest savings come; of a plan too large to be weighed, none.
    """
    timed = [item for item in items if item.trial is not None and item.trial.kind == "timed"]
    if len(timed) > MOST_WEIGHED:
        return
    found: list[tuple[int, float, float, dict[str, Level]]] = []
    for condition in _conditions(timed, matrix):
        dropped = sum(_meets(item.trial, condition) for item in timed)
        if 0 < dropped < len(timed):
            kept = list(_kept(items, condition))
            part = sum(item.seconds.expected for item in kept if item.what == dearest.what)
            left = sum(item.seconds.expected for item in kept)
            found.append((dropped, left / HOUR_S, part / HOUR_S, condition))
    halving = [one for one in found if one[2] <= dearest.hours.expected / 2]
    best = halving or found
    best.sort(key=(lambda one: one[:2]) if halving else (lambda one: one[1:3]))
    for dropped, left, _, condition in best[:MOST_SAVINGS]:
        text = " and ".join(f"{name} == {_literal(level)}" for name, level in condition.items())
        yield Saving(
            line=f'--only "not ({text})"',
            exclude=text,
            hours_left=left,
            drops=f"{dropped} of {len(timed)} trials",
        )


def _conditions(timed: Sequence[_Item], matrix: Matrix) -> Iterator[dict[str, Level]]:
    """Yield a level of one factor, and levels of two."""
    levels: dict[str, dict[Level, None]] = {}
    for item in timed:
        for name, level in item.trial.cell.levels.items() if item.trial else ():
            if level is not None and (name, level) != ("algorithm", matrix.control):
                levels.setdefault(name, {})[level] = None
    several = {name: list(some) for name, some in levels.items() if len(some) > 1}
    for name, some in several.items():
        yield from ({name: level} for level in some)
    for first, second in combinations(several, 2):
        for one in several[first]:
            yield from ({first: one, second: other} for other in several[second])


def _kept(items: Sequence[_Item], condition: Mapping[str, Level]) -> Iterator[_Item]:
    """Yield what is left without the trials of a condition, and without launches left empty."""
    kept = [item for item in items if not _meets(item.trial, condition)]
    used = {item.block.block_id for item in kept if item.trial is not None}
    for item in kept:
        if item.trial is not None or item.block.block_id in used:
            yield item


def _meets(trial: Trial | None, condition: Mapping[str, Level]) -> bool:
    if trial is None:
        return False
    levels = trial.cell.levels
    return all(levels.get(name) == level for name, level in condition.items())


def _literal(level: Level) -> str:
    match level:
        case bool():
            return "true" if level else "false"
        case str():
            return repr(level)
        case int() | float() | None:
            return str(level)
