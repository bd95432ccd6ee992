"""The output of a followed command, cut into lines; where its bytes come from is the shell's."""

import time
from collections.abc import Iterator
from typing import Protocol

from specbench.remote.shell import LINE_LIMIT


class Output(Protocol):
    """The bytes of a command that runs."""

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next bytes, empty at the end; None when none came in time."""
        ...

    def status(self) -> int | None:
        """Return the exit status of a command whose output has ended."""
        ...


class FollowedLines:
    """Lines of an output, read without a thread."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._buffer = bytearray()
        self._ended = False

    @property
    def status(self) -> int | None:
        """The exit status once the last line was taken, None before."""
        return self._output.status() if self._ended and not self._buffer else None

    def __iter__(self) -> Iterator[str]:
        """Yield lines until the command ends."""
        while not (self._ended and not self._buffer):
            line = self.poll(1.0)
            if line is not None:
                yield line

    def poll(self, timeout_s: float) -> str | None:
        """Return the next line, or None when none came in time or the command has ended."""
        deadline = time.monotonic() + timeout_s
        while True:
            newline = self._buffer.find(b"\n")
            if newline >= 0 or (self._ended and self._buffer):
                return self._take(newline if newline >= 0 else len(self._buffer))
            left = deadline - time.monotonic()
            if self._ended or left <= 0:
                return None
            piece = self._output.read(left)
            self._ended = piece == b""
            self._buffer += piece or b""

    def _take(self, end: int) -> str:
        line = bytes(self._buffer[:end]).decode(errors="replace").rstrip("\r")
        del self._buffer[: end + 1]
        return line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + " [...]"
