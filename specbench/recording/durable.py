"""Writes that survive a kill at any instant: fsync, rename, and a journal that is only appended."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from specbench.errors import RecordingError
from specbench.model.json_text import why_not

_MARK = re.compile(rb',"chain":"([0-9a-f]{16})"\}$')
"""The end of a line: a hash over it and all lines before it, so that none can change unseen."""


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


def chained(before: str, content: bytes) -> str:
    """Give the mark of a line: a hash of its content and of the mark before it."""
    return hashlib.sha256(before.encode() + content).hexdigest()[:16]


class Journal:
    """Append-only JSON lines, one fsync a line; the only truth for resume.

    Each line ends with a hash over itself and the lines before it. A line that a kill cut short is
    ignored when reading, and cut off before the next append.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.fdopen(descriptor, "ab", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error
        self._cut_broken_line()
        self._mark = last_mark(path)

    def append(self, entry: dict[str, Any]) -> None:
        """Write one entry and make it durable."""
        content = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
        mark = chained(self._mark, content)
        line = content[:-1] + f',"chain":"{mark}"}}\n'.encode()
        try:
            written = self._file.write(line)
            while written < len(line):  # a nearly full disk takes a part and refuses the rest
                written += self._file.write(line[written:])
            os.fsync(self._file.fileno())
        except OSError as error:
            self._cut_broken_line()
            raise unwritable(self.path, error) from error
        self._mark = mark

    @property
    def size(self) -> int:
        """Bytes that are durable."""
        return os.fstat(self._file.fileno()).st_size

    def _cut_broken_line(self) -> None:
        """Remove what a kill or a full disk left of a line: the next one must not continue it."""
        if self.path.is_file():
            self._file.truncate(_length_of_whole_lines(self.path))

    def close(self) -> None:
        """Release the file. Everything appended is already durable."""
        self._file.close()


class JournalLine(NamedTuple):
    """A line of a journal as it was read: `problem` says why it cannot be relied on."""

    number: int
    entry: dict[str, Any]
    problem: str


def journal_lines(path: Path) -> Iterator[JournalLine]:
    """Yield the whole lines of a journal, in order, each held against its mark.

    A broken last line is left out: a kill cut it short. Lines of before there were marks have none.
    """
    mark = ""
    for number, line in enumerate(_whole_lines(path), start=1):
        content, told = _parted(line)
        expected = chained(mark, content)
        entry, problem = _decoded(content)
        if told and told != expected:
            problem = problem or "it was changed, or a line before it was changed, added or taken"
        yield JournalLine(number, entry, problem)
        mark = told or expected


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a journal, in order; a broken last line is left out.

    Raises RecordingError where a line is damaged.
    """
    for number, entry, problem in journal_lines(path):
        if problem:
            raise RecordingError(
                f"the journal is damaged: {problem}",
                where=f"{path}:{number}",
                hint="restore it from a copy; specbench itself only ever appends to it",
            )
        yield entry


def last_mark(path: Path) -> str:
    """Give the mark that the next line goes on from."""
    mark = ""
    for line in _whole_lines(path):
        content, told = _parted(line)
        mark = told or chained(mark, content)
    return mark


def _whole_lines(path: Path) -> list[bytes]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordingError(
            f"the journal cannot be read: {error.strerror or error}", where=str(path)
        ) from error
    return content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]


def _parted(line: bytes) -> tuple[bytes, str]:
    """Part a line into its content and its mark; an old one has none."""
    found = _MARK.search(line)
    return (line[: found.start()] + b"}", found[1].decode()) if found else (line, "")


def _decoded(content: bytes) -> tuple[dict[str, Any], str]:
    try:
        entry = json.loads(content)
    except (ValueError, RecursionError) as error:
        return {}, why_not(error)
    return (entry, "") if isinstance(entry, dict) else ({}, "it is not a JSON object")


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
