"""Compare imported rows: ratios in matched rows, refused where definitions do not allow them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from specbench.errors import ConfoundError, InputError
from specbench.expressions.expression import parse
from specbench.interchange.definitions import DEFINITIONS
from specbench.interchange.rows import Figure, ImportedRow, Level, may_stand_together
from specbench.stats.effect import Variance, effect_of

IGNORED = ("run", "label", "tag", "variation")
"""What names a row and is no setting of the run."""


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of both sides with equal settings: geometric means and their ratio b / a.

    `low` and `high` bound the ratio at 95 %; None where a side has fewer than two rows.
    """

    settings: dict[str, Level]
    rows: tuple[int, int]
    a: float
    b: float
    ratio: float
    low: float | None = None
    high: float | None = None


class ImportedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What was compared, under which definitions, and what a reader has to know about it."""

    schema: int = 1
    a: str
    b: str
    metric: str
    definitions: tuple[str, str]
    matched: tuple[Matched, ...]
    provisos: tuple[str, ...] = ()


Measured = list[tuple[ImportedRow, Figure]]


def compare_rows(
    a_rows: Sequence[ImportedRow],
    b_rows: Sequence[ImportedRow],
    a: str,
    b: str,
    metric: str,
    allow: Sequence[str] = (),
) -> ImportedComparison:
    """Compare arm `b` of some rows with arm `a` of others.

    Raises:
        InputError: no such arm, no such figure, or two definitions (the message says which side).
        ConfoundError: no rows have equal settings.
    """
    left = _measured(_side(a_rows, a), a, metric)
    right = _measured(_side(b_rows, b), b, metric)
    _refuse(left, right, a, b, metric)
    named = {*_names(a), *_names(b), *IGNORED, *allow}
    matched = _matched(left, right, named)
    if not matched:
        raise ConfoundError(
            "no rows of the two arms have equal settings",
            columns=_differing(left, right, named),
            hint=_told(_differing(left, right, named)) + "; --allow COLUMN accepts a difference",
        )
    used = sorted({figure.definition for _, figure in (*left, *right)})
    return ImportedComparison(
        a=a,
        b=b,
        metric=metric,
        definitions=(left[0][1].definition, right[0][1].definition),
        matched=tuple(matched),
        provisos=(
            *(f"{name}: {DEFINITIONS[name].proviso}" for name in used if DEFINITIONS[name].proviso),
            *_told_by_one(left, right, named),
        ),
    )


def _known(row: ImportedRow) -> dict[str, Level]:
    return {**row.levels, "source_tool": row.tool, "path": row.path}


def _side(rows: Sequence[ImportedRow], text: str) -> list[ImportedRow]:
    algorithms = {str(row.levels.get("algorithm", "")).lower() for row in rows} - {""}
    select = _selector(text, rows)
    chosen = [row for row in rows if select(_known(row))]
    if not chosen:
        raise InputError(
            f"no imported row is {text!r}",
            hint=f"algorithms: {', '.join(sorted(algorithms)) or 'none is named in the files'};"
            " or an expression over columns of rows.csv, as \"source_tool == 'aiperf'\"",
        )
    return chosen


def _selector(text: str, rows: Sequence[ImportedRow]) -> Callable[[Mapping[str, Any]], bool]:
    if text.replace("-", "_").isidentifier():
        wanted = text.lower()
        return lambda known: (
            wanted
            in (
                str(known.get("algorithm", "")).lower(),
                str(known.get("label", "")).lower(),
            )
        )
    expression = parse(text)
    expression.check_names(sorted({name for row in rows for name in _known(row)}))
    return expression.holds


def _names(text: str) -> set[str]:
    if text.replace("-", "_").isidentifier():
        return {"algorithm", "label"}
    return {name for name, _ in parse(text).names}


def _measured(rows: Sequence[ImportedRow], arm: str, metric: str) -> Measured:
    found = [(row, figure) for row in rows if (figure := row.figure(metric)) is not None]
    if found:
        return found
    there = sorted({figure.column for row in rows for figure in row.figures if figure.column})
    raise InputError(
        f"no row of {arm!r} has {metric}", hint=f"it has: {', '.join(there) or 'no known column'}"
    )


def _refuse(left: Measured, right: Measured, a: str, b: str, metric: str) -> None:
    for one, ours in left:
        for other, theirs in right:
            why = may_stand_together(ours, theirs)
            if why:
                raise InputError(
                    f"{metric} of {a!r} ({one.tool}) and of {b!r} ({other.tool}) are not the same"
                    f" quantity: {why}",
                    where=f"{one.path} and {other.path}",
                    hint="compare a metric that both define alike (`definition_id` in figures.csv)",
                )


def _settings(row: ImportedRow, shared: set[str]) -> tuple[tuple[str, Level], ...]:
    return tuple((name, row.levels[name]) for name in sorted(shared) if name in row.levels)


def _shared(left: Measured, right: Measured, named: set[str]) -> set[str]:
    """Name the settings that both sides tell; what one side does not tell cannot be matched."""
    sides = [{name for row, _ in side for name in row.levels} for side in (left, right)]
    return (sides[0] & sides[1]) - named


def _told_by_one(left: Measured, right: Measured, named: set[str]) -> list[str]:
    """Say which settings could not be checked, because one side alone tells them."""
    sides = [{name for row, _ in side for name in row.levels} for side in (left, right)]
    names = sorted((sides[0] ^ sides[1]) - named)
    return [f"not checked, for one side alone tells it: {', '.join(names)}"] if names else []


def _matched(left: Measured, right: Measured, named: set[str]) -> list[Matched]:
    shared = _shared(left, right, named)
    groups: list[dict[tuple[tuple[str, Level], ...], list[float]]] = []
    for side in (left, right):
        values: dict[tuple[tuple[str, Level], ...], list[float]] = {}
        for row, figure in side:
            if figure.value > 0:
                values.setdefault(_settings(row, shared), []).append(math.log(figure.value))
        groups.append(values)
    return [_of(dict(key), groups[0][key], groups[1][key]) for key in groups[0] if key in groups[1]]


def _of(settings: dict[str, Level], a: list[float], b: list[float]) -> Matched:
    means = [sum(side) / len(side) for side in (a, b)]
    low = high = None
    if min(len(a), len(b)) > 1:
        parts = [_variance(side) for side in (a, b)]
        effect = effect_of(means[1] - means[0], parts)
        low, high = (math.exp(bound) for bound in effect.interval(0.95))
    return Matched(
        settings=settings,
        rows=(len(a), len(b)),
        a=math.exp(means[0]),
        b=math.exp(means[1]),
        ratio=math.exp(means[1] - means[0]),
        low=low,
        high=high,
    )


def _variance(logs: list[float]) -> Variance:
    mean = sum(logs) / len(logs)
    square = sum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    return Variance(value=square / len(logs), df=len(logs) - 1)


def _differing(left: Measured, right: Measured, named: set[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for name in sorted(_shared(left, right, named)):
        sides = [{str(row.levels.get(name)) for row, _ in side} for side in (left, right)]
        if sides[0] != sides[1]:
            found[name] = (", ".join(sorted(sides[0])), ", ".join(sorted(sides[1])))
    return found


def _told(columns: dict[str, tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {a} and {b}" for name, (a, b) in columns.items())
