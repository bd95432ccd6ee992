"""What every reader of replies does alike: text, chunks, counts, and how they are settled.

Counts come from the server and from nowhere else. An event counts as a chunk when it carries
content or reasoning; role, finish and usage events never do. Nothing is guessed: where a server is
silent the field stays None.
"""

import hashlib
import json
from typing import Any, TypeVar

import msgspec

from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import Reason, RequestRecord

Event = TypeVar("Event")

MOST = 10**12
"""No reply has more tokens or steps than this: a larger count is not one, and fits no table."""
_COUNTS = (
    "prompt_tokens", "cached_tokens", "reasoning_tokens", "retractions", "spec_drafted_steps",
    "spec_verify_ct", "spec_accepted", "spec_proposed",
)  # fmt: skip


class Reading:
    """The state of one reply while it is read; its record is filled in place."""

    __slots__ = (
        "contradiction", "counted", "done", "failure", "ids", "keep_text", "parts", "record",
        "total",
    )  # fmt: skip

    def __init__(self, record: RequestRecord, *, keep_text: bool) -> None:
        self.record = record
        self.keep_text = keep_text
        self.failure: tuple[Reason, str] | None = None
        self.done = False
        self.parts: list[str] = []
        self.ids: list[int] | None = None
        self.counted = 0
        self.total: int | None = None
        self.contradiction = ""

    def chunk(self, stamp_ns: int, cumulative: int | None) -> None:
        """Note the arrival of content, and the tokens generated up to it where that is said."""
        record = self.record
        record.chunk_ns.append(stamp_ns)
        if cumulative is not None:
            if cumulative < self.counted:
                self.fell(cumulative)
            record.chunk_tokens.append(cumulative - self.counted)
            self.counted = cumulative

    def fell(self, count: int) -> None:
        """Note that a cumulative count went down."""
        self.contradiction = f"the count fell from {self.counted} to {count}"

    def finished(self, kind: str, message: str = "") -> None:
        """Note the server's own end of the reply."""
        self.record.finish_reason = kind
        self.done = True
        if kind == "abort":
            self.failure = ("server_abort", message)

    def refused(self, error: msgspec.Raw, payload: bytes) -> None:
        """Read an event without a reply in it: the server's error, or not a reply at all."""
        if bytes(error) not in (b"", b"null") or b'"error"' in payload:
            self.failure = ("error_event", error_message(payload))
        else:
            self.failure = ("bad_json", f"not a reply: {excerpt(payload)}")

    def finish(self) -> None:
        """Settle counts, hash and chunk times; contradictions become `bad_count`."""
        record = self.record
        if record.chunk_ns:
            record.first_token_ns = record.chunk_ns[0]
            record.last_token_ns = record.chunk_ns[-1]
        text = _whole("".join(self.parts))
        record.text_bytes = len(text.encode("utf-8", "surrogatepass"))
        if text or self.ids:
            record.output_sha256 = _digest(text, self.ids)
        if self.keep_text:
            record.text, record.output_ids = text, self.ids
        self._refuse_huge()
        record.output_tokens = self.total
        if self.total is None:
            record.count_source = ""
        self._settle_chunks()
        if record.spec_steps_of == "derived":
            settle_steps(record)
        if record.status == "ok" and not record.reason:
            if self.contradiction:
                record.reason, record.detail = "bad_count", self.contradiction
            elif self.total is None:
                record.reason = "no_usage"

    def _refuse_huge(self) -> None:
        """Leave out counts of which no reply has so many."""
        record = self.record
        huge = [name for name in _COUNTS if abs(getattr(record, name) or 0) > MOST]
        for name in huge:
            setattr(record, name, None)
        if any(abs(count) > MOST for count in record.spec_histogram or ()):
            huge.append("the histogram of accepted drafts")
            record.spec_histogram = None
        if self.total is not None and abs(self.total) > MOST:
            huge.append("completion_tokens")
            self.total = None
        if huge:
            self.contradiction = f"the server counted more than 10^12: {', '.join(huge)}"

    def _settle_chunks(self) -> None:
        record = self.record
        if self.total == 0 and record.chunk_ns:
            self.contradiction = "the server counted no token, yet sent content"
        if self.total is not None and self.counted > self.total:
            self.contradiction = f"counted {self.counted} in the stream, {self.total} at its end"
        complete = len(record.chunk_tokens) == len(record.chunk_ns)
        if self.contradiction or not complete:
            record.chunk_tokens = []
        elif record.chunk_tokens:
            record.tokens_in_first_chunk = record.chunk_tokens[0]


def settle_steps(record: RequestRecord) -> None:
    """Count all verify steps where the server counts only those with a draft, or none.

    Each step emits one token beside the drafts that it accepted, and prefill emits the first:
    steps = n - 1 - accepted. Drafts that were accepted past the last token make that too few: then
    it is the steps that were counted. A step without a draft accepted none, so that the histogram
    has it at 0.
    """
    accepted, drafted = record.spec_accepted, record.spec_drafted_steps
    if record.output_tokens is None or accepted is None:
        return
    steps = max(record.output_tokens - 1 - accepted, drafted or 0)
    record.spec_verify_ct = steps
    if record.spec_histogram and drafted is not None:
        first, *rest = record.spec_histogram
        record.spec_histogram = [first + steps - drafted, *rest]


def is_heartbeat(payload: bytes) -> bool:
    """Whether an event only keeps the connection open: nothing, or `{"type": "ping"}`."""
    if not payload.strip():
        return True
    if b'"ping"' not in payload or len(payload) > 64:
        return False
    try:
        return bool(msgspec.json.decode(payload) == {"type": "ping"})
    except NOT_JSON:
        return False


def lenient(payload: bytes, kind: type[Event]) -> Event:
    """Decode an event of a server that bends the form.

    Content as a list of parts is joined, a whole number written 20.0 is a whole number, and half
    of a surrogate pair is kept until its other half comes. Raises msgspec.DecodeError.
    """
    try:
        return msgspec.convert(_straightened(json.loads(payload)), kind)
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(why_not(error)) from None


def _straightened(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _joined(inner) if key in ("content", "text") else _straightened(inner)
                for key, inner in value.items()
                if key != "error"
            }
        case list():
            return [_straightened(inner) for inner in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _joined(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    texts = [part.get("text") if isinstance(part, dict) else part for part in value]
    return "".join(text for text in texts if isinstance(text, str))


def error_message(body: bytes) -> str:
    """Find the sentence in an error body of any of the servers; its beginning when there is none.

    Forms: {"error": {"message": ...}}, {"error": "..."}, {"message": ...}, {"detail": ...}.
    """
    try:
        document = msgspec.json.decode(body)
    except NOT_JSON:
        return excerpt(body)
    while isinstance(document, dict):
        for key in ("error", "message", "detail"):
            if document.get(key):
                document = document[key]
                break
        else:
            return excerpt(body)
    return str(document)[:300]


def excerpt(payload: bytes) -> str:
    """Return the beginning of a payload as text."""
    return payload[:200].decode("utf-8", "replace")


def first_given(*values: int | None) -> int | None:
    """Return the first that is not None: of names that versions changed."""
    return next((value for value in values if value is not None), None)


def _whole(text: str) -> str:
    """Join surrogate halves that came in two events; one that stayed alone becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _digest(text: str, ids: list[int] | None) -> str:
    """Hash the text, and the ids where the server gave them: equal for equal greedy outputs."""
    digest = hashlib.sha256(text.encode())
    if ids is not None:
        digest.update(b"\0" + msgspec.json.encode(ids))
    return digest.hexdigest()
