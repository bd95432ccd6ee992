"""llama.cpp's own /completion: the endpoint that gives token ids. It has no scores of a prompt."""

from collections.abc import Sequence
from typing import Any

import msgspec

from specbench.backends.answers import documents, field, number, read
from specbench.backends.backend import Ask, HttpRequest
from specbench.backends.llamacpp.replies import Timings, take_timings
from specbench.backends.openai import requests
from specbench.backends.replies import Reading, excerpt, is_heartbeat, lenient
from specbench.backends.scored import Answer, Malformed
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import Reason, RequestRecord


class _Event(msgspec.Struct, gc=False):
    content: str | None = None
    tokens: list[int] | None = None
    stop: bool = False
    stop_type: str | None = None
    tokens_predicted: int | None = None
    tokens_evaluated: int | None = None
    timings: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()


_decode = msgspec.json.Decoder(_Event).decode
_ENDS = {"limit": "length", "eos": "stop", "word": "stop"}


class NativeReader:
    """Reads one reply of /completion: every event adds content and ids."""

    __slots__ = ("_reading", "record")

    def __init__(self, record: RequestRecord, *, keep_text: bool) -> None:
        self.record = record
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
        """Read SSE payloads in order, each with its arrival."""
        for payload, stamp_ns in zip(payloads, stamps_ns, strict=False):
            self.event(payload, stamp_ns)

    def event(self, payload: bytes, stamp_ns: int) -> None:
        """Read one SSE payload, or a whole reply that came as one JSON document."""
        reading = self._reading
        if reading.failure is not None or is_heartbeat(payload):
            return
        if payload == b"[DONE]":
            reading.done = True
            return
        try:
            self._read(self._decode(payload), payload, stamp_ns)
        except NOT_JSON as error:
            reading.failure = ("bad_json", f"{why_not(error)}: {excerpt(payload)}")

    def finish(self) -> None:
        """Settle counts, hash and chunk times; contradictions become `bad_count`."""
        self._reading.finish()

    def _decode(self, payload: bytes) -> _Event:
        try:
            return _decode(payload)
        except NOT_JSON:
            return lenient(payload, _Event)

    def _read(self, event: _Event, payload: bytes, stamp_ns: int) -> None:
        reading, record = self._reading, self.record
        if event.content is None:
            reading.refused(event.error, payload)
            return
        if event.content:
            reading.parts.append(event.content)
            reading.chunk(stamp_ns, event.tokens_predicted)
        if event.tokens:
            reading.ids = (reading.ids or []) + event.tokens
        if event.tokens_predicted is not None:
            reading.total = event.tokens_predicted
        record.prompt_tokens = event.tokens_evaluated
        if event.stop:
            take_timings(event.timings, record)
            reading.finished(_ENDS.get(event.stop_type or "", event.stop_type or "stop"))


def body(ask: Ask) -> dict[str, Any]:
    """Return the JSON of a request; filters that are off are said to be, for none is by default."""
    sampling = ask.sampling
    document: dict[str, Any] = {
        "prompt": requests.text_or_ids(ask.prompt, ask.api),
        "n_predict": requests.max_tokens(ask),
        **requests.common(sampling),
        "top_k": max(sampling.top_k, 0),
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos,
        "stream": ask.stream,
        "return_tokens": ask.ids,
        "cache_prompt": not ask.salt,
    }
    if ask.logprobs:
        document["n_probs"] = max(ask.top, 1)
    if ask.bias:
        document["logit_bias"] = [[token, bias] for token, bias in ask.bias]
    return document


def answers(ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
    """Read the events of a stream, or the one document of another answer."""
    if ask.n != 1:
        raise Malformed("one answer a request is all that it gives")

    def reader(record: RequestRecord) -> NativeReader:
        return NativeReader(record, keep_text=True)

    events = documents(payloads)
    record = read(reader, payloads)
    entries = [e for event in events for e in event.get("completion_probabilities") or ()]
    return [
        Answer(
            record=record,
            ids=tuple(record.output_ids or ()),
            text=record.text or "",
            logp=tuple(number(entry.get("logprob")) for entry in entries),
            top_ids=tuple(tuple(int(t["id"]) for t in _likeliest(entry)) for entry in entries),
            top_logp=tuple(
                tuple(number(t.get("logprob")) for t in _likeliest(entry)) for entry in entries
            ),
        )
    ]


def _likeliest(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return list(entry.get("top_logprobs") or ())


def tokenise(text: str) -> HttpRequest:
    """Ask for the ids of a text, special tokens included, as generation sees it."""
    document = {"content": text, "add_special": True, "parse_special": True}
    return HttpRequest(path="/tokenize", method="POST", body=msgspec.json.encode(document))


def token_ids(body: bytes) -> tuple[int, ...]:
    """Read the ids of a text."""
    return tuple(field(documents([body])[0], "tokens", list))
