"""Open recordings with today's definitions: stored rows of older ones are computed again."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specbench.analysis.summary import SUMMARY_VERSION, energy, summarise
from specbench.errors import RecordingError
from specbench.model.columns import names_from
from specbench.model.load import RequestRecord
from specbench.recording import Recording, RecordingPaths, SealedTrial, find_recordings
from specbench.recording.checking import trial_folders
from specbench.recording.finding import lacking_manifests, left_by_kills, missing_manifest


def open_recording(path: Path | str, *, hashed: bool = True) -> Recording:
    """Open the recording in `path`, or the newest one under it; see Recording for `hashed`.

    Raises RecordingError when there is none, a newer specbench wrote it, or the newest one has lost
    its manifest.
    """
    root = Path(path)
    if not (root / "manifest.json").exists():
        root = _newest(root)
    return Recording(root, summarise=_row, row_version=SUMMARY_VERSION, hashed=hashed)


def left_behind(results: Path) -> list[str]:
    """Name what is no recording and looks like one, a sentence each."""
    return [
        f"{root} has no manifest and nothing sealed: a run was killed as it began"
        " (`specbench status --clean` removes it)"
        for root in left_by_kills(results)
    ]


def clean(results: Path) -> list[Path]:
    """Remove the folders that `left_behind` names; give what was removed.

    Raises RecordingError where one cannot be removed.
    """
    found = left_by_kills(results)
    for root in found:
        try:
            shutil.rmtree(root)
        except OSError as error:
            raise RecordingError(
                f"cannot be removed: {error.strerror or error}", where=str(root)
            ) from error
    return found


def _newest(results: Path) -> Path:
    if trial_folders(RecordingPaths(results)):
        raise missing_manifest(results)
    found = find_recordings(results) if results.is_dir() else []
    lost = [root for root in lacking_manifests(results) if trial_folders(RecordingPaths(root))]
    if lost and (not found or lost[-1].name > found[-1].name):
        raise missing_manifest(lost[-1])  # an older recording must not answer in its place
    if not found:
        left = left_behind(results)
        raise RecordingError(
            "there is no recording here",
            where=str(results),
            hint="; ".join(left)
            or "`specbench run MATRIX` makes one; --results names the folder to look in",
        )
    return found[-1]


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
