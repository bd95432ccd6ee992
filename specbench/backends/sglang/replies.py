"""Replies of SGLang: its native endpoint, and what it adds to the OpenAI API."""

import msgspec

from specbench.backends.openai.replies import Choice, Dialect, OpenAiEvent
from specbench.backends.replies import Reading, excerpt, first_given, is_heartbeat, lenient
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import Reason, RequestRecord


class _SpecCounters(msgspec.Struct, gc=False):
    """Speculation counters under the names of all versions since 0.4.6.

    0.5.12 renamed them; until 0.5.20 old and new names came together, 0.5.23 has the new ones only.
    Every verify step is counted, and every one verifies drafts.
    """

    spec_verify_ct: int | None = None
    spec_accept_length: float | None = None
    spec_num_correct_drafts: int | None = None
    spec_num_proposed_drafts: int | None = None
    spec_correct_drafts_histogram: list[int] | None = None
    spec_accepted_drafts: int | None = None
    spec_proposed_drafts: int | None = None
    spec_accept_histogram: list[int] | None = None
    spec_accept_token_num: int | None = None
    spec_draft_token_num: int | None = None


class _Finish(msgspec.Struct, gc=False):
    type: str = ""
    message: str = ""


class _MetaInfo(_SpecCounters, gc=False):
    finish_reason: _Finish | str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    num_retractions: int | None = None


class _GenerateEvent(msgspec.Struct, gc=False):
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: _MetaInfo | None = None
    error: msgspec.Raw = msgspec.Raw()


class _SglChoice(Choice, gc=False):
    meta_info: _MetaInfo | None = None


class _SglExt(msgspec.Struct, gc=False):
    spec_tokens_details: _SpecCounters | None = None


class _SglEvent(OpenAiEvent, gc=False):
    choices: list[_SglChoice] | None = None  # type: ignore[assignment]  # a wider choice
    sglext: _SglExt | None = None


def _counters(event: _SglEvent, record: RequestRecord) -> None:
    if event.choices and event.choices[0].meta_info is not None:
        _take(event.choices[0].meta_info, record)
    if event.sglext is not None and event.sglext.spec_tokens_details is not None:
        _take(event.sglext.spec_tokens_details, record)


DIALECT = Dialect(_SglEvent, _counters)
_decode = msgspec.json.Decoder(_GenerateEvent).decode


class GenerateReader:
    """Reads one reply of /generate."""

    __slots__ = ("_cumulative", "_last_text", "_reading", "record")

    def __init__(self, record: RequestRecord, *, keep_text: bool) -> None:
        self.record = record
        self._reading = Reading(record, keep_text=keep_text)
        self._last_text: str | None = None
        self._cumulative = True

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
            for number, event in enumerate(list(map(_decode, body))):
                self._read(event, body[number], stamps_ns[number])
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

    def _decode(self, payload: bytes) -> _GenerateEvent:
        try:
            return _decode(payload)
        except NOT_JSON:
            return lenient(payload, _GenerateEvent)

    def _read(self, event: _GenerateEvent, payload: bytes, stamp_ns: int) -> None:
        reading = self._reading
        if reading.failure is not None:
            return
        meta = event.meta_info
        if meta is None:
            if not is_heartbeat(payload):
                reading.refused(event.error, payload)
            return
        count = meta.completion_tokens
        if self._take_text(event, count):
            reading.chunk(stamp_ns, count)
        if count is not None:
            reading.total = count
        record = self.record
        record.prompt_tokens = meta.prompt_tokens
        record.cached_tokens = meta.cached_tokens
        record.reasoning_tokens = meta.reasoning_tokens
        record.retractions = meta.num_retractions
        match meta.finish_reason:
            case None:
                return
            case str() as kind:
                reading.finished(kind)
            case _Finish(type=kind, message=message):
                reading.finished(kind, message)
        _take(meta, record)

    def _take_text(self, event: _GenerateEvent, count: int | None) -> bool:
        """Take cumulative or incremental text and ids; says whether there was anything new.

        SGLang sends the whole text so far unless it was started with --incremental-streaming-output
        (--stream-output before 0.5.10). Ids tell which: cumulative ones are as many as counted.
        Without ids, text is cumulative as long as each one begins with the one before.
        """
        reading = self._reading
        text, ids = event.text, event.output_ids
        if ids is not None and count is not None and self._last_text is not None:
            self._cumulative = len(ids) == count
        elif ids is None and text is not None and self._last_text is not None:
            self._cumulative = self._cumulative and text.startswith(self._last_text)
        if ids is not None:
            reading.ids = ids if self._cumulative or reading.ids is None else reading.ids + ids
        if text is None:
            fresh = bool(ids)
        elif self._cumulative:
            fresh = text != (self._last_text or "")
            reading.parts = [text]
        else:
            fresh = bool(text)
            reading.parts.append(text)
        self._last_text = text or ""
        return fresh


def _take(spec: _SpecCounters, record: RequestRecord) -> None:
    if spec.spec_verify_ct is None:
        return
    record.spec_verify_ct = spec.spec_verify_ct
    record.spec_accept_length_server = spec.spec_accept_length
    record.spec_accepted = first_given(
        spec.spec_num_correct_drafts, spec.spec_accepted_drafts, spec.spec_accept_token_num
    )
    record.spec_proposed = first_given(
        spec.spec_num_proposed_drafts, spec.spec_proposed_drafts, spec.spec_draft_token_num
    )
    record.spec_histogram = spec.spec_correct_drafts_histogram or spec.spec_accept_histogram
