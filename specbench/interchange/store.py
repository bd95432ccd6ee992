"""Imported rows on disk: `imported.json`, and two tables derived from it."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from specbench.errors import InputError
from specbench.interchange.definitions import DEFINITIONS
from specbench.interchange.rows import SCHEMA, ImportedFile, ImportedRow
from specbench.model.columns import BY_NAME

NAME = "imported.json"


def holds_imported(folder: Path) -> bool:
    """Whether a folder holds imported rows."""
    return (folder / NAME).is_file()


def read_imported(folder: Path) -> list[ImportedRow]:
    """Read the rows that `specbench import` wrote. Raises InputError."""
    path = folder / NAME
    try:
        stored = msgspec.convert(json.loads(path.read_bytes()), ImportedFile)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read imported rows: {error}", where=str(path)) from None
    if stored.schema != SCHEMA:
        raise InputError(f"imported rows of schema {stored.schema}, not {SCHEMA}", where=str(path))
    for row in stored.rows:
        for figure in row.figures:
            if figure.definition not in DEFINITIONS:
                raise InputError(f"unknown definition {figure.definition!r}", where=str(path))
    return list(stored.rows)


def write_imported(rows: Sequence[ImportedRow], folder: Path) -> list[Path]:
    """Write `imported.json`, `rows.csv` (one row a run) and `figures.csv` (one a number).

    Raises InputError when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{NAME}"
        draft.write_bytes(msgspec.json.encode(ImportedFile(schema=SCHEMA, rows=tuple(rows))))
        draft.replace(folder / NAME)
        _write(folder / "rows.csv", *wide(rows))
        _write(folder / "figures.csv", FIGURES, long(rows))
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(folder)) from None
    return [folder / name for name in (NAME, "rows.csv", "figures.csv")]


FIGURES = ("row", "column", "value", "unit", "original_name", "definition_id", "same_as_specbench",
           "source_tool", "source_version", "path")  # fmt: skip


def long(rows: Sequence[ImportedRow]) -> list[list[object]]:
    """Give one line a number, with where it comes from."""
    return [
        [
            index,
            figure.column,
            figure.value,
            unit_of(figure.column),
            figure.original,
            figure.definition,
            DEFINITIONS[figure.definition].ours,
            row.tool,
            row.version,
            row.path,
        ]
        for index, row in enumerate(rows)
        for figure in row.figures
    ]


def wide(rows: Sequence[ImportedRow]) -> tuple[list[str], list[list[object]]]:
    """Give one line a run: what was asked, then the figures that have a column of ours."""
    levels = list(dict.fromkeys(name for row in rows for name in row.levels))
    columns = list(dict.fromkeys(f.column for row in rows for f in row.figures if f.column))
    names = [*levels, "source_tool", "source_version", "path", *columns]
    lines: list[list[object]] = []
    for row in rows:
        values = {figure.column: figure.value for figure in row.figures}
        asked = [row.levels.get(name, "") for name in levels]
        told = [values.get(name, "") for name in columns]
        lines.append([*asked, row.tool, row.version, row.path, *told])
    return names, lines


def unit_of(column: str) -> str:
    """Give the unit of a column; a mean of a latency has that of its percentiles."""
    if column.rsplit("_", 1)[0].endswith("_ms"):
        return "ms"
    known = BY_NAME.get(column)
    return known.unit if known is not None else ""


def _write(path: Path, header: Sequence[str], lines: list[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(header)
        writer.writerows(lines)
