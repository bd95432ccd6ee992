"""One request and what came back: raw reads first, meaning later.

While a stream runs, a read is appended with its clocks and nothing else happens to it. Framing,
events and JSON are looked at when the stream has ended, or when `HOLD_BYTES` are held, so that the
cost of understanding never delays an arrival and memory stays bounded.
"""

from specbench.loadgen.arrivals import Arrivals, Read
from specbench.loadgen.http1 import BadHttp, Response, new_response
from specbench.loadgen.sse import EventSplitter, LineTooLong
from specbench.loadgen.tally import Tally
from specbench.model.load import Api, Reason, RequestRecord
from specbench.sglang.replies import ReplyReader, error_message

HOLD_BYTES = 128 << 10
BODY_LIMIT = 64 << 20
END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class Exchange:
    """The state of one request between its intended send and its row.

    `intended_ns` None means: as soon as it can be written (closed loop). All `_ns` are
    CLOCK_MONOTONIC here and become relative to `origin_ns`, the drive's start, in the record.
    """

    __slots__ = (
        "_arrivals",
        "_body",
        "_body_bytes",
        "_failure",
        "_framed",
        "_reader",
        "_splitter",
        "answered",
        "held",
        "intended_ns",
        "keep_alive",
        "last_read_ns",
        "lazy",
        "origin_ns",
        "reads",
        "record",
        "request",
        "response",
        "retried",
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
        api: Api,
        *,
        keep_text: bool,
    ) -> None:
        self.record = record
        self.request = request
        self.origin_ns = 0
        self.intended_ns: int | None = None
        self.started_ns = 0
        self.written_ns: int | None = None
        self.reads: list[Read] = []
        self.response: Response = new_response()
        self.answered = False
        self.lazy = False
        self.held = 0
        self.retried = False
        self.keep_alive = False
        self.last_read_ns: int | None = None
        self.whole = False
        self.stopped_ns = 0
        self.turned_ns: int | None = None
        self._arrivals = Arrivals()
        self._splitter = EventSplitter()
        self._reader = ReplyReader(api, record, keep_text=keep_text)
        self._framed: list[tuple[Read, list[bytes]]] = []
        self._failure: tuple[Reason, str] | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0

    @property
    def failure(self) -> tuple[Reason, str] | None:
        """The first thing that went wrong in the answer, if any."""
        return self._failure or self._reader.failure

    def advance(self, data: bytes) -> bool:
        """Look at the read just appended; says whether nothing more is to be read.

        In a stream of chunks only the tail is looked at: events of JSON hold no carriage return,
        so the closing chunk is known by its bytes. Everything else is framed at once.
        """
        self.answered = self.answered or bool(data)
        if self.lazy and data:
            if self.held > HOLD_BYTES:
                self.understand()
                self.whole = self.response.complete
                return self.whole or self.failure is not None
            tail = self._tail()
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
        return self.whole or self._failure is not None or not data

    def understand(self) -> None:
        """Frame and decode everything that is held, and let go of the raw bytes."""
        self._frame()
        framed, self._framed = self._framed, []
        for read, pieces in framed:
            self._decode(read, pieces)
        self.held = 0

    def settle(
        self, tally: Tally, status: str = "ok", reason: Reason = "", detail: str = ""
    ) -> None:
        """Complete the record. `status`, `reason` and `detail` say why the exchange ended early."""
        self.understand()
        record = self.record
        record.http_status = self.response.status
        if self.intended_ns is not None:
            record.intended_ns = self.intended_ns - self.origin_ns
        if self.written_ns is not None:
            record.written_ns = self.written_ns - self.origin_ns
        gone = status in ("aborted", "failed") and reason != "closed_early"
        ended = self.stopped_ns if gone or not self._arrivals.last else self._arrivals.last
        record.end_ns = ended - self.origin_ns
        self._conclude(status, reason, detail)
        self._reader.finish()
        self._arrivals.settle(record, tally)
        if self.written_ns is not None and self.intended_ns is not None:
            late = self.written_ns - self.intended_ns
            tally.late.add(late)
            if self._arrivals.first_doubt is not None:
                tally.ttft_doubt.add(late + self._arrivals.first_doubt)
        if self.turned_ns is not None:
            tally.turnaround.add(max(self.turned_ns - self._arrivals.last, 0))
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
            before = len(self.record.chunk_ns)
            self._reader.event(b"".join(self._body), self._arrivals.last - self.origin_ns)
            self._arrivals.account(len(self.record.chunk_ns) - before, cut=False)

    def _tail(self) -> bytes:
        """Join the last seven bytes that arrived, however they were split."""
        tail = b""
        for read in reversed(self.reads):
            tail = read[0][-7:] + tail
            if len(tail) >= 7:
                break
        return tail[-7:]

    def _frame(self) -> None:
        reads, self.reads = self.reads, []
        if reads:
            self.last_read_ns = reads[-1][3]
        for read in reads:
            if not read[0]:
                self.response.end()
                continue
            pieces: list[bytes] = []
            if self._failure is None:
                try:
                    pieces = self.response.feed(read[0])
                except BadHttp as error:
                    self._failure = ("bad_http", str(error))
            self._framed.append((read, pieces))

    def _decode(self, read: Read, pieces: list[bytes]) -> None:
        arrivals, record = self._arrivals, self.record
        stamp = arrivals.stamp(read) - self.origin_ns
        if record.first_byte_ns is None:
            record.first_byte_ns = stamp
        if not pieces or self._failure is not None:
            return
        if self.response.status != 200 or not self._is_stream():
            self._keep_body(pieces)
            return
        before = len(record.chunk_ns)
        try:
            for piece in pieces:
                for event in self._splitter.feed(piece):
                    self._reader.event(event, stamp)
        except LineTooLong:
            self._failure = ("line_too_long", "a line of more than 4 MiB")
        arrivals.account(len(record.chunk_ns) - before, cut=self._splitter.pending)

    def _keep_body(self, pieces: list[bytes]) -> None:
        self._body += pieces
        self._body_bytes += sum(map(len, pieces))
        if self._body_bytes > BODY_LIMIT:
            self._failure = ("line_too_long", f"a body of more than {BODY_LIMIT >> 20} MiB")

    def _is_stream(self) -> bool:
        return self.response.headers.get("content-type", "").startswith("text/event-stream")
