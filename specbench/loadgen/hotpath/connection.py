"""One connection: non-blocking, stamped by the kernel where there is a kernel that stamps."""

import contextlib
import errno
import fcntl
import socket
import ssl
import struct
import sys
import termios
from typing import Literal

from specbench.loadgen.hotpath.endpoint import Endpoint
from specbench.loadgen.hotpath.exchange import Exchange
from specbench.loadgen.hotpath.read_log import FULL_READ_BYTES, READ_BYTES
from specbench.model.load import Reason

State = Literal["connecting", "tunnel", "handshake", "open"]

SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the socket module does not name it
ANCILLARY_BYTES = socket.CMSG_SPACE(16)  # one struct timespec
TCP_QUICKACK = getattr(socket, "TCP_QUICKACK", None)
_TCP_INFO_MIN_RTT = 148  # offset of tcpi_min_rtt in struct tcp_info, linux/tcp.h


class ConnectFailed(Exception):
    """A connection did not come about; `reason` is the row's."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Connection:
    """A socket and the exchange it is busy with.

    `room` is the size of a read: it grows when one was full.
    """

    __slots__ = (
        "_endpoint",
        "_tunnel_reply",
        "exchange",
        "fd",
        "idle_ns",
        "opened_ns",
        "plain",
        "recvmsg",
        "rest",
        "room",
        "rtt_ns",
        "served",
        "sock",
        "state",
        "tls",
    )

    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None, now_ns: int) -> None:
        sock = socket.socket(endpoint.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if sys.platform == "linux" and tls is None:
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        failure = sock.connect_ex(endpoint.address)
        if failure not in (0, errno.EINPROGRESS):
            sock.close()
            raise ConnectFailed(*connect_reason(failure))
        self._endpoint = endpoint
        self._tunnel_reply = b""
        self.sock: socket.socket = sock
        self.fd = sock.fileno()
        self.recvmsg = sock.recvmsg
        self.tls = tls
        self.plain = tls is None
        self.state: State = "connecting"
        self.opened_ns = now_ns
        self.exchange: Exchange | None = None
        self.room = READ_BYTES
        self.rest = b""
        self.served = 0
        self.rtt_ns = 0
        self.idle_ns: int | None = None

    def step(self) -> bool:
        """Go on with opening; says whether the connection is open now. Raises ConnectFailed."""
        if self.state == "connecting":
            failure = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise ConnectFailed(*connect_reason(failure))
            self.rest = self._endpoint.tunnel
            self.state = "tunnel" if self.rest else "handshake"
        try:
            if self.state == "tunnel" and not self._through_tunnel():
                return False
            if self.state == "handshake":
                self._handshake()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLError as error:
            raise ConnectFailed("tls", str(error.reason or error)) from error
        except OSError as error:
            raise ConnectFailed("tls", f"during the handshake: {error.strerror}") from error
        self.rtt_ns = 1000 * (self.min_rtt_us() or 0)
        return self.state == "open"

    def send(self, data: bytes) -> bytes:
        """Send what the socket takes; gives the rest. Raises OSError."""
        try:
            return data[self.sock.send(data) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return data

    def read(self) -> tuple[bytes, bytes]:
        """Read once; gives bytes, none at the end, and the kernel's stamp, if any.

        Raises BlockingIOError where there is nothing, and OSError.
        """
        if self.tls is None:
            data, ancillary, _, _ = self.recvmsg(self.room, ANCILLARY_BYTES)
            return data, ancillary[0][2] if ancillary else b""
        try:
            return self.sock.recv(FULL_READ_BYTES), b""
        except ssl.SSLEOFError:
            return b"", b""
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as nothing:
            raise BlockingIOError from nothing

    @property
    def is_quiet(self) -> bool:
        """Whether nothing came since it fell idle: no end, and no word that was not asked for.

        What came over TLS may be a session ticket, which is no reason to drop a connection.
        """
        if not self.plain:
            return True
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def acknowledge_at_once(self) -> None:
        """Have what comes acknowledged when it is read, not up to 40 ms later (Linux, tcp(7)).

        A server that leaves Nagle's algorithm on keeps an event back until the one before was
        acknowledged. Each send of our own ticks the delay on again, so this follows each request.
        """
        if TCP_QUICKACK is not None:
            with contextlib.suppress(OSError):  # refused, or reset: the doubt of the chunks says so
                self.sock.setsockopt(socket.IPPROTO_TCP, TCP_QUICKACK, 1)

    def min_rtt_us(self) -> int | None:
        """Give the least round trip that the kernel saw, in microseconds; None if it cannot."""
        if sys.platform != "linux":
            return None
        info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_MIN_RTT + 4)
        if len(info) < _TCP_INFO_MIN_RTT + 4:
            return None
        value: int = struct.unpack_from("@I", info, _TCP_INFO_MIN_RTT)[0]
        return value

    def backlog(self) -> int:
        """Count the bytes that wait unread in the socket."""
        return int.from_bytes(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close(self) -> None:
        """Close at once; the server sees it and stops generating."""
        self.sock.close()

    def _through_tunnel(self) -> bool:
        if self.rest:
            self.rest = self.send(self.rest)
        self._tunnel_reply += self.sock.recv(READ_BYTES)
        if b"\r\n\r\n" not in self._tunnel_reply:
            return False
        status = self._tunnel_reply.split(b" ")[1:2]
        if status != [b"200"]:
            raise ConnectFailed("connect_refused", "the proxy refused the tunnel")
        self.state = "handshake"
        return True

    def _handshake(self) -> None:
        if self.tls is not None:
            if not isinstance(self.sock, ssl.SSLSocket):
                self.sock = self.tls.wrap_socket(
                    self.sock,
                    server_hostname=self._endpoint.host,
                    do_handshake_on_connect=False,
                    suppress_ragged_eofs=True,
                )
            self.sock.do_handshake()
        self.state = "open"


def connect_reason(failure: int) -> tuple[Reason, str]:
    """Name a failed connect: `connect_timeout` where nobody answered, else `connect_refused`."""
    silent = failure in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
    return ("connect_timeout" if silent else "connect_refused"), _strerror(failure)


def _strerror(failure: int) -> str:
    return errno.errorcode.get(failure, str(failure))
