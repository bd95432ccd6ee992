"""Replies of SGLang and vLLM, event by event, into the record of one request.

Counts come from the server and from nowhere else: cumulative `completion_tokens` of `meta_info` or
of continuous usage, the final usage, and the server's own speculation counters under whichever
name its version gives them. An event counts as a chunk when it carries content or reasoning; role,
finish and usage events never do. Nothing is guessed: where a server is silent the field stays None.
"""

import hashlib

import msgspec

from specbench.model.load import Api, Reason, RequestRecord


class _SpecCounters(msgspec.Struct, gc=False):
    """SGLang's speculation counters under the names of all versions since 0.4.6.

    0.5.12 renamed them; until 0.5.20 old and new names came together, 0.5.23 has the new ones only.
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
    cached_tokens: int | None = None
    num_retractions: int | None = None


class _GenerateEvent(msgspec.Struct, gc=False):
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: _MetaInfo | None = None
    error: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Message | None = None
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    meta_info: _MetaInfo | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _SglExt(msgspec.Struct, gc=False):
    spec_tokens_details: _SpecCounters | None = None


class _VllmSpec(msgspec.Struct, gc=False):
    """vLLM 0.32 `metrics.speculative_decoding`; its steps are those that had a draft."""

    num_spec_steps: int | None = None
    num_accepted_draft_tokens: int | None = None
    num_draft_tokens: int | None = None
    acceptance_histogram: list[int] | None = None
    mean_acceptance_length: float | None = None


class _Metrics(msgspec.Struct, gc=False):
    speculative_decoding: _VllmSpec | None = None


class _OpenAiEvent(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    sglext: _SglExt | None = None
    metrics: _Metrics | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None


_NO_CHOICE = _Choice()
_decode_generate = msgspec.json.Decoder(_GenerateEvent).decode
_decode_openai = msgspec.json.Decoder(_OpenAiEvent).decode


class ReplyReader:
    """Reads one reply: its SSE payloads, or its body as one event, then `finish`.

    `record` is filled in place. A reply that cannot be understood sets `failure` and reads no
    further. `done` says that the server's own end (`[DONE]`, a finish reason) was seen.
    """

    def __init__(self, api: Api, record: RequestRecord, *, keep_text: bool) -> None:
        self.record = record
        self.failure: tuple[Reason, str] | None = None
        self.done = False
        self._generate = api == "generate"
        self._keep_text = keep_text
        self._parts: list[str] = []
        self._ids: list[int] | None = None
        self._last_text: str | None = None
        self._cumulative = True
        self._counted = 0
        self._total: int | None = None
        self._contradiction = ""

    def events(self, payloads: list[bytes], stamps_ns: list[int]) -> None:
        """Read SSE payloads in order, each with its arrival: as `event` for each, but faster."""
        if self.failure is not None or not payloads:
            return
        body = payloads[:-1] if payloads[-1] == b"[DONE]" else payloads
        try:
            if self._generate:
                for number, generated in enumerate(list(map(_decode_generate, body))):
                    self._generate_event(generated, body[number], stamps_ns[number])
            else:
                self._openai_events(list(map(_decode_openai, body)), body, stamps_ns)
        except (msgspec.DecodeError, UnicodeDecodeError):
            for payload, stamp_ns in zip(body, stamps_ns, strict=False):
                self.event(payload, stamp_ns)
        if body is not payloads:
            self.done = True

    def event(self, payload: bytes, stamp_ns: int) -> None:
        """Read one SSE payload, or a whole reply that came as one JSON document."""
        if self.failure is not None:
            return
        if payload == b"[DONE]":
            self.done = True
            return
        try:
            if self._generate:
                self._generate_event(_decode_generate(payload), payload, stamp_ns)
            else:
                self._openai_event(_decode_openai(payload), payload, stamp_ns)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.failure = ("bad_json", f"{error}: {_excerpt(payload)}")

    def finish(self) -> None:
        """Settle counts, hash and chunk times; contradictions become `bad_count`."""
        record = self.record
        if record.chunk_ns:
            record.first_token_ns = record.chunk_ns[0]
            record.last_token_ns = record.chunk_ns[-1]
        text = self._text()
        record.text_bytes = len(text.encode("utf-8", "surrogatepass"))
        if text or self._ids:
            record.output_sha256 = _digest(text, self._ids)
        if self._keep_text:
            record.text, record.output_ids = text, self._ids
        record.output_tokens = self._total
        if self._total is None:
            record.count_source = ""
        self._settle_chunks()
        if record.status == "ok" and not record.reason:
            if self._total is None:
                record.reason = "no_usage"
            elif self._contradiction:
                record.reason, record.detail = "bad_count", self._contradiction

    def _settle_chunks(self) -> None:
        record = self.record
        if self._total == 0 and record.chunk_ns:
            self._contradiction = "the server counted no token, yet sent content"
        if self._total is not None and self._counted > self._total:
            self._contradiction = f"counted {self._counted} in the stream, {self._total} at its end"
        complete = len(record.chunk_tokens) == len(record.chunk_ns)
        if self._contradiction or not complete:
            record.chunk_tokens = []
        elif record.chunk_tokens:
            record.tokens_in_first_chunk = record.chunk_tokens[0]

    def _chunk(self, stamp_ns: int, cumulative: int | None) -> None:
        record = self.record
        record.chunk_ns.append(stamp_ns)
        if cumulative is not None:
            if cumulative < self._counted:
                self._fell(cumulative)
            record.chunk_tokens.append(cumulative - self._counted)
            self._counted = cumulative

    def _fell(self, count: int) -> None:
        self._contradiction = f"the count fell from {self._counted} to {count}"

    def _generate_event(self, event: _GenerateEvent, payload: bytes, stamp_ns: int) -> None:
        if self.failure is not None:
            return
        meta = event.meta_info
        if meta is None:
            self._refused(event.error, payload)
            return
        count = meta.completion_tokens
        if self._take_generated(event, count):
            self._chunk(stamp_ns, count)
        if count is not None:
            self._total = count
        record = self.record
        record.prompt_tokens = meta.prompt_tokens
        record.cached_tokens = meta.cached_tokens
        record.retractions = meta.num_retractions
        if meta.finish_reason is not None:
            self._finished(meta.finish_reason)
            self._sglang_spec(meta)

    def _take_generated(self, event: _GenerateEvent, count: int | None) -> bool:
        """Take cumulative or incremental text and ids; says whether there was anything new.

        SGLang sends the whole text so far unless it was started with --incremental-streaming-output
        (--stream-output before 0.5.10). Ids tell which: cumulative ones are as many as counted.
        Without ids, text is cumulative as long as each one begins with the one before.
        """
        text, ids = event.text, event.output_ids
        if ids is not None and count is not None and self._last_text is not None:
            self._cumulative = len(ids) == count
        elif ids is None and text is not None and self._last_text is not None:
            self._cumulative = self._cumulative and text.startswith(self._last_text)
        if ids is not None:
            self._ids = ids if self._cumulative or self._ids is None else self._ids + ids
        if text is None:
            fresh = bool(ids)
        elif self._cumulative:
            fresh = text != (self._last_text or "")
            self._parts = [text]
        else:
            fresh = bool(text)
            self._parts.append(text)
        self._last_text = text or ""
        return fresh

    def _openai_events(
        self, events: list[_OpenAiEvent], payloads: list[bytes], stamps_ns: list[int]
    ) -> None:
        """Read decoded events; the plain content event, nearly all of them, without a call."""
        say, arrive = self._parts.append, self.record.chunk_ns.append
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
                self._openai_event(event, payload, stamp_ns)
                if self.failure is not None:
                    return
                continue
            say(text)
            arrive(stamp_ns)
            if usage is not None and (count := usage.completion_tokens) is not None:
                if count < self._counted:
                    self._fell(count)
                tokens.append(count - self._counted)
                self._counted = self._total = count

    def _openai_event(self, event: _OpenAiEvent, payload: bytes, stamp_ns: int) -> None:
        if self.failure is not None:
            return
        if event.choices is None:
            self._refused(event.error, payload)
            return
        usage = event.usage
        count = usage.completion_tokens if usage is not None else None
        if event.choices:
            choice = event.choices[0]
            piece = _piece(choice)
            if piece:
                self._parts.append(piece)
                self._chunk(stamp_ns, count)
            if choice.token_ids:
                self._ids = (self._ids or []) + choice.token_ids
            if choice.meta_info is not None:
                self._sglang_spec(choice.meta_info)
            if choice.finish_reason is not None:
                self._finished(choice.finish_reason)
        if usage is not None:
            self._usage(usage)
        if event.sglext is not None and event.sglext.spec_tokens_details is not None:
            self._sglang_spec(event.sglext.spec_tokens_details)
        if event.metrics is not None and event.metrics.speculative_decoding is not None:
            self._vllm_spec(event.metrics.speculative_decoding)

    def _usage(self, usage: _Usage) -> None:
        record = self.record
        if usage.completion_tokens is not None:
            self._total = usage.completion_tokens
        if usage.prompt_tokens is not None:
            record.prompt_tokens = usage.prompt_tokens
        if usage.prompt_tokens_details is not None:
            record.cached_tokens = usage.prompt_tokens_details.cached_tokens

    def _finished(self, finish: _Finish | str) -> None:
        kind, message = (finish, "") if isinstance(finish, str) else (finish.type, finish.message)
        self.record.finish_reason = kind
        self.done = True
        if kind == "abort":
            self.failure = ("server_abort", message)

    def _refused(self, error: msgspec.Raw, payload: bytes) -> None:
        """Read an event without a reply in it: the server's error, or not a reply at all."""
        if bytes(error) not in (b"", b"null") or b'"error"' in payload:
            self.failure = ("error_event", error_message(payload))
        else:
            self.failure = ("bad_json", f"not a reply: {_excerpt(payload)}")

    def _sglang_spec(self, spec: _SpecCounters) -> None:
        if spec.spec_verify_ct is None:
            return
        record = self.record
        record.spec_verify_ct = spec.spec_verify_ct
        record.spec_accept_length_server = spec.spec_accept_length
        record.spec_accepted = _first(
            spec.spec_num_correct_drafts, spec.spec_accepted_drafts, spec.spec_accept_token_num
        )
        record.spec_proposed = _first(
            spec.spec_num_proposed_drafts, spec.spec_proposed_drafts, spec.spec_draft_token_num
        )
        record.spec_histogram = spec.spec_correct_drafts_histogram or spec.spec_accept_histogram

    def _vllm_spec(self, spec: _VllmSpec) -> None:
        record = self.record
        record.spec_verify_ct = spec.num_spec_steps
        record.spec_accept_length_server = spec.mean_acceptance_length
        record.spec_accepted = spec.num_accepted_draft_tokens
        record.spec_proposed = spec.num_draft_tokens
        record.spec_histogram = spec.acceptance_histogram

    def _text(self) -> str:
        return "".join(self._parts)


def error_message(body: bytes) -> str:
    """Find the sentence in an error body of any of the servers; its beginning when there is none.

    Forms: {"error": {"message": ...}}, {"error": "..."}, {"message": ...}, {"detail": ...}.
    """
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _excerpt(body)
    while isinstance(document, dict):
        for key in ("error", "message", "detail"):
            if document.get(key):
                document = document[key]
                break
        else:
            return _excerpt(body)
    return str(document)[:300]


def _piece(choice: _Choice) -> str:
    """Join the text that an event of either OpenAI API adds, reasoning before content."""
    said = choice.delta or choice.message
    if said is None:
        return choice.text or ""
    return (said.reasoning_content or said.reasoning or "") + (said.content or "")


def _digest(text: str, ids: list[int] | None) -> str:
    """Hash the text, and the ids where the server gave them: equal for equal greedy outputs."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    if ids is not None:
        digest.update(b"\0" + msgspec.json.encode(ids))
    return digest.hexdigest()


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _excerpt(payload: bytes) -> str:
    return payload[:200].decode("utf-8", "replace")
