"""The connections of a worker: opened before they are needed, used last-in first-out."""

import ssl
import time
from collections.abc import Callable
from typing import Any

from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.connection import ConnectFailed, Connection
from specbench.loadgen.hotpath.endpoint import Endpoint
from specbench.loadgen.hotpath.poller import READ, WRITE, Poller
from specbench.loadgen.hotpath.read_log import LoopTick, ReadLog
from specbench.model.load import Reason

Stream = tuple[
    Callable[[int, int], Any],
    int,
    Callable[[bytes], None],
    Callable[[bytes], None],
    Callable[[LoopTick], None],
]
"""What a plain read of an answer that is streaming needs, and nothing else: recvmsg, the size of
a read, and how to append to the three lists of the answer's log."""


class Pool:
    """Owns every connection and its registration with the poller.

    `streams` are those whose answer is on its way and needs nothing but plain reads; `reuse` says
    whether one that served is used again.
    """

    def __init__(self, endpoint: Endpoint, poller: Poller) -> None:
        self.by_fd: dict[int, Connection] = {}
        self.streams: dict[int, Stream] = {}
        self.last_failure: tuple[Reason, str] | None = None
        self._endpoint = endpoint
        self._poller = poller
        self._tls: ssl.SSLContext | None = endpoint.ssl_context()
        self._idle: list[Connection] = []
        self.reuse = True
        self._sampled = 0

    def open(self) -> Connection:
        """Begin to open a connection. Raises ConnectFailed."""
        try:
            connection = Connection(self._endpoint, self._tls, time.monotonic_ns())
        except OSError as error:
            raise ConnectFailed("connect_refused", error.strerror or str(error)) from error
        self.by_fd[connection.fd] = connection
        self._poller.register(connection.fd, READ | WRITE)
        return connection

    def step(self, connection: Connection) -> bool:
        """Go on with opening; says whether it is open now. Raises ConnectFailed."""
        if not connection.step():
            return False
        self._poller.modify(connection.fd, READ)
        return True

    def take(self) -> Connection:
        """Give the connection that was used last, or begin a new one. Raises ConnectFailed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet and (self.reuse or not connection.served):
                return connection
            self.drop(connection)
        return self.open()

    def give_back(self, connection: Connection) -> None:
        """Take back a connection that may serve again."""
        connection.exchange = None
        connection.idle_ns = time.monotonic_ns()
        self.streams.pop(connection.fd, None)
        self._idle.append(connection)

    def stream(self, connection: Connection, log: ReadLog) -> None:
        """Let plain reads of a connection go to `log` until it is given back or dropped."""
        self.streams[connection.fd] = (
            connection.recvmsg,
            connection.room,
            log.data.append,
            log.stamps.append,
            log.ticks.append,
        )

    def want_write(self, connection: Connection, *, wanted: bool) -> None:
        """Ask the poller for writability too, or no longer."""
        self._poller.modify(connection.fd, READ | WRITE if wanted else READ)

    def drop(self, connection: Connection) -> None:
        """Close a connection for good."""
        if self.by_fd.pop(connection.fd, None) is None:
            return
        if connection.exchange is None and connection in self._idle:
            self._idle.remove(connection)
        connection.exchange = None
        self.streams.pop(connection.fd, None)
        self._poller.unregister(connection.fd)
        connection.close()

    def hear_idle(self, connection: Connection) -> None:
        """Drop an idle connection that the server closed, or on which it speaks unasked.

        TLS 1.3 hands out session tickets then: those are no reason.
        """
        try:
            heard = connection.tls is None or bool(connection.read()[0])
        except BlockingIOError:
            heard = False
        except OSError:
            heard = True
        if heard:
            self.drop(connection)

    def warm(self, wanted: int, timeout_s: float) -> int:
        """Open connections before the start; gives how many came about in time."""
        deadline = time.monotonic_ns() + int(timeout_s * 1e9)
        opening = 0
        for _ in range(wanted):
            opening += self._try_open()
        while opening and time.monotonic_ns() < deadline:
            for fd, _ in self._poller.wait(deadline, precise=False):
                connection = self.by_fd.get(fd)
                if connection is None:
                    continue
                if connection.state == "open":
                    self.hear_idle(connection)
                    continue
                try:
                    if self.step(connection):
                        self.give_back(connection)
                        opening -= 1
                except ConnectFailed as failure:
                    self.last_failure = (failure.reason, failure.detail)
                    self.drop(connection)
                    opening -= 1
        for connection in [each for each in self.by_fd.values() if each.state != "open"]:
            shaking = connection.state == "handshake"
            what = "no TLS handshake" if shaking else "no connection"
            reason: Reason = "tls" if shaking else "connect_timeout"
            self.last_failure = (reason, f"{what} within {timeout_s:g} s")
            self.drop(connection)
        return len(self._idle)

    def sample(self, stats: ClientStats) -> None:
        """Look into one of the sockets that stream, its backlog and its round trip; arm all again.

        The arming is for kernels that fall back to delayed acknowledgements inside a reply.
        """
        streaming = [self.by_fd[fd] for fd in self.streams]
        for connection in streaming:
            connection.acknowledge_at_once()
        if not streaming:
            return
        self._sampled += 1
        connection = streaming[self._sampled % len(streaming)]
        stats.socket_backlog_max = max(stats.socket_backlog_max, connection.backlog())
        rtt = connection.min_rtt_us()
        if rtt is not None:
            connection.rtt_ns = rtt * 1000
            stats.rtt.add(rtt * 1000)

    def close(self) -> None:
        """Close everything."""
        for connection in list(self.by_fd.values()):
            self.drop(connection)

    def _try_open(self) -> bool:
        try:
            self.open()
        except ConnectFailed as failure:
            self.last_failure = (failure.reason, failure.detail)
            return False
        return True
