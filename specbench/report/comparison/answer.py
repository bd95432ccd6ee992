"""The answer of a comparison, ready to be shown: the sentence, the rows of its table, the notes."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from specbench.analysis.comparison import CellComparison, Comparison, Estimate, Pooled
from specbench.report.cells import REQUEST_SIDE, show_level
from specbench.report.comparison.notes import notes_of
from specbench.report.numbers import ABSENT, show
from specbench.report.statements import Table, count

SHORT = {"temperature": "T", "concurrency": "c"}
"""Heads of the factors that stand in every table; others carry their own name."""

VERDICTS = {"no_difference": "no difference", "mixed": "it depends on the cell"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One matched cell as it is shown.

    `levels` are of both arms, with those that belong to one of them. `low`/`high` is the 95 %
    interval that decides the verdict. `accept_len` and `step_time` are ratios of the second arm to
    the first, None where they were not measured. `withheld` are the flags that withhold a verdict.
    """

    number: int
    levels: Mapping[str, Any]
    value_a: float
    value_b: float
    ratio: float
    low: float
    high: float
    verdict: str
    accept_len: float | None
    step_time: float | None
    launches: tuple[int, int]
    trials: tuple[int, int]
    requests: tuple[int, int]
    prompts: int
    withheld: tuple[str, ...]

    @property
    def known(self) -> bool:
        """Whether the interval is finite."""
        return math.isfinite(self.high) and self.low > 0

    @property
    def interval(self) -> str:
        """The deciding interval as text."""
        return f"[{show(self.low)}, {show(self.high)}]" if self.known else "no interval"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a comparison says: `sentence`, then a row a cell, then at most five notes.

    `varying` are the factors that differ between rows, `fixed` those that do not, with their level.
    """

    a: str
    b: str
    metric: str
    sentence: str
    varying: tuple[str, ...]
    fixed: Mapping[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]


def answer_of(comparison: Comparison) -> Answer:
    """Make the answer of a comparison; its rows are numbered in reading order."""
    comparison = in_reading_order(comparison)
    rows = tuple(_row(number, cell) for number, cell in enumerate(comparison.cells, 1))
    names = list(dict.fromkeys(name for row in rows for name in row.levels))
    levels = {name: {repr(row.levels.get(name)) for row in rows} for name in names}
    varying = [name for name in names if len(levels[name]) > 1]
    return Answer(
        a=comparison.a.name,
        b=comparison.b.name,
        metric=comparison.metric,
        sentence=sentence_of(comparison),
        varying=tuple(_first_asked(varying)),
        fixed={name: rows[0].levels[name] for name in names if name not in varying},
        rows=rows,
        notes=notes_of(comparison),
    )


def in_reading_order(comparison: Comparison) -> Comparison:
    """Sort the cells by what is asked of a server, then by what a server is; numbers rise."""
    names = _first_asked(dict.fromkeys(n for cell in comparison.cells for n in levels_of(cell)))
    return msgspec.structs.replace(
        comparison, cells=tuple(sorted(comparison.cells, key=lambda cell: _places(cell, names)))
    )


def _places(cell: CellComparison, names: list[str]) -> list[tuple[bool, float, str]]:
    levels = levels_of(cell)
    told = [levels.get(name) for name in names]
    return [
        (False, float(one), "") if isinstance(one, int | float) else (True, 0.0, str(one))
        for one in told
    ]


def _first_asked(names: Iterable[str]) -> list[str]:
    """Put what is asked of a server first, temperature before load, then what a server is."""
    known = list(names)
    asked = [name for name in REQUEST_SIDE if name in known and name != "temperature"]
    first = [name for name in ("temperature",) if name in known]
    return [*first, *asked, *(name for name in known if name not in REQUEST_SIDE)]


def _row(number: int, cell: CellComparison) -> Row:
    told = cell.estimate
    parts = cell.decomposition
    return Row(
        number=number,
        levels=levels_of(cell),
        value_a=cell.value_a,
        value_b=cell.value_b,
        ratio=told.ratio,
        low=told.low,
        high=told.high,
        verdict=cell.verdict,
        accept_len=parts.accept_len.ratio if parts else None,
        step_time=parts.step_time_ratio if parts else None,
        launches=cell.launches,
        trials=cell.trials,
        requests=cell.requests,
        prompts=cell.prompts,
        withheld=cell.doubts,
    )


def levels_of(cell: CellComparison) -> dict[str, Any]:
    """Give the levels of a cell: those of both arms; where the arms' own differ, `first/second`."""
    found: dict[str, Any] = dict(cell.levels)
    for name in dict.fromkeys([*cell.own_a, *cell.own_b]):
        first, second = cell.own_a.get(name), cell.own_b.get(name)
        told = [level for level in (first, second) if level is not None]
        if name == "algorithm" or not told:
            continue
        same = len(told) == 1 or first == second
        found[name] = told[0] if same else f"{show_level(first)}/{show_level(second)}"
    return {name: level for name, level in found.items() if level is not None}


