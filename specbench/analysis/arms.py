"""Arms and matched cells: which trials stand on which side, and what is held equal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from specbench.errors import ConfoundError, InputError, nearest
from specbench.expressions.expression import parse
from specbench.model.matrix import LOAD_FACTORS, REQUEST_FACTORS, Level

Levels = dict[str, Level]


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One side: a predicate over a trial's levels, and the factors that it names.

    Besides the factors the predicate sees `host` and, where two recordings are compared,
    `recording`.
    """

    name: str
    select: Callable[[Mapping[str, Any]], bool]
    names: frozenset[str]


class MatchedCell(msgspec.Struct, frozen=True, kw_only=True):
    """Trials of both arms with equal levels in everything that is held equal.

    `own_a` and `own_b` are levels of factors that only that arm has or that were declared;
    `rows_a` and `rows_b` are row positions in the table of trials.
    """

    levels: Levels
    own_a: Levels
    own_b: Levels
    rows_a: tuple[int, ...]
    rows_b: tuple[int, ...]


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """All matched cells; `declared` factors may differ; `unmatched` says what stands alone."""

    cells: tuple[MatchedCell, ...]
    declared: tuple[str, ...]
    unmatched: tuple[str, ...]


def factor_columns(trials: pd.DataFrame) -> list[str]:
    """Return the factors: by contract the columns before `cell_id`."""
    columns = list(map(str, trials.columns))
    if "cell_id" not in columns:
        raise InputError("this is no table of trials: it has no column cell_id")
    return columns[: columns.index("cell_id")]


def arm(text: str, trials: pd.DataFrame) -> Arm:
    """Read an arm: the name of an algorithm, or an expression over factors.

    Raises:
        InputError: no such algorithm or factor (with the nearest one), or a wrong expression.
    """
    algorithms = _algorithms(trials)
    if text in algorithms:
        return Arm(
            name=text,
            select=lambda levels: levels.get("algorithm") == text,
            names=frozenset({"algorithm"}),
        )
    if text.replace("-", "_").isidentifier():
        raise InputError(
            f"no trial of algorithm {text!r}", hint=nearest(text, algorithms, noun="algorithms")
        )
    expression = parse(text)
    expression.check_names([*factor_columns(trials), "host", "recording"])
    return Arm(
        name=text,
        select=expression.holds,
        names=frozenset(name for name, _ in expression.names),
    )


def match(trials: pd.DataFrame, a: Arm, b: Arm, *, allow: Iterable[str] = ()) -> Matching:
    """Pair the arms' trials cell by cell; only finished trials count.

    Launch factors that an arm names may differ. Load and request factors (concurrency,
    temperature, ...) and the host are always held equal unless `allow` lists them: accept_len at
    concurrency 1 says nothing about accept_len at concurrency 64.

    Raises:
        InputError: an arm has no finished trial, or both arms are the same trials.
        ConfoundError: no cell is common to the arms; the columns that differ are named.
    """
    rows = level_rows(trials)
    side_a, side_b = _side(rows, a), _side(rows, b)
    if set(side_a) & set(side_b):
        raise InputError(
            "both arms select the same trials",
            hint="name two algorithms, or expressions that exclude each other",
        )
    factors = [*factor_columns(trials), "host"]
    declared = _declared(factors, a, b, set(allow))
    own = {f for f in factors if f in declared or _one_sided(rows, f, side_a, side_b)}
    held = [f for f in factors if f not in own]
    groups_a, groups_b = (_grouped(rows, side, held, own) for side in (side_a, side_b))
    cells = tuple(
        MatchedCell(
            levels=dict(zip(held, key, strict=True)),
            own_a=dict(own_a),
            own_b=dict(own_b),
            rows_a=tuple(groups_a[key][own_a]),
            rows_b=tuple(groups_b[key][own_b]),
        )
        for key in groups_a
        if key in groups_b
        for own_a in groups_a[key]
        for own_b in groups_b[key]
    )
    if not cells:
        raise _nothing_matches(rows, held, side_a, side_b, a, b)
    unmatched = (*_alone(a, held, groups_a, groups_b), *_alone(b, held, groups_b, groups_a))
    used = tuple(sorted(f for f in declared if _differs(rows, f, side_a, side_b)))
    return Matching(cells=cells, declared=used, unmatched=unmatched)


