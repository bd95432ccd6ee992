"""One server's log as it is read: mirrored to the recording, scanned for progress and failure."""

from collections import deque
from pathlib import Path
from typing import Protocol

from specbench.backends.backend import Backend, Notice, Ready
from specbench.backends.logs import split_lines
from specbench.model.secrets import NO_SECRETS, Secrets
from specbench.model.service import LoadFailure, LoadProgress
from specbench.recording.durable import open_private

KEPT_LINES = 2000
"""Last lines kept in memory for a diagnosis; the whole log is in the recording."""

PARTIAL_LIMIT = 2**20
"""Bytes of an unfinished line after which it is taken as it is."""


class LogSource(Protocol):
    """Where a server's output is read from, by a cursor that survives a lost connection."""

    def read(self) -> bytes:
        """Return what was written since the last call; empty when nothing was."""
        ...


class Logbook:
    """Read a source; `mirror` is the recording's copy, None where there is none.

    `secrets` are hidden in both, whole lines at a time: one may lie across two readings.
    """

    def __init__(
        self,
        backend: Backend,
        source: LogSource,
        mirror: Path | None,
        secrets: Secrets = NO_SECRETS,
    ) -> None:
        self._backend = backend
        self._secrets = secrets
        self._source = source
        self._mirror = mirror
        self._partial = b""
        self._reader = backend.log_reader()
        self._notices: dict[str, str] = {}
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.fatal = False
        self.said_ready = False
        self.bytes_read = 0

    @property
    def notices(self) -> tuple[str, ...]:
        """What must be recorded although nothing failed; the first line of each kind."""
        return tuple(self._notices.values())

    def tail(self, count: int = 30) -> tuple[str, ...]:
        """Return the last lines."""
        return tuple(self.lines)[-count:]

    def absorb(self, *, final: bool = False) -> list[LoadProgress]:
        """Read what is new; return the progress that it shows. `final` takes unfinished lines."""
        piece = self._source.read()
        self.bytes_read += len(piece)
        fresh = self._secrets.hide_bytes(self._whole_lines(piece, final=final))
        if fresh and self._mirror is not None:
            with open_private(self._mirror, "ab") as file:
                file.write(fresh)
        lines = split_lines(fresh.decode(errors="replace"))
        return [progress for line in lines if (progress := self._see(line))]

    def diagnose(self, *, exit_status: int | None) -> LoadFailure | None:
        """Explain what went wrong, by the lines kept."""
        return self._backend.diagnose(tuple(self.lines), exit_status=exit_status)

    def _whole_lines(self, piece: bytes, *, final: bool) -> bytes:
        text = self._partial + piece
        # A progress bar is drawn over itself with \r and ends its line only at the end.
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if final or len(text) - end > PARTIAL_LIMIT:
            end = len(text)
        self._partial = text[end:]
        return text[:end]

    def _see(self, line: str) -> LoadProgress | None:
        self.lines.append(line)
        self.fatal = self.fatal or self._reader.is_fatal(line)
        match self._reader.read(line):
            case LoadProgress() as progress:
                return progress
            case Notice(name=name, text=text):
                self._notices.setdefault(name, text)
            case Ready():
                self.said_ready = True
            case _:
                pass
        return None
