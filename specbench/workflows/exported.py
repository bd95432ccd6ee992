"""Write a recording in the formats of other tools."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from specbench.errors import InputError, nearest
from specbench.expressions.expression import parse
from specbench.interchange.exports import (
    FORMATS,
    aiperf,
    checks,
    lines,
    llmd,
    profile,
    prometheus,
    tables,
)
from specbench.interchange.exports.trials import ExportedTrial, trials_of
from specbench.recording import Recording
from specbench.recording.tables import write_parquet
from specbench.workflows.recording_open import open_recording

LINES: dict[str, tuple[str, Callable[[list[ExportedTrial]], Iterable[str]]]] = {
    "jsonl": ("trials.jsonl", lines.jsonl),
    "sglang": ("sglang.jsonl", lines.sglang),
    "prometheus": ("specbench.prom", prometheus.textfile),
}
"""One file for all trials: its name, and its lines."""
DOCUMENTS: dict[str, tuple[str, Callable[[ExportedTrial], Any]]] = {
    "aiperf": ("aiperf", aiperf.summary),
    "llm-d": ("llm-d", llmd.report),
}
"""One JSON file a trial: what stands in its name, and its content."""


def export(path: Path, name: str, folder: Path, only: str | None = None) -> list[Path]:
    """Write the trials of a recording that ended well to `folder`; returns the files.

    Raises:
        InputError: an unknown format, nothing to write, or a folder that cannot be written.
        RecordingError: the recording cannot be read.
    """
    if name not in FORMATS:
        raise InputError(
            f"unknown format {name!r}", hint=nearest(name, list(FORMATS), noun="formats")
        )
    recording = open_recording(path)
    if name in ("junit", "comment"):
        return [_checks(recording, name, folder)]
    trials = [] if recording.trials.empty else trials_of(recording)
    if only is not None:
        holds = parse(only).holds
        trials = [trial for trial in trials if holds(trial.levels)]
    if not trials:
        raise InputError("the recording holds no timed trial to export", where=str(recording.path))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write(recording, trials, name, folder)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(folder)) from None


def _checks(recording: Recording, name: str, folder: Path) -> Path:
    """Write what a pipeline shows: all timed trials, those that failed too, and all verdicts."""
    found = checks.checks_of(recording)
    if not found:
        raise InputError("the recording holds no trial and no verdict", where=str(recording.path))
    junit = name == "junit"
    path = folder / ("junit.xml" if junit else "comment.md")
    text = checks.junit(found) if junit else checks.comment(recording, found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(folder)) from None
    return path


def _write(
    recording: Recording, trials: list[ExportedTrial], name: str, folder: Path
) -> list[Path]:
    if name in ("csv", "parquet"):
        return _table(recording, trials, name, folder)
    if name == "speculation-profile":
        return _profiles(trials, folder)
    if name in LINES:
        file, told = LINES[name]
        return [_lines(folder / file, told(trials))]
    suffix, document = DOCUMENTS[name]
    return [_json(folder / f"{one.trial_id}.{suffix}.json", document(one)) for one in trials]


def _table(
    recording: Recording, trials: list[ExportedTrial], name: str, folder: Path
) -> list[Path]:
    table = recording.trials
    chosen = table[table["trial_id"].isin([trial.trial_id for trial in trials])]
    path = folder / f"trials.{name}"
    if name == "csv":
        tables.csv(chosen, path)
        return [path, path.with_name("columns.json")]
    write_parquet(chosen, path)
    tables.with_units(path, [str(column) for column in chosen.columns])
    return [path]


def _profiles(trials: list[ExportedTrial], folder: Path) -> list[Path]:
    found = profile.profiles(trials)
    if not found:
        raise InputError(
            "no speculative trial has an acceptance length",
            hint="a profile needs verify steps: a server that counts them",
        )
    return [
        _json(folder / f"{algorithm}.speculation_profile.json", document)
        for algorithm, document in found.items()
    ]


def _lines(path: Path, told: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in told), encoding="utf-8")
    return path


def _json(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
