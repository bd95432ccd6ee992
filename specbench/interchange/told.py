"""Imported rows as a Markdown page: the figures, and what each of them means."""

from collections.abc import Sequence

from specbench.interchange.definitions import DEFINITIONS
from specbench.interchange.rows import ImportedRow
from specbench.interchange.store import wide
from specbench.model.columns import shown_in

MOST_ROWS = 200
_COLUMNS = tuple(dict.fromkeys((*shown_in("cells"), *shown_in("load"))))
SHOWN = (
    *(column.name for column in _COLUMNS if column.dtype != "text"),
    *(f"{name}_mean" for name in dict.fromkeys(one.quantity for one in _COLUMNS) if name),
    "accept_len_request_mean",
    "accept_len_server",
)
"""What people are shown of a server, and the forms of it that other tools give instead."""


def markdown(rows: Sequence[ImportedRow]) -> str:
    """Write the page. Figures that specbench defines otherwise are marked with ≠."""
    names, _ = wide(rows)
    shown = [name for name in SHOWN if name in names]
    levels = names[: names.index("source_tool")]
    head = ["tool", *levels, *shown]
    lines = ["# Imported results", "", _line(head), _line(["---"] * len(head))]
    lines += [_row(row, levels, shown) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines += ["", f"{len(rows) - MOST_ROWS} more rows are in rows.csv."]
    return "\n".join([*lines, "", "## Definitions", "", *_definitions(rows, shown), ""])


def _row(row: ImportedRow, levels: Sequence[str], shown: Sequence[str]) -> str:
    told = []
    for name in shown:
        figure = row.figure(name)
        mark = "" if figure is None or DEFINITIONS[figure.definition].ours else " ≠"
        told.append("" if figure is None else f"{figure.value:.4g}{mark}")
    asked = [str(row.levels.get(name, "")) for name in levels]
    return _line([f"{row.tool} {row.version}".strip(), *asked, *told])


def _definitions(rows: Sequence[ImportedRow], shown: Sequence[str]) -> list[str]:
    told = {}
    for row in rows:
        for figure in row.figures:
            if figure.column in shown:
                told[row.tool, figure.column] = figure
    lines = [
        _line(["tool", "column", "its own name", "definition", "as specbench's"]),
        _line(["---"] * 5),
    ]
    for (tool, column), figure in told.items():
        known = DEFINITIONS[figure.definition]
        same = "no" if not known.ours else f"yes; {known.proviso}" if known.proviso else "yes"
        meaning = f"`{known.id}`: {known.meaning}"
        lines.append(_line([tool, f"`{column}`", f"`{figure.original}`", meaning, same]))
    return lines


def _line(cells: Sequence[str]) -> str:
    plain = (" ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(plain)} |"
