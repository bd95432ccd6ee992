"""Who writes a recording: a lock that the kernel lets go of however its holder ends."""

import datetime as dt
import fcntl
import os
from typing import IO

from specbench.errors import RecordingError
from specbench.recording.durable import unwritable
from specbench.recording.paths import RecordingPaths


def utc_now() -> str:
    """Tell the present in UTC, ISO 8601; for correlation with logs, never for durations."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def take_lock(paths: RecordingPaths) -> IO[str]:
    """Hold the recording for this process.

    Raises RecordingError when another process holds it or the folder cannot be written.
    """
    try:
        lock = paths.lock.open("a+", encoding="utf-8", errors="replace")
    except OSError as error:
        raise unwritable(paths.lock, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "another process"
        lock.close()
        raise RecordingError(
            f"this recording is being written by {owner}",
            where=str(paths.root),
            hint="wait for it (`specbench status`), stop it, or give another --results folder",
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} since {utc_now()}\n")
    lock.flush()
    return lock


def is_locked(paths: RecordingPaths) -> bool:
    """Whether a run holds the recording; the kernel knows, whatever the files say."""
    try:
        with paths.lock.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # there is none, or no run can have it open
    return False
