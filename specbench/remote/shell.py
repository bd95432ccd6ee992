"""The seam between specbench and a machine: commands, files, ports."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from specbench.errors import HostError

OUTPUT_LIMIT = 16 * 2**20
"""Bytes kept of each output stream of `run`; a command that writes more is cut, and says so."""

LINE_LIMIT = 64 * 2**10
"""Characters kept of one followed line; the rest of an endless line is dropped."""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ended. `status` is its exit status, or minus the number of its signal.

    `stdout` and `stderr` are decoded as UTF-8 with replacement; `truncated` says that one of them
    went beyond OUTPUT_LIMIT.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.status == 0

    @property
    def complaint(self) -> str:
        """The last line that it wrote to stderr, or else to stdout: usually the reason."""
        text = self.stderr.strip() or self.stdout.strip()
        return text.splitlines()[-1] if text else f"exit status {self.status}, no output"


class CommandTimedOut(HostError):
    """A command did not end within its bound; it was killed where that was possible."""


class HostKeyRefused(HostError):
    """The host's key is another one than is known, or none is known: no wait will mend that."""


class FileMissing(HostError):
    """A file that was to be read does not exist on the host."""


class Lines(Protocol):
    """The output of a followed command, line by line; leaving its context ends the command."""

    def __iter__(self) -> Iterator[str]:
        """Yield lines as they arrive, until the command ends."""
        ...

    def poll(self, timeout_s: float) -> str | None:
        """Return the next line, or None when none came in time or the command has ended."""
        ...

    @property
    def status(self) -> int | None:
        """The exit status once the command has ended, None before."""
        ...


class Shell(Protocol):
    """One machine, as one user. Commands are argument lists; every wait is bounded.

    Every method raises HostError when the machine cannot be reached. A command that fails is no
    error here: the caller knows what its exit status means.
    """

    @property
    def name(self) -> str:
        """The host as the reader knows it, for messages."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        input: str | bytes | None = None,  # noqa: A002 - the word of subprocess.run
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end. Raises CommandTimedOut, HostError if it cannot be started."""
        ...

    def follow(self, argv: Sequence[str]) -> AbstractContextManager[Lines]:
        """Start a command whose output (both streams, merged) is read line by line."""
        ...

    def read_file(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from a byte offset. Raises FileMissing."""
        ...

    def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Replace a file as one step: written aside, read back, renamed. Folders are made."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        ...

    def forward(self, host: str, port: int) -> AbstractContextManager[int]:
        """Give a port of 127.0.0.1 on this machine that leads to `host:port` as seen there."""
        ...

    def check_forwarding(self) -> None:
        """Raise HostError where tunnels are forbidden."""
        ...

    def close(self) -> None:
        """Give up the connection; what runs on the host goes on."""
        ...


def quote(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Write an argument list as one POSIX shell line: the only place where words are quoted.

    `env` goes in front as assignments. Raises HostError for a NUL character, which no argument of
    a process can hold.
    """
    words = [*(f"{name}={value}" for name, value in (env or {}).items()), *argv]
    if not argv:
        raise HostError("an empty command was to be run")
    if any("\0" in word for word in words):
        raise HostError("a command holds a NUL character", hint="remove it from the matrix")
    assignments = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    return " ".join([*assignments, shlex.join(argv)])
