"""This machine as a Shell."""

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from specbench.errors import HostError
from specbench.remote.lines import FollowedLines
from specbench.remote.shell import (
    OUTPUT_LIMIT,
    CommandTimedOut,
    Completed,
    FileMissing,
    quote,
)


class LocalShell:
    """Run commands as children of this process, each in a process group of its own."""

    def __init__(self, name: str = "local") -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The host as the reader knows it."""
        return self._name

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        input: str | bytes | None = None,  # noqa: A002 - the word of subprocess.run
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command to its end; at the time limit its whole process group is killed."""
        content = input.encode() if isinstance(input, str) else input
        process = self._start(argv, env, stderr=subprocess.PIPE)
        try:
            stdout, stderr = process.communicate(content, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise CommandTimedOut(
                f"no end within {timeout_s:g} s: {quote(argv)}", where=self.name
            ) from None
        finally:
            _end_group(process)
        return Completed(
            argv=tuple(argv),
            status=process.returncode,
            stdout=_decode(stdout),
            stderr=_decode(stderr),
            truncated=max(len(stdout), len(stderr)) > OUTPUT_LIMIT,
        )

    @contextlib.contextmanager
    def follow(self, argv: Sequence[str]) -> Iterator[FollowedLines]:
        """Start a command and read its output by lines; its group is killed on leaving."""
        process = self._start(argv, None, stderr=subprocess.STDOUT)
        try:
            yield FollowedLines(ChildOutput(process))
        finally:
            _end_group(process)

    def read_file(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from a byte offset."""
        with _naming(self.name, path), Path(path).expanduser().open("rb") as file:
            if offset:
                file.seek(offset)
            return file.read(-1 if limit is None else limit)

    def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Replace a file as one step, durable before it is visible."""
        target = Path(path).expanduser()
        with _naming(self.name, path):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                Path(aside).chmod(mode)
                Path(aside).replace(target)
            finally:
                Path(aside).unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        with _naming(self.name, path):
            return Path(path).expanduser().exists()

    def remove(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        with _naming(self.name, path):
            Path(path).expanduser().unlink(missing_ok=True)

    @contextlib.contextmanager
    def forward(self, host: str, port: int) -> Iterator[int]:
        """Give the port itself: no tunnel is needed."""
        del host
        yield port

    def check_forwarding(self) -> None:
        """Need no tunnel."""

    def close(self) -> None:
        """Nothing is held open."""

    def _start(
        self, argv: Sequence[str], env: Mapping[str, str] | None, *, stderr: int
    ) -> subprocess.Popen[bytes]:
        quote(argv)  # refuses what no process can be given
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **env} if env else None,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(
                f"cannot run {argv[0]!r}: {error.strerror}",
                where=self.name,
                hint="is it installed, and on the PATH of this user?",
            ) from error


class ChildOutput:
    """The output of a child, whose input is closed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if process.stdin is not None:
            process.stdin.close()
        assert process.stdout is not None  # noqa: S101 - it was asked for as a pipe
        self._handle = process.stdout.fileno()
        os.set_blocking(self._handle, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._handle, selectors.EVENT_READ)

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next bytes, empty at the end; None when none came in time."""
        if not self._selector.select(timeout_s):
            return None
        piece = os.read(self._handle, 65536)
        if not piece:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5.0)
        return piece

    def status(self) -> int | None:
        """Return the exit status, or minus the signal."""
        return self._process.poll()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a command; a no-op where it has ended by itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _decode(output: bytes | None) -> str:
    return (output or b"")[:OUTPUT_LIMIT].decode(errors="replace")


@contextlib.contextmanager
def _naming(host: str, path: str) -> Iterator[None]:
    """Turn the system's error about a file into one that names host and path."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileMissing(f"no such file: {path}", where=host) from error
    except OSError as error:
        raise HostError(f"{path}: {error.strerror or error}", where=host) from error
