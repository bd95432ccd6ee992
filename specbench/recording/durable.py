"""Writes that survive a kill at any instant: fsync, rename, and a journal that is only appended."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from specbench.errors import RecordingError
from specbench.model.json_text import why_not


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can look into; one that is there stays as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def open_private(path: Path, mode: Literal["wb", "ab"]) -> IO[bytes]:
    """Open a file that only its owner can read: it may hold more than figures."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if mode == "wb" else os.O_APPEND)
    return os.fdopen(os.open(path, flags, 0o600), mode)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    with open_private(path, "wb") as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make the names inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` as a whole: readers see the old content or the new, never a part.

    Raises RecordingError when the disk is full or the folder is not writable.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open_private(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> RecordingError:
    """Say that the recording cannot be written, and what to do about it."""
    return RecordingError(
        f"cannot write the recording: {error.strerror or error}",
        where=str(path),
        hint="free some space or choose another --results folder; what is sealed is safe,"
        " and the same command resumes",
    )


class Journal:
    """Append-only JSON lines, one fsync a line; the only truth for resume.

    A line that a kill cut short is ignored when reading, and cut off before the next append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(descriptor, "ab", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error
        self._cut_broken_line()

    def append(self, entry: dict[str, Any]) -> None:
        """Write one entry and make it durable."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            written = self._file.write(line)
            while written < len(line):  # a nearly full disk takes a part and refuses the rest
                written += self._file.write(line[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            self._cut_broken_line()
            raise unwritable(self.path, error) from error

    def _cut_broken_line(self) -> None:
        """Remove what a kill or a full disk left of a line: the next one must not continue it."""
        if self.path.is_file():
            self._file.truncate(_length_of_whole_lines(self.path))

    def close(self) -> None:
        """Release the file. Everything appended is already durable."""
        self._file.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole entries of a journal, in order; a broken last line is left out.

    Raises RecordingError where a line in the middle is damaged.
    """
    if not path.exists():
        return
    content = path.read_bytes()
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordingError(
                f"the journal is damaged: {why_not(error)}",
                where=f"{path}:{number}",
                hint="restore it from a copy; specbench itself only ever appends to it",
            ) from error
        yield entry


def _length_of_whole_lines(path: Path) -> int:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0
