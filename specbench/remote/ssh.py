"""Another machine as a Shell, over SSH."""

import contextlib
import errno
import posixpath
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from specbench.errors import HostError
from specbench.remote.endpoint import Endpoint
from specbench.remote.frame import Frame, Opening
from specbench.remote.lines import FollowedLines
from specbench.remote.shell import (
    OUTPUT_LIMIT,
    CommandTimedOut,
    Completed,
    FileMissing,
    quote,
)
from specbench.remote.tunnel import Tunnel

if TYPE_CHECKING:
    import paramiko

OPEN_S = 10.0
SFTP_S = 20.0
PAUSE_S = 0.005
PIECE = 2**15
Result = TypeVar("Result")


class SshShell:
    """Run commands over one SSH connection; it is opened when needed, and again when it was lost.

    A signal's number is known only by the shell's convention: exit status 128 + n is reported as
    -n for n up to 31. Beyond its time limit a command is killed on the host as well.
    """

    def __init__(self, endpoint: Endpoint, *, name: str | None = None) -> None:
        self._endpoint = endpoint
        self._name = name or endpoint.alias
        self._lock = threading.RLock()
        self._home: str | None = None
        self._client: paramiko.SSHClient | None = None
        self._sftp: paramiko.SFTPClient | None = None

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
        """Run a command to its end. `env` is visible in the host's process list."""
        line = quote(argv, env)
        frame = Frame()
        bound = ["timeout", "-s", "KILL", str(int(timeout_s) + 5), *frame.around(line)]
        content = input.encode() if isinstance(input, str) else input or b""
        with self._channel(quote(bound)) as channel:
            outputs = self._exchange(channel, content, timeout_s, line)
            status = channel.recv_exit_status() if channel.exit_status_ready() else -1
        if status == -1:  # a killed sshd: paramiko reports no error of its own
            raise self._lost(f"while it ran {line}")
        out, err = map(frame.inside, outputs)
        return Completed(
            argv=tuple(argv),
            status=_signal_or(status),
            stdout=out[:OUTPUT_LIMIT].decode(errors="replace"),
            stderr=err[:OUTPUT_LIMIT].decode(errors="replace"),
            truncated=max(len(out), len(err)) > OUTPUT_LIMIT,
        )

    @contextlib.contextmanager
    def follow(self, argv: Sequence[str]) -> Iterator[FollowedLines]:
        """Start a command and read its output by lines.

        The command has a process group of its own on the host, which is killed when the channel's
        input ends: on leaving, and just as well when the connection is lost.
        """
        line = quote(argv)
        script = (
            f"exec 3<&0; setsid {line} </dev/null 2>&1 & p=$!; "
            "{ cat <&3; kill -s KILL -- -$p; } >/dev/null 2>&1 & wait $p"
        )
        frame = Frame()
        with self._channel(quote(frame.before(script))) as channel:
            yield FollowedLines(ChannelOutput(channel, Opening(frame)))

    def read_file(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Read a file from a byte offset."""
        target = self._absolute(path)

        def read(sftp: "paramiko.SFTPClient") -> bytes:
            with sftp.open(target, "rb") as file:
                if offset:
                    file.seek(offset)
                return bytes(file.read(limit))

        return self._with_sftp(path, read)

    def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Replace a file as one step. A full disk leaves the old one."""
        target = self._absolute(path)
        folder, name = posixpath.split(target)
        aside = posixpath.join(folder, f".{name}.{secrets.token_hex(4)}")
        if folder and not self.run(["mkdir", "-p", "--", folder]).ok:
            raise HostError(f"cannot make the folder of {path}", where=self.name)

        def write(sftp: "paramiko.SFTPClient") -> None:
            try:
                with sftp.open(aside, "wb") as file:
                    file.set_pipelined()
                    file.write(content)
                _require_size(sftp.stat(aside).st_size, content)
                sftp.chmod(aside, mode)
                sftp.posix_rename(aside, target)
            except OSError:
                with contextlib.suppress(OSError):
                    sftp.remove(aside)
                raise

        self._with_sftp(path, write)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        target = self._absolute(path)
        try:
            self._with_sftp(path, lambda sftp: sftp.stat(target))
        except FileMissing:
            return False
        return True

    def remove(self, path: str) -> None:
        """Delete a file; a missing one is no error."""
        target = self._absolute(path)
        with contextlib.suppress(FileMissing):
            self._with_sftp(path, lambda sftp: sftp.remove(target))

    @contextlib.contextmanager
    def forward(self, host: str, port: int) -> Iterator[int]:
        """Open a port of this machine that leads to one of the host's."""
        with Tunnel(self._transport, host, port) as tunnel:
            yield tunnel.port

    def check_forwarding(self) -> None:
        """Ask for a channel to a port: refused by rule is one thing, by nobody there another."""
        import paramiko  # noqa: PLC0415 - as below

        try:
            target, source = ("127.0.0.1", 9), ("127.0.0.1", 0)
            self._transport().open_channel("direct-tcpip", target, source, timeout=OPEN_S).close()
        except paramiko.ChannelException as error:
            if error.code == paramiko.common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
                raise HostError(
                    "sshd forbids tunnels (AllowTcpForwarding no)",
                    where=self.name,
                    hint="allow them, or set drive_from: host",
                ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._lost(f"({error})") from error

    def close(self) -> None:
        """Give up the connection."""
        with self._lock:
            client, self._client, self._sftp = self._client, None, None
        if client is not None:
            client.close()

    def connect(self) -> None:
        """Open the connection now, to learn early whether it can be opened."""
        self._transport()

    def _exchange(
        self, channel: "paramiko.Channel", content: bytes, timeout_s: float, line: str
    ) -> tuple[bytes, bytes]:
        """Send the input and collect both outputs until the command has ended."""
        out, err = bytearray(), bytearray()
        pending = memoryview(content)
        deadline = time.monotonic() + timeout_s
        if not content:
            channel.shutdown_write()
        while True:
            moved = False
            if pending and channel.send_ready():
                pending = pending[channel.send(bytes(pending[:PIECE])) :]
                moved = True
                if not pending:
                    channel.shutdown_write()
            if channel.recv_ready():
                out += channel.recv(PIECE)
                moved = True
            if channel.recv_stderr_ready():
                err += channel.recv_stderr(PIECE)
                moved = True
            if moved:
                continue
            # The status may overtake the last output; the end of output does not.
            if channel.closed or (channel.eof_received and channel.exit_status_ready()):
                return bytes(out), bytes(err)
            if time.monotonic() > deadline:
                self._drop_if_dead()
                raise CommandTimedOut(f"no end within {timeout_s:g} s: {line}", where=self.name)
            time.sleep(PAUSE_S)

    @contextlib.contextmanager
    def _channel(self, command: str) -> Iterator["paramiko.Channel"]:
        """Run a command in a new session; a connection that proves dead is opened once more."""
        import paramiko  # noqa: PLC0415 - a second of start-up that only SSH pays

        try:
            channel = self._transport().open_session(timeout=OPEN_S)
        except (paramiko.SSHException, OSError, EOFError):
            self.close()
            try:
                channel = self._transport().open_session(timeout=OPEN_S)
            except (paramiko.SSHException, OSError, EOFError) as error:
                raise self._lost(f"before it could run anything: {error}") from error
        channel.settimeout(OPEN_S)
        try:
            self._bounded(lambda: channel.exec_command(command))
            yield channel
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.close()
            raise self._lost(f"({str(error) or type(error).__name__})") from error
        finally:
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                channel.close()

    def _bounded(self, act: Callable[[], None]) -> None:
        """Do what paramiko would wait for without end, where the peer may be gone."""
        import paramiko  # noqa: PLC0415 - as above

        failures: list[Exception] = []

        def attempt() -> None:
            try:
                act()
            except (paramiko.SSHException, OSError, EOFError) as error:
                failures.append(error)  # raised again by the thread that waits

        thread = threading.Thread(target=attempt, daemon=True, name=f"ssh {self.name}")
        thread.start()
        thread.join(OPEN_S)
        if thread.is_alive():
            self.close()
            raise self._lost("without a word")
        for failure in failures:
            raise failure

    def _transport(self) -> "paramiko.Transport":
        from specbench.remote.connection import open_connection  # noqa: PLC0415 - imports paramiko

        with self._lock:
            transport = self._client.get_transport() if self._client else None
            if transport is None or not transport.is_active():
                self.close()
                self._client = open_connection(self._endpoint, host=self.name)
                transport = self._client.get_transport()
            if transport is None:
                raise self._lost("right after it was opened")
            return transport

    def _with_sftp(self, path: str, act: Callable[["paramiko.SFTPClient"], Result]) -> Result:
        """Do something with files; over a connection that was lost, once more over a new one."""
        import paramiko  # noqa: PLC0415 - as above

        for last in (False, True):
            try:
                with self._lock:
                    return act(self._sftp_client())
            except FileNotFoundError as error:
                raise FileMissing(f"no such file: {path}", where=self.name) from error
            except (paramiko.SSHException, EOFError, TimeoutError, ConnectionError) as error:
                self.close()
                if last:
                    raise self._lost(f"at {path}: {error}") from error
            except OSError as error:
                transport = self._client.get_transport() if self._client else None
                if not last and (transport is None or not transport.is_active()):
                    self.close()
                    continue
                reason = error.strerror or str(error)
                raise HostError(f"{path}: {reason}", where=self.name) from error
        raise self._lost(f"at {path}")

    def _absolute(self, path: str) -> str:
        """Write a path of the home folder as the shell has it: SFTP may begin in another one."""
        if not path.startswith("~/"):
            return path
        if self._home is None:
            home = self.run(["printenv", "HOME"]).stdout.strip()
            if not posixpath.isabs(home):
                raise HostError(f"HOME is {home!r} on the host, no folder", where=self.name)
            self._home = home
        return posixpath.join(self._home, path[2:])

    def _sftp_client(self) -> "paramiko.SFTPClient":
        import paramiko  # noqa: PLC0415 - as above

        transport = self._transport()
        if self._sftp is None:
            channel = transport.open_session(timeout=OPEN_S)
            channel.settimeout(SFTP_S)
            try:
                self._bounded(lambda: channel.invoke_subsystem("sftp"))
            except paramiko.SSHException as error:
                if not transport.is_active():
                    raise
                raise HostError(
                    f"the sshd of {self.name} offers no SFTP ({error})",
                    where=str(self._endpoint),
                    hint="it wants a line like: Subsystem sftp internal-sftp, in sshd_config",
                ) from error
            try:
                self._sftp = paramiko.SFTPClient(channel)
            except paramiko.SFTPError as error:
                raise HostError(
                    f"SFTP of {self.name} does not answer as SFTP does ({error})",
                    where=str(self._endpoint),
                    hint="login scripts that print break it: let them print in interactive shells "
                    "alone; sftp to this host shows the same",
                ) from error
        return self._sftp

    def _drop_if_dead(self) -> None:
        """After a time-out, find out whether the command was slow or the connection is gone."""
        import paramiko  # noqa: PLC0415 - as above

        try:
            self._transport().open_session(timeout=3.0).close()
        except (paramiko.SSHException, OSError, EOFError, HostError):
            self.close()

    def _lost(self, when: str) -> HostError:
        return HostError(
            f"the connection to {self.name} was lost {when}",
            where=str(self._endpoint),
            hint="the network, or the host's sshd; see specbench hosts check",
        )


class ChannelOutput:
    """The output of a remote command."""

    def __init__(self, channel: "paramiko.Channel", opening: Opening) -> None:
        self._channel = channel
        self._opening = opening

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next bytes, empty at the end; None when none came in time, or none yet."""
        self._channel.settimeout(timeout_s)
        try:
            piece = self._channel.recv(PIECE)
        except TimeoutError:
            return None
        if not piece:
            self._channel.status_event.wait(5.0)
        return self._opening.let_through(piece)

    def status(self) -> int | None:
        """Return the exit status, -1 where the connection ended without one."""
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1
        return _signal_or(status)


def _signal_or(status: int) -> int:
    """Read the convention of shells: 128 + n is the signal n."""
    return 128 - status if 128 < status < 160 else status


def _require_size(size: int | None, content: bytes) -> None:
    if size != len(content):
        raise OSError(errno.ENOSPC, "not all of it was written: is the disk full?")
