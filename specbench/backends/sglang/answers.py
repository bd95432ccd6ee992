"""Whole answers of /generate, and its scores."""

from collections.abc import Sequence
from typing import Any

import msgspec

from specbench.backends.answers import documents, field, number, read, same_tokens
from specbench.backends.backend import Ask, HttpRequest
from specbench.backends.scored import Answer, Malformed, Scored
from specbench.backends.sglang.replies import GenerateReader
from specbench.model.load import RequestRecord


def answers(ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
    """Read the events of a stream, or the one document of another answer."""
    found = documents(payloads)
    if ask.stream:
        return [_answer(found, rounds=_rounds(found))]
    parts = found[0] if isinstance(found[0], list) else [found[0]]
    if not parts:
        raise Malformed("no completion in the answer")
    return [_answer([part], rounds=()) for part in parts]


def _answer(events: Sequence[Any], *, rounds: tuple[int, ...]) -> Answer:
    def reader(record: RequestRecord) -> GenerateReader:
        return GenerateReader(record, keep_text=True)

    for event in events:
        if isinstance(event, dict) and "error" in event:
            raise Malformed(f"the stream reports an error: {event['error']}")
        field(event, "meta_info", dict)
    record = read(reader, [msgspec.json.encode(event) for event in events])
    meta = events[-1]["meta_info"]
    finish = meta.get("finish_reason")
    matched = finish.get("matched") if isinstance(finish, dict) else None
    entries = meta.get("output_token_logprobs") or []
    top = meta.get("output_top_logprobs") or []
    return Answer(
        record=record,
        ids=tuple(record.output_ids or ()),
        text=record.text or "",
        matched=matched if record.finish_reason == "stop" and isinstance(matched, int) else None,
        logp=tuple(number(entry[0]) for entry in entries),
        pieces=tuple(str(e[2]) for e in entries if len(e) > 2 and e[2] is not None),
        rounds=rounds,
        top_ids=tuple(tuple(e[1] for e in row or ()) for row in top),
        top_logp=tuple(tuple(number(e[0]) for e in row or ()) for row in top),
    )


def _rounds(events: Sequence[Any]) -> tuple[int, ...]:
    counts = [int(field(e, "meta_info", dict).get("completion_tokens") or 0) for e in events]
    return tuple(b - a for a, b in zip([0, *counts], counts, strict=False) if b > a)


def score(ids: Sequence[int], start: int, top: int, *, least_new: int) -> HttpRequest:
    """Ask for the conditionals at ids[start:].

    `logprob_start_len` is start - 1: SGLang gives no logits for the entry at the start itself.
    """
    return _generate(
        {
            "input_ids": list(ids),
            "return_logprob": True,
            "logprob_start_len": max(start - 1, 0),
            "top_logprobs_num": top,
            "sampling_params": {"max_new_tokens": least_new, "temperature": 0.0},
        }
    )


def scores(ids: Sequence[int], start: int, body: bytes) -> Scored:
    """Read the conditionals at ids[start:] (start >= 1)."""
    meta = field(documents([body])[0], "meta_info", dict)
    chosen = field(meta, "input_token_logprobs", list)
    top = meta.get("input_top_logprobs") or []
    count = len(ids) - start
    chosen, top = chosen[len(chosen) - count :], top[len(top) - count :] if top else []
    same_tokens([entry[1] for entry in chosen], ids[start:])
    return Scored(
        ids=tuple(ids[start:]),
        logp=tuple(number(entry[0]) for entry in chosen),
        top_ids=tuple(tuple(e[1] for e in row or ()) for row in top),
        top_logp=tuple(tuple(number(e[0]) for e in row or ()) for row in top),
    )


def tokenise(text: str) -> HttpRequest:
    """Ask for the ids of a text; versions without /tokenize have them beside its scores."""
    beside_scores = _generate(
        {
            "text": text,
            "return_logprob": True,
            "logprob_start_len": 0,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        }
    )
    document = msgspec.json.encode({"prompt": text, "model": ""})
    return HttpRequest(path="/tokenize", method="POST", body=document, otherwise=beside_scores)


def token_ids(body: bytes) -> tuple[int, ...]:
    """Read the ids of a text."""
    document = documents([body])[0]
    if isinstance(document, dict) and "tokens" in document:
        return tuple(field(document, "tokens", list))
    meta = field(document, "meta_info", dict)
    return tuple(entry[1] for entry in field(meta, "input_token_logprobs", list))


def _generate(body: dict[str, Any]) -> HttpRequest:
    return HttpRequest(path="/generate", method="POST", body=msgspec.json.encode(body))
