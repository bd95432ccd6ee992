"""The measured path: one thread, one poller, every socket of a worker.

An own loop instead of asyncio: a callback costs asyncio about 3 us an event and this 1 us, beside
the 8 us of system calls that no client avoids (docs/adr, the measured path). A tick takes what has
arrived with its clocks, sends what is due, and understands an ended stream when there is time.
"""

import time
from collections import deque
from collections.abc import Callable

from specbench.loadgen.hotpath.client_stats import ClockWatch, Window
from specbench.loadgen.hotpath.connection import ANCILLARY_BYTES, ConnectFailed, Connection
from specbench.loadgen.hotpath.exchange import Exchange
from specbench.loadgen.hotpath.pacing import Pacer
from specbench.loadgen.hotpath.patience import Patience
from specbench.loadgen.hotpath.poller import READ, Poller
from specbench.loadgen.hotpath.pool import Pool
from specbench.loadgen.hotpath.read_log import FULL_READ_BYTES, NO_STAMP, LoopTick
from specbench.loadgen.hotpath.record_writer import RecordWriter
from specbench.loadgen.hotpath.request_source import RequestSource
from specbench.model.load import LoadSpec, Reason

LOOK_NS = 100_000_000
BUSY = 32
"""With so many sockets ready, understanding waits until `RecordWriter` has a heap, or as many long
streams wait."""
BRISK, GATHER_NS, GATHERED = 500, 150_000, 16
"""With so many reads between looks, a poll that finds few sockets is repeated a moment later."""
CLOSES_AFTER_REPLY_NS = 1_000_000_000
PACING_NS = 100_000_000
"""A slot whose request failed waits this long, so that a dead server is not hammered."""


