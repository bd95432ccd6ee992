"""Finds recordings in a results folder, and what killed runs left beside them."""

import json
import re
from pathlib import Path

from specbench.errors import RecordingError
from specbench.recording.checking import trial_folders
from specbench.recording.lock import is_locked
from specbench.recording.paths import RecordingPaths, slug_of

_NAME = re.compile(r"^[0-9]{8}T[0-9]{12}Z-(?P<slug>.+)-[0-9a-f]{8}$")


def find_recordings(results: Path, name: str | None = None) -> list[Path]:
    """List recordings under `results`, oldest first, of the matrix `name` if given.

    Raises RecordingError where the folder's name says that it is of that matrix, and its manifest
    is missing beside sealed trials, damaged, or says otherwise: it must not be begun anew unseen.
    """
    folders = sorted(folder.parent for folder in results.glob("*/manifest.json"))
    if name is None:
        return folders
    for root in lacking_manifests(results):
        if _slug(root) == slug_of(name) and trial_folders(RecordingPaths(root)):
            raise missing_manifest(root)
    return [folder for folder in folders if _is_of(folder, name)]


def lacking_manifests(results: Path) -> list[Path]:
    """List what looks like a recording and has no manifest, oldest first."""
    return [
        root
        for root in sorted(results.glob("*"))
        if _NAME.match(root.name) and root.is_dir() and not (root / "manifest.json").exists()
    ]


def left_by_kills(results: Path) -> list[Path]:
    """List folders of runs that were killed as they began: no manifest, and nothing sealed."""
    return [
        root
        for root in lacking_manifests(results)
        if not trial_folders(RecordingPaths(root)) and not is_locked(RecordingPaths(root))
    ]


def missing_manifest(root: Path) -> RecordingError:
    """Say that a folder has no manifest, and what it has."""
    sealed = len(trial_folders(RecordingPaths(root)))
    if not sealed:
        return RecordingError(
            "this is not a recording: it has no manifest.json",
            where=str(root),
            hint="give the folder that `specbench run` printed, or the --results folder above it",
        )
    return RecordingError(
        f"manifest.json is missing beside {sealed} sealed trials",
        where=str(root),
        hint="restore it from a copy; the sealed trials are untouched. `run --fresh` begins a new"
        " recording beside it",
    )


def _is_of(root: Path, name: str) -> bool:
    mine = _slug(root) == slug_of(name)
    try:
        manifest = json.loads((root / "manifest.json").read_bytes())
        told = manifest["name"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        if not mine:
            return False  # a damaged neighbour stops no run of another matrix
        raise _in_doubt(root, f"the manifest is damaged ({type(error).__name__})") from error
    if mine and told != name and slug_of(str(told)) != slug_of(name):
        raise _in_doubt(root, f"the manifest says {told!r:.80}, and its folder {name!r:.80}")
    return bool(told == name)


def _in_doubt(root: Path, what: str) -> RecordingError:
    sealed = len(trial_folders(RecordingPaths(root)))
    return RecordingError(
        what,
        where=str(root / "manifest.json"),
        hint=f"restore it from a copy; its {sealed} sealed trials are untouched. `run --fresh`"
        " begins a new recording beside it",
    )


def _slug(root: Path) -> str:
    found = _NAME.match(root.name)
    return found["slug"] if found else ""