def sentence_of(c: Comparison) -> str:
    """Answer the whole question in one sentence: the verdict, the pooled ratio, where it holds."""
    told = c.pooled.estimate
    return f"{_claim(c)}: {_size(told, c)} {_where(c)}."


def _claim(c: Comparison) -> str:
    match c.verdict:
        case "faster" | "slower":
            return f"{c.b.name} is {c.verdict} than {c.a.name}"
        case "higher" | "lower":
            return f"{c.b.name} has a {c.verdict} {c.metric} than {c.a.name}"
        case "no_difference":
            return f"{c.b.name} and {c.a.name} do not differ by more than 2 % in {c.metric}"
        case "mixed":
            return f"{c.b.name} against {c.a.name} depends on the cell"
        case _:
            return f"{c.b.name} against {c.a.name} is inconclusive"


def _size(told: Estimate, c: Comparison) -> str:
    if not math.isfinite(told.ratio):
        return f"no ratio of {c.metric}"
    if not math.isfinite(told.high):
        return f"{show(told.ratio)} times its {c.metric}, without an interval,"
    return f"{show(told.ratio)} times its {c.metric}, 95 % [{show(told.low)}, {show(told.high)}],"


def _where(c: Comparison) -> str:
    if len(c.cells) == 1:
        return "in the one matched cell"
    counts = Counter(VERDICTS.get(str(cell.verdict), str(cell.verdict)) for cell in c.cells)
    split = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    return f"over {_cells(c.pooled)} ({split})"


def _cells(pooled: Pooled) -> str:
    if pooled.withheld:
        total = pooled.cells + pooled.withheld
        return f"{pooled.cells} of {total} matched cells"
    return count(pooled.cells, "matched cell")


def table_of(answer: Answer) -> Table:
    """Give the rows as a table with units, for a page, a notebook or Markdown."""
    return Table(
        heads=(
            *answer.varying,
            f"{answer.metric} of {answer.a}",
            f"of {answer.b}",
            "ratio",
            "95 % interval",
            "verdict",
            "accept_len",
            "step time",
            "launches",
        ),
        rows=tuple(
            (
                *(told_level(row, name) for name in answer.varying),
                show(row.value_a),
                show(row.value_b),
                show(row.ratio),
                row.interval,
                verdict_of(row),
                change(row.accept_len),
                change(row.step_time),
                launches_of(row),
            )
            for row in answer.rows
        ),
        caption=f"{answer.metric} of {answer.b} over {answer.a}, a row a matched cell",
    )


def told_level(row: Row, name: str) -> str:
    """Write a level of a row; a factor that does not apply is a dash."""
    level = row.levels.get(name)
    return ABSENT if level is None else show_level(level)


def verdict_of(row: Row) -> str:
    """Write a row's verdict; a star marks one that a flag withholds."""
    return VERDICTS.get(row.verdict, row.verdict) + ("*" if row.withheld else "")


def change(ratio: float | None) -> str:
    """Write a ratio as a change in per cent, from twice on as a factor."""
    if ratio is None or not math.isfinite(ratio):
        return ABSENT
    return f"x{show(ratio)}" if ratio >= 2 else f"{round(100 * (ratio - 1)):+d}%"


def launches_of(row: Row) -> str:
    """Write how many launches each arm had; one number where both had as many."""
    a, b = row.launches
    return str(a) if a == b else f"{a}+{b}"
