"""A recording's own trials as rows, so that they can stand beside imported ones."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from specbench.interchange.rows import Figure, ImportedRow, Level
from specbench.model.columns import COLUMNS
from specbench.version import __version__

if TYPE_CHECKING:
    from specbench.recording import Recording


def rows_of_recording(recording: "Recording") -> list[ImportedRow]:
    """Give one row a timed trial that ended well; a figure withheld is not there."""
    table = recording.trials
    factors = list(table.columns[: list(table.columns).index("cell_id")])
    return [
        ImportedRow(
            tool="specbench",
            version=recording.manifest.specbench or __version__,
            path=f"{recording.path}#{row['trial_id']}",
            levels={name: _level(row[name]) for name in factors if _level(row[name]) != ""},
            figures=_figures(row),
        )
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
        if row["status"] == "ok"
    ]


def _level(value: Any) -> Level:
    return value if isinstance(value, str | int | float | bool) else ""


def _figures(row: Mapping[Any, Any]) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            original=column.name,
            value=float(row[column.name]),
            column=column.name,
            definition="count" if column.dtype == "integer" else "specbench",
        )
        for column in COLUMNS
        if column.dtype != "text" and column.source != "plan" and _is_number(row.get(column.name))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