def with_plain_texts(trials: pd.DataFrame) -> pd.DataFrame:
    """Hold texts as plain objects: rows are picked hundreds of times, which Arrow is slow at."""
    texts = [name for name, kind in trials.dtypes.items() if isinstance(kind, pd.StringDtype)]
    return trials.astype(dict.fromkeys(texts, object)) if texts else trials


def level_rows(trials: pd.DataFrame) -> list[Levels]:
    """Return the levels of each trial; NaN becomes None, a whole float an integer."""
    names = [*factor_columns(trials), "host", "status"]
    names += [name for name in ("recording",) if name in trials.columns]
    columns = [[_level(value) for value in trials[name].tolist()] for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _level(value: Any) -> Level:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _algorithms(trials: pd.DataFrame) -> list[str]:
    if "algorithm" not in trials.columns:
        return []
    return sorted({str(name) for name in trials["algorithm"].dropna()})


def _side(rows: Sequence[Levels], arm: Arm) -> list[int]:
    chosen = [i for i, levels in enumerate(rows) if arm.select(levels)]
    finished = [i for i in chosen if rows[i]["status"] == "ok"]
    if not chosen:
        raise InputError(f"arm {arm.name!r} selects no trial")
    if not finished:
        raise InputError(f"arm {arm.name!r}: none of its {len(chosen)} trials finished")
    return finished


def _declared(factors: Sequence[str], a: Arm, b: Arm, allow: set[str]) -> set[str]:
    loads = LOAD_FACTORS | REQUEST_FACTORS | {"host"}
    named = {f for f in a.names | b.names if f not in loads}
    return {f for f in factors if f in named or f in allow}


def _values(rows: Sequence[Levels], factor: str, side: Sequence[int]) -> set[Level]:
    return {rows[i][factor] for i in side}


def _differs(rows: Sequence[Levels], factor: str, a: Sequence[int], b: Sequence[int]) -> bool:
    return _values(rows, factor, a) != _values(rows, factor, b)


def _one_sided(rows: Sequence[Levels], factor: str, a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether the factor does not apply to one of the arms, so that it cannot be held equal."""
    nothing: set[Level] = {None}
    return (_values(rows, factor, a) == nothing) != (_values(rows, factor, b) == nothing)


def _grouped(
    rows: Sequence[Levels], side: Sequence[int], held: Sequence[str], own: set[str]
) -> dict[tuple[Level, ...], dict[tuple[tuple[str, Level], ...], list[int]]]:
    groups: dict[tuple[Level, ...], dict[tuple[tuple[str, Level], ...], list[int]]] = {}
    for i in side:
        key = tuple(rows[i][f] for f in held)
        variant = tuple((f, rows[i][f]) for f in sorted(own) if rows[i][f] is not None)
        groups.setdefault(key, {}).setdefault(variant, []).append(i)
    return groups


def _nothing_matches(
    rows: Sequence[Levels], held: Sequence[str], side_a: Sequence[int], side_b: Sequence[int],
    a: Arm, b: Arm,
) -> ConfoundError:  # fmt: skip
    columns = {
        f: (_shown(_values(rows, f, side_a)), _shown(_values(rows, f, side_b)))
        for f in held
        if _differs(rows, f, side_a, side_b)
    }
    listing = "; ".join(
        f"{name}: {left} against {right}" for name, (left, right) in columns.items()
    )
    return ConfoundError(
        f"{a.name} and {b.name} have no cell in common: they differ in {listing}",
        columns=columns,
        hint="measure both arms at the same levels"
        + (f", or accept the difference with --allow {next(iter(columns))}" if columns else ""),
    )


def _alone(
    arm: Arm, held: Sequence[str], mine: Mapping[tuple[Level, ...], Any],
    theirs: Mapping[tuple[Level, ...], Any],
) -> list[str]:  # fmt: skip
    return [
        f"{arm.name} alone: " + ", ".join(f"{f}={v}" for f, v in zip(held, key, strict=True))
        for key in mine
        if key not in theirs
    ]


def _shown(values: Iterable[Level]) -> str:
    return ", ".join(sorted("none" if v is None else str(v) for v in values))
