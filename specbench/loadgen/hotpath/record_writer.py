"""Ended exchanges become rows of a file: understood in spare time, written whole."""

import os
from collections import deque

import msgspec

from specbench.loadgen.hotpath.client_stats import ClientStats
from specbench.loadgen.hotpath.exchange import Exchange
from specbench.model.load import Reason, RequestRecord
from specbench.model.secrets import NO_SECRETS, Secrets

FLUSH_BYTES = 256 << 10
HEAP_READS = 100_000
"""So many reads of ended streams may wait for a quiet moment: 60 MB of ordinary events, or a second
of 100,000 events, in which nothing but their arrival is worth the CPU."""

UNREACHABLE: frozenset[Reason] = frozenset({"connect_refused", "connect_timeout", "dns", "tls"})

_encode = msgspec.json.Encoder().encode
_Ending = tuple[Exchange, str, Reason, str]


class SinkFailed(Exception):
    """Rows cannot be written any more, for example because the disk is full."""


class RecordWriter:
    """Queues ended exchanges, settles one at a time, and appends their rows to the sink.

    The sink is opened for appending and written in whole lines, so several workers share it. Rows
    that could not be written stay in memory, and `SinkFailed` is raised.
    """

    def __init__(self, sink: str, secrets: Secrets = NO_SECRETS) -> None:
        self._secrets = secrets
        self.stats = ClientStats()
        self.rows = 0
        self.failed = 0
        self.answered = 0
        self.unreachable = 0
        self.output_tokens = 0
        self.measured_tokens = 0
        self.accepted = 0
        self.verify_steps = 0
        self.first_failure = ""
        self._queue: deque[_Ending] = deque()
        self._reads = 0
        self._lines: list[bytes] = []
        self._bytes = 0
        self._fd = os.open(sink, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def waiting(self) -> int:
        """How many exchanges wait to be understood."""
        return len(self._queue)

    @property
    def heaped(self) -> bool:
        """Whether so much waits that it must be understood, quiet moment or not."""
        return self._reads > HEAP_READS

    def add(self, exchange: Exchange, status: str, reason: Reason, detail: str) -> None:
        """Queue an ended exchange; `status` says how it ended for the loop."""
        self._queue.append((exchange, status, reason, detail))
        self._reads += len(exchange.log.data)

    def work(self) -> None:
        """Settle one exchange, or more where there is a heap, so that it stays bounded."""
        for _ in range(min(len(self._queue), 1 + self.heaped * len(self._queue) // 64)):
            exchange, status, reason, detail = self._queue.popleft()
            self._reads -= len(exchange.log.data)
            exchange.settle(self.stats, status, reason, detail)
            exchange.record.detail = self._secrets.hide(exchange.record.detail)
            self._row(exchange.record)
        if self._bytes > FLUSH_BYTES:
            self.flush()

    def drain(self) -> None:
        """Settle and write everything, down to the disk."""
        while self._queue:
            self.work()
        self.flush()
        os.fsync(self._fd)

    def flush(self) -> None:
        """Write the rows that wait. Raises SinkFailed."""
        if not self._lines:
            return
        block = b"".join(self._lines)
        try:
            while block:
                block = block[os.write(self._fd, block) :]
        except OSError as error:
            self._lines, self._bytes = [block], len(block)
            raise SinkFailed(error.strerror or str(error)) from error
        self._lines, self._bytes = [], 0

    def close(self) -> None:
        """Close the sink."""
        os.close(self._fd)

    def _row(self, record: RequestRecord) -> None:
        line = _encode(record) + b"\n"
        self._lines.append(line)
        self._bytes += len(line)
        self.rows += 1
        if record.first_byte_ns is not None:
            self.answered += 1
        if record.status in ("failed", "truncated"):
            self.failed += 1
            self.unreachable += record.reason in UNREACHABLE
            self.first_failure = self.first_failure or f"{record.reason}: {record.detail}"
        tokens = record.output_tokens or 0
        self.output_tokens += tokens
        if record.phase == "measured":
            self.measured_tokens += tokens
            self.accepted += record.spec_accepted or 0
            self.verify_steps += record.spec_verify_ct or 0
