"""Report one or more recordings: findings as HTML and Markdown, and the plots."""

from collections.abc import Sequence
from pathlib import Path

from specbench.report.writing import ReportFiles, write_report
from specbench.workflows.recording_open import open_recording


def report(
    recordings: Sequence[Path], *, results: Path = Path("results"), folder: Path | None = None
) -> ReportFiles:
    """Write the report of the given recordings, else of the newest one under `results`.

    It goes to `folder`, by default to `report/` inside the recording, or to `report/` under
    `results` for several recordings.

    Raises RecordingError when a recording cannot be read or the folder cannot be written.
    """
    opened = [open_recording(path) for path in recordings or (results,)]
    beside = opened[0].paths.report if len(opened) == 1 else results / "report"
    return write_report(opened, folder or beside)
