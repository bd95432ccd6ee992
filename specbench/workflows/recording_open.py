"""Open recordings with today's definitions: stored rows of older ones are computed again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specbench.analysis.summary import SUMMARY_VERSION, energy, summarise
from specbench.errors import RecordingError
from specbench.model.columns import names_from
from specbench.model.load import RequestRecord
from specbench.recording import Recording, SealedTrial, find_recordings


def open_recording(path: Path | str) -> Recording:
    """Open the recording in `path`, or the newest one under it.

    Raises RecordingError when there is none, or a newer specbench wrote it.
    """
    root = Path(path)
    if not (root / "manifest.json").exists():
        found = find_recordings(root) if root.is_dir() else []
        if not found:
            raise RecordingError(
                "there is no recording here",
                where=str(root),
                hint="`specbench run MATRIX` makes one; --results names the folder to look in",
            )
        root = found[-1]
    return Recording(root, summarise=_row, row_version=SUMMARY_VERSION)


def _row(sealed: SealedTrial, records: Iterable[RequestRecord]) -> dict[str, Any]:
    if sealed.report is None:
        return {}
    speculative = bool(sealed.server.get("speculative", True))
    asked = sealed.trial.asked
    levels = asked.workload.slo if asked else None
    measured = summarise(records, sealed.report, speculative=speculative, levels=levels)
    seen_then = names_from("server", "host")
    row = measured | {name: sealed.row[name] for name in seen_then if name in sealed.row}
    return row | energy(row)
