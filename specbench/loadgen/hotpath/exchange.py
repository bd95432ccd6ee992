"""One request and what came back: raw reads first, meaning later.

While a stream runs, a read is appended to a log with its clocks and nothing else happens to it.
Framing, events and JSON are looked at when the stream has ended, or in spare time when much is
held: the cost of understanding delays no arrival, and memory stays bounded.
"""

from specbench.backends.backend import ReplyReader
from specbench.backends.replies import error_message
from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.http1 import Response, new_response
from specbench.loadgen.hotpath.read_log import LoopTick, ReadLog
from specbench.loadgen.hotpath.sse import EventSplitter, LineTooLong
from specbench.loadgen.hotpath.timestamps import Timestamps
from specbench.model.load import Reason, RequestRecord

BODY_LIMIT = 64 << 20
REPLY_BYTES, TOKEN_BYTES = 64 << 20, 64 << 10
"""A reply may hold so much, and so much for each token asked for: /generate repeats its text."""
END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class Exchange:
    """The state of one request between its intended send and its row.

    `due_ns` is the intended send by a schedule, None where it is due as soon as it can be written
    (closed loop); `intended_ns` is when that was. All `_ns` are
    CLOCK_MONOTONIC here and become relative to `origin_ns`, the drive's start, in the record.
    """

    __slots__ = (
        "_arrivals",
        "_body",
        "_body_bytes",
        "_bytes",
        "_closed",
        "_ends",
        "_failure",
        "_framed",
        "_heard_ns",
        "_limit",
        "_reader",
        "_splitter",
        "answered",
        "due_ns",
        "intended_ns",
        "keep_alive",
        "lazy",
        "log",
        "origin_ns",
        "record",
        "request",
        "response",
        "round_trip_ns",
        "started_ns",
        "stopped_ns",
        "turned_ns",
        "whole",
        "written_ns",
    )

    def __init__(
        self,
        record: RequestRecord,
        request: bytes,
        reader: ReplyReader,
        *,
        origin_ns: int,
    ) -> None:
        self.record = record
        self.request = request
        self.origin_ns = origin_ns
        self.intended_ns: int | None = None
        self.due_ns: int | None = None
        self.started_ns = 0
        self.written_ns: int | None = None
        self.round_trip_ns = 0
        self.log = ReadLog()
        self.response: Response = new_response()
        self.answered = False
        self.lazy = False
        self.keep_alive = False
        self._heard_ns: int | None = None
        self.whole = False
        self.stopped_ns = 0
        self.turned_ns: int | None = None
        self._arrivals = Timestamps(origin_ns)
        self._splitter = EventSplitter()
        self._reader = reader
        self._framed = 0
        self._closed = False
        self._ends: list[int] = []
        self._failure: tuple[Reason, str] | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._bytes = 0
        self._limit = REPLY_BYTES + TOKEN_BYTES * (record.max_tokens or 0)

    @property
    def failure(self) -> tuple[Reason, str] | None:
        """The first thing that went wrong in the answer, if any."""
        return self._failure or self._reader.failure

    @property
    def heard_ns(self) -> int | None:
        """When bytes came last, on CLOCK_MONOTONIC; None before the first."""
        return self.log.ticks[-1].end_ns if self.log.ticks else self._heard_ns

    def send_again(self) -> None:
        """Forget the end of a connection on which nothing came: the request begins anew."""
        self.record.resent = True
        self._closed = False
        self.intended_ns, self.written_ns = self.due_ns, None
        self.response.release()
        self.response = new_response()
        self.log.clear()
        self._framed, self._ends = 0, []

    def hear(self, data: bytes, timespec: bytes, tick: LoopTick) -> bool:
        """Take a read; says whether nothing more is to be read."""
        self.log.add(data, timespec, tick)
        return self.advance()

    def advance(self) -> bool:
        """Look at the read put on the log last; says whether nothing more is to be read.

        A read of nothing says that the server closed, and is taken off again.
        In a stream of chunks only the tail is looked at: events of JSON hold no carriage return,
        so the closing chunk is known by its bytes. Everything else is framed at once.
        """
        if not self.log.data[-1]:
            self._closed = True
            self.log.forget_last()
        self.answered = self.answered or bool(self.log.data)
        if self.lazy and not self._closed:
            tail = self.log.tail()
            if tail == END_OF_CHUNKS:
                self.whole = True
                return True
            if not tail.endswith(b"\r\n\r\n"):
                return False
        self._frame()
        response = self.response
        if response.status is not None:
            closing = response.headers.get("connection", "").lower() == "close"
            self.keep_alive = response.keep_alive and not closing
            chunked = response.headers.get("transfer-encoding", "").lower() == "chunked"
            self.lazy = response.status == 200 and chunked and self._is_stream()
        self.whole = response.complete
        return self.whole or self._failure is not None or self._closed

    def understand(self) -> bool:
        """Frame and decode all that is held, and let go of the raw bytes.

        Says whether nothing more is to be read.
        """
        self._frame()
        if self._framed:
            self._decode(self._ends, self.response.pieces[:])
            self.response.pieces.clear()
            self._heard_ns = self.heard_ns
            self.log.clear()
            self._framed, self._ends = 0, []
        self.whole = self.whole or self.response.complete
        return self.whole or self.failure is not None

    def settle(
        self, stats: ClientStats, status: str = "ok", reason: Reason = "", detail: str = ""
    ) -> None:
        """Complete the record. `status`, `reason` and `detail` say why the exchange ended early."""
        self.understand()
        record = self.record
        record.http_status = self.response.status
        if self.intended_ns is not None:
            record.intended_ns = self.intended_ns - self.origin_ns
        if self.written_ns is not None:
            record.written_ns = self.written_ns - self.origin_ns
            if record.first_byte_ns is not None:
                # Descheduled between the send and its clock reading: the answer was faster.
                record.written_ns = min(record.written_ns, record.first_byte_ns)
        gone = status in ("aborted", "failed") and reason != "closed_early"
        stopped = self.stopped_ns - self.origin_ns
        record.end_ns = stopped if gone or not self._arrivals.last else self._arrivals.last
        self._conclude(status, reason, detail)
        self._reader.finish()
        self._arrivals.settle(record, stats)
        if record.written_ns is not None:
            late = record.written_ns - record.intended_ns
            stats.late.add(late)
            if self._arrivals.first_doubt is not None:
                stats.ttft_doubt.add(late + self._arrivals.first_doubt)
        if self.turned_ns is not None:
            stats.turnaround.add(max(self.turned_ns - self.origin_ns - self._arrivals.last, 0))
        self.response.release()

    def _conclude(self, status: str, reason: Reason, detail: str) -> None:
        """Find out how it ended: by our own hand, by the server's word, or by the wire."""
        record = self.record
        if status == "ok" and self._status_failure() is None and self.response.complete:
            self._read_document()
        found = self._status_failure() or self.failure
        if status == "aborted":
            record.status, record.reason, record.detail = "aborted", reason, detail
        elif found is not None:
            record.status, (record.reason, record.detail) = "failed", found
        elif status == "failed" and reason != "closed_early":
            record.status, record.reason, record.detail = "failed", reason, detail
        elif not self.response.complete or not self._reader.done:
            record.status = "truncated" if record.chunk_ns else "failed"
            record.reason = "closed_early"
            record.detail = detail or "the answer ended without a finish reason"

    def _status_failure(self) -> tuple[Reason, str] | None:
        status = self.response.status
        if status is None or status == 200:
            return None
        body = b"".join(self._body)
        if 300 <= status < 400:
            return "redirect", f"to {self.response.headers.get('location', 'nowhere')}"
        reason: Reason = (
            "http_429" if status == 429 else "http_5xx" if status >= 500 else "http_4xx"
        )
        return reason, error_message(body) if body else f"status {status}"

    def _read_document(self) -> None:
        if not self._is_stream():
            self._reader.event(b"".join(self._body), self._arrivals.last)
            self._arrivals.account(self.record.chunk_ns, set())

    def _frame(self) -> None:
        fresh = self.log.data[self._framed :]
        self._framed += len(fresh)
        self._bytes += sum(map(len, fresh))
        if self._failure is not None:
            self._ends += [len(self.response.pieces)] * len(fresh)
        elif fresh:
            self._ends += self.response.feed(fresh)
            if self.response.failure:
                self._failure = ("bad_http", self.response.failure)
            elif self._bytes > self._limit:
                self._failure = ("too_large", f"more than {self._limit >> 20} MiB")
        if self._closed:
            self.response.end()

    def _decode(self, ends: list[int], pieces: list[bytes]) -> None:
        """Read the events of the framed reads; `ends` counts the pieces up to each read's end."""
        self._arrivals.follow(self.written_ns, self.round_trip_ns)
        stamps = self._arrivals.stamp(self.log)
        if self.record.first_byte_ns is None and stamps:
            self.record.first_byte_ns = stamps[0]
        if self.response.status != 200 or not self._is_stream():
            self._keep_body(pieces)
            return
        encoding = self.response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            self._failure = ("bad_http", f"compressed ({encoding}), which was not asked for")
            return
        chunks = self.record.chunk_ns
        known = len(chunks)
        try:
            events, event_ends = self._splitter.feed_all(pieces)
        except LineTooLong:
            self._failure = ("line_too_long", "a line of more than 4 MiB")
            return
        cut: set[int] = set()
        if event_ends is not None:
            ends = [event_ends[end - 1] if end else 0 for end in ends]
            if self._splitter.pending:
                cut.add(len(ends) - 1)
        stamps = _stamp_of_each(stamps, ends)
        self._reader.events(events, stamps)
        self._arrivals.account(chunks[known:], cut)

    def _keep_body(self, pieces: list[bytes]) -> None:
        self._body += pieces
        self._body_bytes += sum(map(len, pieces))
        if self._body_bytes > BODY_LIMIT:
            self._failure = ("line_too_long", f"a body of more than {BODY_LIMIT >> 20} MiB")

    def _is_stream(self) -> bool:
        return self.response.headers.get("content-type", "").startswith("text/event-stream")


def _stamp_of_each(stamps: list[int], ends: list[int]) -> list[int]:
    """Repeat each read's stamp for every event that ended in it."""
    if ends == list(range(1, len(ends) + 1)):
        return stamps
    each: list[int] = []
    for stamp, end in zip(stamps, ends, strict=True):
        each += [stamp] * (end - len(each))
    return each
