"""A comparison's table on a terminal: as wide as it is, without wrapping a row."""

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specbench.report.cells import show_level
from specbench.report.comparison.answer import (
    SHORT,
    Answer,
    Row,
    change,
    launches_of,
    told_level,
    verdict_of,
)
from specbench.report.numbers import show

COLUMNS = 100
"""Width where none is known, and the narrowest at which the quickstart's table is whole."""

BAR = 9
NARROWEST = 40
INDENT = "  "
GAPS = (2, 1)
"""Blanks between columns: fewer before a column is left out."""


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Where text goes: its width in columns, and whether it takes more than ASCII."""

    columns: int = COLUMNS
    unicode: bool = True


def screen() -> Screen:
    """Look at standard output: a terminal's width, COLUMNS, else 100 columns."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    columns = shutil.get_terminal_size((COLUMNS, 24)).columns if known else COLUMNS
    try:
        "\N{BLACK CIRCLE}\N{EN DASH}".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return Screen(columns=max(columns, NARROWEST), unicode=False)
    return Screen(columns=max(columns, NARROWEST))


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column; the one with the lowest `rank` goes first where room is short (0: stays)."""

    head: str
    values: tuple[str, ...]
    rank: int = 0
    left: bool = False

    @property
    def width(self) -> int:
        """Columns of the terminal that it takes."""
        return max(len(self.head), *(len(value) for value in self.values))


def text_of(answer: Answer, on: Screen) -> Iterator[str]:
    """Yield the sentence, the table and the notes, none wider than the screen."""
    yield from textwrap.wrap(_plain(answer.sentence, on), on.columns)
    if answer.fixed:
        fixed = ", ".join(f"{name} {show_level(level)}" for name, level in answer.fixed.items())
        yield from textwrap.wrap(_plain(f"everywhere: {fixed}", on), on.columns)
    yield ""
    for line in _table(answer, on):
        yield _plain(line.rstrip(), on)
    yield ""
    for note in answer.notes:
        yield from textwrap.wrap(
            _plain(note, on), on.columns, subsequent_indent=INDENT, break_on_hyphens=False
        )


def _plain(text: str, on: Screen) -> str:
    """Write a line as the screen can; an en dash is a hyphen in ASCII."""
    if on.unicode:
        return text
    return text.replace("\N{EN DASH}", "-").encode("ascii", "replace").decode()


def _table(answer: Answer, on: Screen) -> Iterator[str]:
    fitting = _fitting(_columns(answer, on), on.columns)
    if fitting is None:
        yield from _stacked(answer, on)
        return
    columns, gap = fitting
    yield gap.join(_padded(column, column.head) for column in columns)
    for number in range(len(answer.rows)):
        yield gap.join(_padded(column, column.values[number]) for column in columns)


def _padded(column: Column, text: str) -> str:
    return text.ljust(column.width) if column.left else text.rjust(column.width)


def _columns(answer: Answer, on: Screen) -> list[Column]:
    rows = answer.rows
    names = {name: SHORT.get(name, name) for name in answer.varying}
    measured = any(row.accept_len is not None for row in rows)
    made_of = [
        Column(head="accept", values=tuple(change(row.accept_len) for row in rows), rank=5),
        Column(head="step", values=tuple(change(row.step_time) for row in rows), rank=6),
    ]
    return [
        Column(head="#", values=tuple(str(row.number) for row in rows), rank=4),
        *(
            Column(head=names[name], values=tuple(told_level(row, name) for row in rows))
            for name in answer.varying
        ),
        Column(head=_cut(answer.a), values=tuple(show(row.value_a) for row in rows), rank=3),
        Column(head=_cut(answer.b), values=tuple(show(row.value_b) for row in rows), rank=3),
        Column(head="ratio", values=tuple(show(row.ratio) for row in rows)),
        Column(head="95 %", values=tuple(row.interval for row in rows), left=True),
        Column(head=_axis(rows), values=tuple(bars(rows, BAR, on)), rank=1, left=True),
        Column(head="verdict", values=tuple(verdict_of(row) for row in rows), left=True),
        *(made_of if measured else ()),
        Column(head="n", values=tuple(launches_of(row) for row in rows), rank=2),
    ]


def _cut(name: str, most: int = 10) -> str:
    return name if len(name) <= most else name[: most - 2] + ".."


def _fitting(columns: list[Column], width: int) -> tuple[list[Column], str] | None:
    """Leave columns out, least needed first, until the rest fits; None where it never does."""
    kept = list(columns)
    while kept:
        for gap in GAPS:
            if sum(column.width for column in kept) + gap * (len(kept) - 1) <= width:
                return kept, " " * gap
        ranks = [column.rank for column in kept if column.rank]
        if not ranks:
            break
        kept = [column for column in kept if column.rank != min(ranks)]
    return None


def _stacked(answer: Answer, on: Screen) -> Iterator[str]:
    """Give each row its levels on one line and its figures on the next."""
    for row in answer.rows:
        levels = levels_text(row, answer.varying)
        yield from textwrap.wrap(f"#{row.number} {levels}", on.columns)
        yield f"{INDENT}{show(row.ratio)} {row.interval} {verdict_of(row)}"[: on.columns]


def levels_text(row: Row, names: Sequence[str]) -> str:
    """Write a row's levels of some factors on one line."""
    return " ".join(
        f"{SHORT.get(name, name)}={show_level(row.levels.get(name))}"
        for name in names
        if row.levels.get(name) is not None
    )


def _scale(rows: Sequence[Row]) -> tuple[float, float]:
    """Give the ends of the bars' common axis, logarithms of ratios; 1 is always on it."""
    ends = [math.log(end) for row in rows if row.known for end in (row.low, row.high)]
    points = [math.log(row.ratio) for row in rows if math.isfinite(row.ratio) and row.ratio > 0]
    low, high = min([0.0, *ends, *points]), max([0.0, *ends, *points])
    return (low, high) if high > low else (-0.1, 0.1)


def _axis(rows: Sequence[Row]) -> str:
    low, high = _scale(rows)
    left, right = f"{math.exp(low):.2g}", f"{math.exp(high):.2g}"
    return left + right.rjust(BAR - len(left))


def bars(rows: Sequence[Row], width: int, on: Screen) -> Iterator[str]:
    """Draw each row's interval on one common logarithmic axis, with a line where the ratio is 1."""
    low, high = _scale(rows)
    one, line, point = "\N{BOX DRAWINGS LIGHT VERTICAL}\N{BOX DRAWINGS LIGHT HORIZONTAL}\u25cf"
    if not on.unicode:
        one, line, point = "|-o"

    def at(ratio: float) -> int:
        return round((math.log(ratio) - low) / (high - low) * (width - 1))

    for row in rows:
        cells = [" "] * width
        if row.known:
            cells[at(row.low) : at(row.high) + 1] = line * (at(row.high) - at(row.low) + 1)
        cells[at(1.0)] = one
        if math.isfinite(row.ratio) and row.ratio > 0:
            cells[at(row.ratio)] = point
        yield "".join(cells)
