"""Replies of the OpenAI API, event by event; products add the counters of their own."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from specbench.backends.replies import Reading, excerpt, is_heartbeat, lenient
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import Reason, RequestRecord


class Message(msgspec.Struct, gc=False):
    """A delta or a message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of an event, of either API."""

    delta: Message | None = None
    message: Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """Token counts: at the end, or with every event.

    SGLang puts `reasoning_tokens` beside the counts, OpenAI and vLLM inside the details.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class OpenAiEvent(msgspec.Struct, gc=False):
    """One event, or a whole reply. Products extend it by their own fields."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = msgspec.Raw()


Event = TypeVar("Event", bound=OpenAiEvent)
Counters = Callable[[Event, RequestRecord], None]


class Dialect(Generic[Event]):
    """An event type with its decoder, and what reads a product's counters out of an event."""

    __slots__ = ("counters", "decode", "kind")

    def __init__(self, kind: type[Event], counters: Counters[Event]) -> None:
        self.kind = kind
        self.decode = msgspec.json.Decoder(kind).decode
        self.counters = counters


def no_counters(event: OpenAiEvent, record: RequestRecord) -> None:
    """Read nothing: the API itself has no counters of speculation."""
    del event, record


PLAIN = Dialect(OpenAiEvent, no_counters)
_NO_CHOICE = Choice()


class OpenAiReader(Generic[Event]):
    """Reads one reply of the OpenAI API in the dialect of a product."""

    __slots__ = ("_dialect", "_reading", "record")

    def __init__(self, dialect: Dialect[Event], record: RequestRecord, *, keep_text: bool) -> None:
        self.record = record
        self._dialect = dialect
        self._reading = Reading(record, keep_text=keep_text)

    @property
    def failure(self) -> tuple[Reason, str] | None:
        """The first thing that could not be understood."""
        return self._reading.failure

    @property
    def done(self) -> bool:
        """Whether the server's own end was seen."""
        return self._reading.done

    def events(self, payloads: list[bytes], stamps_ns: list[int]) -> None:
        """Read SSE payloads in order, each with its arrival: as `event` for each, but faster."""
        if self.failure is not None or not payloads:
            return
        body = payloads[:-1] if payloads[-1] == b"[DONE]" else payloads
        try:
            self._read_all(list(map(self._dialect.decode, body)), body, stamps_ns)
        except NOT_JSON:
            for payload, stamp_ns in zip(body, stamps_ns, strict=False):
                self.event(payload, stamp_ns)
        if body is not payloads:
            self._reading.done = True

    def event(self, payload: bytes, stamp_ns: int) -> None:
        """Read one SSE payload, or a whole reply that came as one JSON document."""
        if self.failure is not None or is_heartbeat(payload):
            return
        if payload == b"[DONE]":
            self._reading.done = True
            return
        try:
            event = self._decode(payload)
        except NOT_JSON as error:
            self._reading.failure = ("bad_json", f"{why_not(error)}: {excerpt(payload)}")
        else:
            self._read(event, payload, stamp_ns)

    def finish(self) -> None:
        """Settle counts, hash and chunk times; contradictions become `bad_count`."""
        self._reading.finish()

    def _decode(self, payload: bytes) -> Event:
        try:
            return self._dialect.decode(payload)
        except NOT_JSON:
            return lenient(payload, self._dialect.kind)

    def _read_all(self, events: list[Event], payloads: list[bytes], stamps_ns: list[int]) -> None:
        """Read decoded events; the plain content event, nearly all of them, without a call."""
        reading = self._reading
        say, arrive = reading.parts.append, self.record.chunk_ns.append
        tokens = self.record.chunk_tokens
        for event, payload, stamp_ns in zip(events, payloads, stamps_ns, strict=False):
            choice = event.choices[0] if event.choices else _NO_CHOICE
            said, usage = choice.delta, event.usage
            text = choice.text if said is None else said.content
            if (
                not text
                or choice.finish_reason is not None
                or choice.token_ids is not None
                or (said is not None and (said.reasoning_content or said.reasoning))
            ):
                self._read(event, payload, stamp_ns)
                if reading.failure is not None:
                    return
                continue
            say(text)
            arrive(stamp_ns)
            if usage is not None and (count := usage.completion_tokens) is not None:
                if count < reading.counted:
                    reading.fell(count)
                tokens.append(count - reading.counted)
                reading.counted = reading.total = count

    def _read(self, event: Event, payload: bytes, stamp_ns: int) -> None:
        reading = self._reading
        if reading.failure is not None:
            return
        usage = event.usage
        if event.choices is None and (usage is None or b'"error"' in payload):
            if not is_heartbeat(payload):
                reading.refused(event.error, payload)
            return
        count = usage.completion_tokens if usage is not None else None
        if event.choices:
            choice = event.choices[0]
            piece = _piece(choice)
            if piece:
                reading.parts.append(piece)
                reading.chunk(stamp_ns, count)
            if choice.token_ids:
                reading.ids = (reading.ids or []) + choice.token_ids
            if choice.finish_reason is not None:
                reading.finished(choice.finish_reason)
        if usage is not None:
            self._usage(usage)
        self._dialect.counters(event, self.record)

    def _usage(self, usage: Usage) -> None:
        record = self.record
        if usage.completion_tokens is not None:
            self._reading.total = usage.completion_tokens
        if usage.prompt_tokens is not None:
            record.prompt_tokens = usage.prompt_tokens
        if usage.prompt_tokens_details is not None:
            record.cached_tokens = usage.prompt_tokens_details.cached_tokens
        details = usage.completion_tokens_details
        if details is not None and details.reasoning_tokens is not None:
            record.reasoning_tokens = details.reasoning_tokens
        elif usage.reasoning_tokens is not None:
            record.reasoning_tokens = usage.reasoning_tokens


def _piece(choice: Choice) -> str:
    """Join the text that an event of either API adds, reasoning before content."""
    said = choice.delta or choice.message
    if said is None:
        return choice.text or ""
    return (said.reasoning_content or said.reasoning or "") + (said.content or "")
