"""Where a run stands, read from its recording by any other process."""

import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from specbench.model.json_text import NOT_JSON
from specbench.recording import Recording
from specbench.recording.entries import BlockLost
from specbench.workflows.recording_open import open_recording

WATCH_EVERY_S = 1.0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a glance. `live` is what the runner last said; `failures` name what went wrong."""

    recording: str
    name: str
    running: bool
    sealed: int
    ok: int
    failed: int
    live: dict[str, Any] = {}
    failures: list[BlockLost] = []


def read_status(root: Path) -> Status:
    """Read the newest recording under `root`, or the one that it is."""
    return _status(open_recording(root))


def follow_status(root: Path) -> Iterator[Status]:
    """Yield the status every second until the run has ended."""
    path = open_recording(root).path
    while True:
        status = _status(open_recording(path))
        yield status
        if not status.running:
            return
        time.sleep(WATCH_EVERY_S)


def _status(recording: Recording) -> Status:
    ok = sum(sealed.status == "ok" for sealed in recording.sealed)
    running = _is_locked(recording.paths.lock)
    failures = [entry for entry in recording.journal if isinstance(entry, BlockLost)]
    return Status(
        recording=str(recording.path),
        name=recording.manifest.name,
        running=running,
        sealed=len(recording.sealed),
        ok=ok,
        failed=len(recording.sealed) - ok,
        live=_live(recording.paths.progress),
        failures=failures,
    )


def _is_locked(lock: Path) -> bool:
    """Whether a runner holds the recording; the kernel knows, whatever the files say."""
    try:
        with lock.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _live(path: Path) -> dict[str, Any]:
    try:
        state = msgspec.json.decode(path.read_bytes())
    except (OSError, *NOT_JSON):
        return {}  # the runner is just replacing it, or never wrote one
    return state if isinstance(state, dict) else {}
