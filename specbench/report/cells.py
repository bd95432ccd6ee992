"""Cells of a trials table: one row each, what varies, what a cell is called, what it matches."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from specbench.model.columns import Column, shown_in
from specbench.model.matrix import LOAD_FACTORS, RequestOptions
from specbench.report.inputs import Evidence

CONTROL = "ar"
MEASURED = tuple(column for column in shown_in("cells") if column.dtype != "text")
"""What was measured, of the columns shown for cells."""

REQUEST_SIDE = (*sorted(LOAD_FACTORS), *RequestOptions.__struct_fields__)
"""Factors that say what is asked of a server; all others say which server it is."""


def factors_of(trials: pd.DataFrame) -> list[str]:
    """Name the factors of a trials table: its columns before `cell_id` (contract section 6)."""
    columns = [str(name) for name in trials.columns]
    return columns[: columns.index("cell_id")] if "cell_id" in columns else []


def is_missing(value: Any) -> bool:
    """Whether a level or a measurement is absent (None, NaN, NaT or NA)."""
    absent = value is None or value is pd.NaT or value is pd.NA
    return absent or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


def plain(value: Any) -> Any:
    """Give a level as Python writes it: 8 for a column that NaN made floating, None for NaN."""
    if is_missing(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def levels_of(row: Mapping[Hashable, Any] | pd.Series, factors: Iterable[str]) -> dict[str, Any]:
    """Give the levels of one row, None where a factor does not apply to its cell."""
    return {name: plain(row[name]) for name in factors}


def usable(trials: pd.DataFrame) -> pd.DataFrame:
    """Keep the trials that were measured to their end."""
    return trials[trials["status"] == "ok"]


def not_lossless(trials: pd.DataFrame) -> frozenset[str]:
    """Name the cells with a verdict that their output is wrong: their speeds rank nowhere."""
    return frozenset(str(cell) for cell in trials["cell_id"][trials["lossless"] == "violated"])


NOT_LOSSLESS = " (not lossless)"
"""What stands behind a speed of wrong output, wherever one is written."""


def varying(trials: pd.DataFrame, factors: Sequence[str] | None = None) -> list[str]:
    """Name the factors that take more than one level where they apply."""
    names = factors_of(trials) if factors is None else factors
    return [name for name in names if len({plain(value) for value in trials[name]} - {None}) > 1]


def held(trials: pd.DataFrame) -> dict[str, Any]:
    """Give the factors that never vary, with their one level: what every caption must say."""
    levels: dict[str, Any] = {}
    for name in factors_of(trials):
        seen = {plain(value) for value in trials[name]} - {None}
        if len(seen) == 1:
            levels[name] = seen.pop()
    return levels


def server_factors(trials: pd.DataFrame) -> list[str]:
    """Name the varying factors that distinguish servers, `algorithm` first."""
    names = [name for name in varying(trials) if name not in REQUEST_SIDE]
    return sorted(names, key=lambda name: name != "algorithm")


def server_label(levels: Mapping[str, Any], names: Iterable[str]) -> str:
    """Name a server by its varying factors: `ddtree budget=16 topk=4`."""
    algorithm = [str(levels["algorithm"])] if levels.get("algorithm") is not None else []
    rest = [
        f"{name}={show_level(levels[name])}"
        for name in names
        if name != "algorithm" and levels.get(name) is not None
    ]
    return " ".join([*algorithm, *rest])


def cell_label(levels: Mapping[str, Any], names: Iterable[str]) -> str:
    """Name a cell: its server, then what was asked of it."""
    names = list(names)
    server = [name for name in names if name not in REQUEST_SIDE]
    asked = [
        f"{name} {show_level(levels[name])}"
        for name in names
        if name in REQUEST_SIDE and levels.get(name) is not None
    ]
    return ", ".join([part for part in (server_label(levels, server), *asked) if part])


def show_level(level: Any) -> str:
    """Write a level as the matrix file would."""
    if level is None:
        return "none"
    if isinstance(level, bool):
        return "true" if level else "false"
    return f"{level:g}" if isinstance(level, float) else " ".join(str(level).split())


def in_order(
    rows: Iterable[Mapping[str, Any]], names: Sequence[str], control: str = CONTROL
) -> list[int]:
    """Give the positions of cells as people look for them: by server, then by what was asked.

    The control comes first, other algorithms as they appear; numbers rise.
    """
    listed = list(rows)
    algorithms = [control, *dict.fromkeys(str(row.get("algorithm")) for row in listed)]
    asked = [name for name in REQUEST_SIDE if name in names]
    loads = [name for name in asked if name in LOAD_FACTORS]
    rest = [name for name in asked if name not in loads]
    servers = [name for name in names if name != "algorithm" and name not in REQUEST_SIDE]

    def key(position: int) -> tuple[Any, ...]:
        row = listed[position]
        levels = (_rank(row.get(name)) for name in (*servers, *rest, *loads))
        return (algorithms.index(str(row.get("algorithm"))), *levels)

    return sorted(range(len(listed)), key=key)


def _rank(level: Any) -> tuple[int, float, str]:
    """Order levels of any type: none, numbers, texts."""
    level = plain(level)
    if level is None:
        return (0, 0.0, "")
    return (1, float(level), "") if isinstance(level, int | float) else (2, 0.0, str(level))


def matches_control(levels: Mapping[str, Any], control: Mapping[str, Any]) -> bool:
    """Whether `control` is the control of a cell: equal in every factor that applies to both."""
    return all(
        control[name] == level
        for name, level in levels.items()
        if name != "algorithm" and control.get(name) is not None and level is not None
    )


def flags_of(values: Iterable[Any]) -> list[str]:
    """Union of `flags` columns (comma-separated), in order of first appearance."""
    seen: dict[str, None] = {}
    for value in values:
        if isinstance(value, str):
            seen.update(dict.fromkeys(flag for flag in value.split(",") if flag))
    return list(seen)


@lru_cache(maxsize=4)
def cell_rows(evidence: Evidence) -> list[dict[str, Any]]:
    """Summarise a recording's trials once for all parts of a report; do not change the rows.

    Cells stand by server, then by what was asked of it.
    """
    rows = summary_rows(evidence.trials, evidence.control)
    order = in_order(rows, factors_of(evidence.trials), evidence.control)
    return [rows[position] for position in order]


def summary_rows(trials: pd.DataFrame, control: str = CONTROL) -> list[dict[str, Any]]:
    """Summarise a trials table: one row a cell, in order of appearance.

    Keys: every factor; `cell_id`; `trials` and `launches` (measured to their end), `failed`
    (trials that were not); the measured columns of `model.columns` that are shown for cells, each
    pooled as it says there; `speedup` (of `tok_s` over the control cell that is equal in every
    factor applying to both; None without one); `lossless`; `flags`. What was not measured is None.
    Intervals belong to `analysis.compare`, not to this table.
    """
    if trials.empty:
        return []
    factors = factors_of(trials)
    rows = [
        _cell_row(group, factors)
        for _, group in trials.groupby("cell_id", sort=False, dropna=False)
    ]
    controls = [row for row in rows if row.get("algorithm") == control]
    for row in rows:
        row["speedup"] = _speedup(row, controls, factors)
    return rows


def _cell_row(group: pd.DataFrame, factors: list[str]) -> dict[str, Any]:
    good = usable(group)
    return {
        **levels_of(group.iloc[0], factors),
        "cell_id": str(group["cell_id"].iloc[0]),
        "trials": len(good),
        "launches": good["block_id"].nunique(),
        "failed": len(group) - len(good),
        **{column.name: _pooled(good, column) for column in MEASURED},
        "speedup": None,
        "lossless": _worst_verdict(group["lossless"]),
        "flags": flags_of(group["flags"]),
    }


def _pooled(trials: pd.DataFrame, column: Column) -> float | None:
    if column.name not in trials.columns:
        return None
    if column.pooled == "steps":
        return _weighted(trials[column.name], trials["verify_steps"])
    return _mean(trials[column.name])


def _weighted(values: pd.Series, weights: pd.Series) -> float | None:
    known = values.notna() & weights.notna() & (weights > 0)
    if not known.any():
        return None
    return float((values[known] * weights[known]).sum() / weights[known].sum())


def _mean(values: pd.Series) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None


def _speedup(
    row: dict[str, Any], controls: list[dict[str, Any]], factors: list[str]
) -> float | None:
    levels = {name: row[name] for name in factors}
    matched = [c for c in controls if matches_control(levels, {n: c[n] for n in factors})]
    if len(matched) != 1 or not matched[0]["tok_s"] or row["tok_s"] is None:
        return None
    return float(row["tok_s"] / matched[0]["tok_s"])


def _worst_verdict(values: pd.Series) -> str | None:
    seen = {value for value in values if isinstance(value, str)}
    for name in ("violated", "inconclusive", "untested", "holds"):
        if name in seen:
            return name
    return None
