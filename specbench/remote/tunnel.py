"""A port of this machine that leads to one as seen on another, through its SSH connection."""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from specbench.errors import HostError

if TYPE_CHECKING:
    import paramiko

OPEN_S = 10.0
PIECE = 2**16


class Pipe(Protocol):
    """One end of a connection: a socket, or an SSH channel."""

    def recv(self, size: int, /) -> bytes:
        """Return the next bytes, empty at the end."""
        ...

    def sendall(self, piece: bytes, /) -> None:
        """Send all of it."""
        ...


class Tunnel:
    """Listen on a free port of 127.0.0.1; carry each connection to the target.

    `transport` gives the SSH transport, opening it anew where it was lost: a tunnel outlives its
    connection. Where nobody listens at the target, or the host is out of reach, the connection is
    closed at once, which a client sees as a reset.
    """

    def __init__(self, transport: "Callable[[], paramiko.Transport]", host: str, port: int) -> None:
        self._transport = transport
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True, name="tunnel")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5.0)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Its own thread: a target that is slow to open must not hold up the others.
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        import paramiko  # noqa: PLC0415 - a second of start-up that only SSH pays

        try:
            source = near.getpeername()
            far = self._transport().open_channel(
                "direct-tcpip", self._target, source, timeout=OPEN_S
            )
        except (paramiko.SSHException, OSError, EOFError, HostError):
            near.close()
            return
        back = threading.Thread(target=_pump, args=(far, near, lambda: _end_of(near)), daemon=True)
        back.start()
        _pump(near, far, far.shutdown_write)
        back.join()
        near.close()
        far.close()


def _pump(source: Pipe, sink: Pipe, finish: Callable[[], None]) -> None:
    """Copy until the source ends or either side breaks; then let the other side know."""
    with contextlib.suppress(OSError, EOFError):
        while piece := source.recv(PIECE):
            sink.sendall(piece)
    with contextlib.suppress(OSError, EOFError):
        finish()


def _end_of(near: socket.socket) -> None:
    """End both directions: a server that has closed takes no more of a request."""
    near.shutdown(socket.SHUT_RDWR)