class Loop:
    """Drives one share of a load, and hands every ended exchange to `writer`.

    `control` is the descriptor of the parent's word: anything there, its end included, means
    abort. `report` is called about ten times a second.
    """

    def __init__(
        self,
        load: LoadSpec,
        *,
        poller: Poller,
        pool: Pool,
        source: RequestSource,
        pacer: Pacer,
        writer: RecordWriter,
        window: Window,
        control: int | None,
        report: Callable[[], None],
    ) -> None:
        self.clock = ClockWatch()
        self.in_flight = 0
        self.interrupted = False
        self.gave_up = ""
        self.patience = Patience(load)
        self._load = load
        self._poller = poller
        self._pool = pool
        self._source = source
        self._pacer = pacer
        self._writer = writer
        self._stats = writer.stats
        self._window = window
        self._control = control
        self._report = report
        self._sending = True
        self._stop_ns: int | None = None
        self._drain_ns: int | None = None
        self._taken = 0
        self._quiet_ns = 0
        self._brisk = False
        self._changed = False
        self._full: deque[Connection] = deque()

    def run(self) -> None:
        """Drive until all is done, or the parent says abort."""
        next_look = self._quiet_ns = time.monotonic_ns()
        while self._sending or self.in_flight or self._writer.waiting:
            now = time.monotonic_ns()
            if now >= next_look:
                next_look = now + LOOK_NS
                self._look_around(now)
            due = self._pacer.next_ns(self.in_flight) if self._sending else None
            until = next_look if due is None else min(due, next_look)
            if self._writer.waiting or self._full or not self._source.full:
                until = now
            precise = self._pacer.scheduled and until == due
            arrived = self._tick(until, precise=precise)
            self._send_due(time.monotonic_ns())
            if arrived < BUSY or self._writer.heaped or len(self._full) > BUSY:
                self._use_spare_time()
        self._writer.drain()

    def abort(self, detail: str) -> None:
        """Stop now: what is in flight becomes rows `aborted`."""
        self.interrupted = True
        self._finish_sending(time.monotonic_ns())
        self._abort_in_flight(detail)

    def _tick(self, until_ns: int, *, precise: bool) -> int:
        """Take what arrives until `until_ns`, or until there is something else to do.

        Gives how many sockets were ready at last. This is the path that every event goes through;
        it polls again by itself, since a turn of `run` costs as much as an event.
        """
        streams, poller = self._pool.streams, self._poller
        self._changed = precise
        ready = poller.wait(until_ns, precise=precise)
        while True:
            now = time.monotonic_ns()
            if self._brisk and len(ready) < GATHERED and now + GATHER_NS < until_ns:
                time.sleep(GATHER_NS / 1e9)
                ready, now = poller.ready(0), time.monotonic_ns()
            tick = LoopTick(self._quiet_ns, time.time_ns(), time.monotonic_ns())
            self._quiet_ns = now
            self._taken += len(ready)
            for fd, mask in ready:
                if mask != READ or (stream := streams.get(fd)) is None:
                    self._slow(fd, mask, tick)
                    continue
                recvmsg, room, keep, stamp, at = stream
                try:
                    data, ancillary, _, _ = recvmsg(room, ANCILLARY_BYTES)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._broken(self._pool.by_fd[fd], error)
                    continue
                keep(data)
                stamp(ancillary[0][2] if ancillary else NO_STAMP)
                at(tick if ancillary else tick.now())
                if not 7 < len(data) < room or data.endswith(b"\r\n\r\n"):
                    self._look(fd, data)
            tick.end_ns = time.monotonic_ns()
            if self._changed or tick.end_ns >= until_ns:
                return len(ready)
            ready = poller.ready(until_ns - tick.end_ns)

    def _slow(self, fd: int, mask: int, tick: LoopTick) -> None:
        """Take all but a plain read: opening, TLS, writing on, an idle connection's end, abort."""
        self._changed = True
        connection = self._pool.by_fd.get(fd)
        if connection is None:
            if fd == self._control:
                self.abort("interrupted")
            return
        exchange = connection.exchange
        if connection.state != "open":
            if mask != READ or connection.state != "connecting":
                self._go_on_opening(connection)
            return
        if exchange is None:
            self._pool.hear_idle(connection)
            return
        if connection.rest:
            self._write(connection, exchange)
        self._read(connection, exchange, tick)

    def _read(self, connection: Connection, exchange: Exchange, tick: LoopTick) -> None:
        """Read, of TLS all it has, since a poll does not see what TLS holds decrypted."""
        try:
            while connection.exchange is exchange:
                data, timespec = connection.read()
                if exchange.hear(data, timespec, tick.now()):
                    self._answered(connection, exchange)
                elif exchange.lazy and connection.plain and not connection.rest:
                    self._pool.stream(connection, exchange.log)
                if connection.plain:
                    return
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(connection, error)

    def _look(self, fd: int, data: bytes) -> None:
        """Look at a plain read that may be more than one event in the middle of a stream."""
        connection = self._pool.by_fd[fd]
        exchange = connection.exchange
        if exchange is None:
            return
        if len(data) == connection.room:
            connection.room = FULL_READ_BYTES
            self._pool.stream(connection, exchange.log)
        exchange.log.ticks[-1] = exchange.log.ticks[-1].now()  # this tick may launch yet
        if exchange.advance():
            self._answered(connection, exchange)

    def _go_on_opening(self, connection: Connection) -> None:
        try:
            opened = self._pool.step(connection)
        except ConnectFailed as failure:
            self._failed(connection, failure.reason, failure.detail)
            return
        if opened and connection.exchange is not None:
            self._write(connection, connection.exchange)
        elif opened:
            self._pool.give_back(connection)

    # -- sending -----------------------------------------------------------------------------

    def _send_due(self, now: int) -> None:
        while self._sending:
            due = self._pacer.next_ns(self.in_flight)
            if due is None or due > now:
                break
            slot, intended = self._pacer.pop()
            self._launch(slot, intended)
        if self._sending and self._pacer.exhausted:
            self._finish_sending(now)

    def _launch(self, slot: int, intended_ns: int | None) -> None:
        exchange = self._source.take()
        if exchange is None:
            self._finish_sending(time.monotonic_ns())
            return
        exchange.record.slot = slot
        exchange.intended_ns = exchange.due_ns = intended_ns
        exchange.started_ns = time.monotonic_ns()
        self.in_flight += 1
        self._assign(exchange)
        measured = exchange.record.phase == "measured"
        self._window.sent(exchange.started_ns, self.in_flight, measured=measured)
        if measured and self._load.stop.seconds is not None and self._stop_ns is None:
            self._stop_ns = exchange.started_ns + int(self._load.stop.seconds * 1e9)

    def _assign(self, exchange: Exchange) -> None:
        try:
            connection = self._pool.open() if exchange.record.resent else self._pool.take()
        except ConnectFailed as failure:
            self._end(exchange, "failed", failure.reason, failure.detail)
            return
        connection.exchange = exchange
        if connection.state == "open":
            self._write(connection, exchange)

    def _write(self, connection: Connection, exchange: Exchange) -> None:
        if exchange.intended_ns is None:
            exchange.intended_ns = time.monotonic_ns()
        first = not connection.rest
        try:
            rest = connection.send(exchange.request if first else connection.rest)
            if not rest:
                exchange.written_ns = time.monotonic_ns()
                exchange.round_trip_ns = connection.rtt_ns
                connection.acknowledge_at_once()
        except OSError as error:
            self._broken(connection, error)
            return
        if rest or not first:
            self._pool.want_write(connection, wanted=bool(rest))
        connection.rest = rest

    def _finish_sending(self, now: int) -> None:
        """Send no more. What is in flight is waited for, or aborted, as the load says."""
        if not self._sending:
            return
        self._sending = False
        self._drain_ns = now + int(self._load.stop.drain_timeout_s * 1e9)
        if self._load.stop.on_end == "abort" and self._stopped_early():
            self._abort_in_flight("the measured time was over")

    def _stopped_early(self) -> bool:
        """Whether time or tokens ended the load, rather than the number of requests."""
        return self._source.limit is None or self._source.built < self._source.limit

    # -- ending ------------------------------------------------------------------------------

    def _answered(self, connection: Connection, exchange: Exchange) -> None:
        """Note that nothing more is to be read for an exchange."""
        self.patience.hear(time.monotonic_ns())
        if not exchange.answered and self._retry(connection, exchange):
            return
        failure = exchange.failure
        reusable = exchange.keep_alive and exchange.whole and failure is None
        connection.served += 1
        if reusable and not connection.rest:
            self._pool.give_back(connection)
        else:
            self._pool.drop(connection)
        if failure is None and not exchange.whole:
            self._end(exchange, "failed", "closed_early", "the server closed the connection")
        else:
            self._end(exchange, "ok", "", "")

    def _broken(self, connection: Connection, error: OSError) -> None:
        exchange = connection.exchange
        if exchange is not None and not exchange.answered and self._retry(connection, exchange):
            return
        self._failed(connection, "closed_early", error.strerror or str(error))

    def _retry(self, connection: Connection, exchange: Exchange) -> bool:
        """Send again, once and on a fresh connection, what met a connection that was closed idle.

        The server never heard it. One that closes soon after its first reply does so after each.
        """
        idle_ns = connection.idle_ns
        if idle_ns is None or exchange.record.resent:
            return False
        if connection.served == 1 and time.monotonic_ns() - idle_ns < CLOSES_AFTER_REPLY_NS:
            self._pool.reuse = False
        self._pool.drop(connection)
        exchange.send_again()
        self._stats.reconnects += 1
        self._assign(exchange)
        return True

    def _failed(self, connection: Connection, reason: Reason, detail: str) -> None:
        exchange = connection.exchange
        self._pool.drop(connection)
        if exchange is not None:
            self._end(exchange, "failed", reason, detail)

    def _end(self, exchange: Exchange, status: str, reason: Reason, detail: str) -> None:
        now = time.monotonic_ns()
        self._changed = True
        self.in_flight -= 1
        slot = exchange.record.slot
        again = status == "ok" and self._sending and not self._pacer.scheduled
        if again:
            self._launch(slot, None)
        else:
            self._pacer.free(slot, now + PACING_NS if status == "failed" else now)
        measured = exchange.record.phase == "measured"
        self._window.ended(now, self.in_flight, measured=measured, last=not self._sending)
        exchange.stopped_ns = now
        if again and self._sending:
            exchange.turned_ns = time.monotonic_ns()
        self._writer.add(exchange, status, reason, detail)

    def _abort_in_flight(self, detail: str) -> None:
        for connection in list(self._pool.by_fd.values()):
            exchange = connection.exchange
            if exchange is not None:
                self._pool.drop(connection)
                self._end(exchange, "aborted", "aborted", detail)

    # -- looking around ----------------------------------------------------------------------

    def _use_spare_time(self) -> None:
        if self._writer.waiting:
            self._writer.work()
        elif self._full:
            self._understand(self._full.popleft())
        elif not self._source.full:
            self._source.build()

    def _look_around(self, now: int) -> None:
        self.clock.look()
        self._report()
        self._writer.flush()
        stop = self._load.stop
        enough = stop.tokens is not None and self._writer.measured_tokens >= stop.tokens
        if enough or (self._stop_ns is not None and now >= self._stop_ns):
            self._finish_sending(now)
        if self._drain_ns is not None and now >= self._drain_ns:
            self._abort_in_flight("not drained in time")
        busy = [each for each in self._pool.by_fd.values() if each.exchange is not None]
        for connection in busy:
            self._check_patience(connection, now)
        self._check_silence(now)
        self._pool.sample(self._stats)
        self._brisk, self._taken = self._taken > BRISK, 0

    def _check_silence(self, now: int) -> None:
        """End a load on which nothing comes any more: a server that is gone answers nobody."""
        running = [each.exchange for each in self._pool.by_fd.values() if each.exchange is not None]
        self.gave_up = self.patience.gives_up(running, now)
        if not self.gave_up:
            return
        self._finish_sending(now)
        for connection in list(self._pool.by_fd.values()):
            if connection.exchange is not None:
                answered = connection.exchange.answered
                self._failed(connection, "stalled" if answered else "no_first_byte", self.gave_up)

    def _check_patience(self, connection: Connection, now: int) -> None:
        exchange = connection.exchange
        if exchange is None:
            return
        if connection.state != "open":
            if self.patience.ends_opening(connection.opened_ns, now):
                self._failed(connection, "connect_timeout", "no connection in time")
            return
        ended = self.patience.ends(exchange, now)
        if ended is not None:
            self._failed(connection, *ended)
        elif exchange.log.long and connection not in self._full:
            self._full.append(connection)
        elif exchange.log.ticks and now - (exchange.heard_ns or now) > LOOK_NS:
            self._understand(connection)

    def _understand(self, connection: Connection) -> None:
        exchange = connection.exchange
        if exchange is not None and exchange.understand():
            self._answered(connection, exchange)
