"""The end of a run for people: one row a cell, and one plot."""

from pathlib import Path
from typing import Any

import msgspec

from specbench.workflows.recording_open import open_recording


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What the end of a run shows: `rows` as of `report.cells`, `plots` as paths of files."""

    recording: str
    rows: list[dict[str, Any]]
    factors: list[str]
    plots: list[str] = []


def conclude(root: Path) -> Conclusion:
    """Summarise a recording and draw its overview under `report/`."""
    from specbench.report import cells, plots  # noqa: PLC0415 - only the end pays for them

    recording = open_recording(root)
    trials = recording.trials
    measured = not trials.empty and bool((trials["status"] == "ok").any())
    drawn: tuple[Path, ...] = ()
    if measured:
        recording.paths.report.mkdir(exist_ok=True)
        drawn = plots.write_overview(trials, recording.paths.report)
    return Conclusion(
        recording=str(root),
        rows=_ordered(cells.summary_rows(trials), cells.varying(trials)),
        factors=cells.varying(trials),
        plots=[str(path) for path in drawn],
    )


def _ordered(rows: list[dict[str, Any]], factors: list[str]) -> list[dict[str, Any]]:
    """Order rows by level: words as they appear, numbers by size, what is collapsed first."""
    words = {name: list(dict.fromkeys(row.get(name) for row in rows)) for name in factors}

    def place(name: str, level: Any) -> tuple[int, float]:
        match level:
            case None:
                return (0, 0.0)
            case int() | float():
                return (1, float(level))
            case _:
                return (2, float(words[name].index(level)))

    return sorted(rows, key=lambda row: [place(name, row.get(name)) for name in factors])
