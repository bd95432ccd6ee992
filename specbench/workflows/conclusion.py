"""The end of a run for people: one row a cell, and one plot."""

from pathlib import Path
from typing import Any

import msgspec

from specbench.workflows.opening import open_recording


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What the end of a run shows: `rows` as of `report.tables`, `plots` as paths of files."""

    recording: str
    rows: list[dict[str, Any]]
    factors: list[str]
    plots: list[str] = []


def conclude(root: Path) -> Conclusion:
    """Summarise a recording and draw its overview under `report/`."""
    from specbench.report import cells, plots, tables  # noqa: PLC0415 - only the end pays for them

    recording = open_recording(root)
    trials = recording.trials
    measured = not trials.empty and bool((trials["status"] == "ok").any())
    drawn: tuple[Path, ...] = ()
    if measured:
        recording.paths.report.mkdir(exist_ok=True)
        drawn = plots.write_overview(trials, recording.paths.report)
    return Conclusion(
        recording=str(root),
        rows=tables.summary_rows(trials),
        factors=cells.varying(trials) if not trials.empty else [],
        plots=[str(path) for path in drawn],
    )
