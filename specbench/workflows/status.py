"""Where a run stands, read from its recording by any other process."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from specbench.recording import Recording
from specbench.recording.entries import BlockLost
from specbench.recording.lock import is_locked
from specbench.recording.progress import read_progress
from specbench.workflows.recording_open import left_behind, open_recording

WATCH_EVERY_S = 1.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a glance.

    `live` is what a runner said last, empty where none runs; `failures` name what went wrong,
    `damage` what is not as it was written; `left_behind` tells of killed runs beside it.
    """

    recording: str
    name: str
    running: bool
    sealed: int
    ok: int
    failed: int
    live: dict[str, Any] = {}
    failures: list[BlockLost] = []
    damage: list[str] = []
    left_behind: list[str] = []


def read_status(root: Path) -> Status:
    """Read the newest recording under `root`, or the one that it is."""
    status = _status(open_recording(root))
    beside = [] if Path(status.recording) == root else left_behind(root)
    return msgspec.structs.replace(status, left_behind=beside)


def follow_status(root: Path) -> Iterator[Status]:
    """Yield the status every second until the run has ended."""
    first = read_status(root)
    while True:
        status = _status(open_recording(first.recording, hashed=False))
        yield msgspec.structs.replace(status, damage=first.damage, left_behind=first.left_behind)
        if not status.running:
            return
        time.sleep(WATCH_EVERY_S)


def _status(recording: Recording) -> Status:
    ok = sum(sealed.status == "ok" for sealed in recording.sealed)
    failures = [entry for entry in recording.journal if isinstance(entry, BlockLost)]
    running = is_locked(recording.paths)
    return Status(
        recording=str(recording.path),
        name=recording.manifest.name,
        running=running,
        sealed=len(recording.sealed),
        ok=ok,
        failed=len(recording.sealed) - ok,
        live=(read_progress(recording.paths.progress) or {}) if running else {},
        failures=failures,
        damage=[str(one) for one in recording.damage],
    )
