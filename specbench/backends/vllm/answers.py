"""Whole answers of vLLM's completions by token ids, and its scores."""

from collections.abc import Sequence
from typing import Any

import msgspec

from specbench.backends.answers import documents, field, number, read, same_tokens
from specbench.backends.backend import Ask, HttpRequest
from specbench.backends.openai.replies import OpenAiReader
from specbench.backends.scored import Answer, Malformed, Scored
from specbench.backends.vllm.replies import DIALECT
from specbench.model.load import RequestRecord


def answers(ask: Ask, payloads: Sequence[bytes]) -> list[Answer]:
    """Read the events of a stream, or the one document of another answer."""
    events = documents(payloads)
    failed = next((e for e in events if isinstance(e, dict) and "error" in e), None)
    if failed is not None:
        raise Malformed(f"the stream reports an error: {failed['error']}")
    if ask.stream:
        chunks = [choice for event in events for choice in event.get("choices") or ()]
        sizes = tuple(size for c in chunks if (size := len(c.get("token_ids") or ())))
        return [_answer(events, chunks, rounds=sizes)]
    whole = events[0]
    choices = field(whole, "choices", list)
    if not choices:
        raise Malformed("no completion in the answer")
    # The counts of several choices together are those of none.
    shared = whole if len(choices) == 1 else {}
    return [_answer([{**shared, "choices": [one]}], [one], rounds=()) for one in choices]


def _answer(events: Sequence[Any], choices: Sequence[Any], *, rounds: tuple[int, ...]) -> Answer:
    def reader(record: RequestRecord) -> OpenAiReader[Any]:
        return OpenAiReader(DIALECT, record, keep_text=True)

    for choice in choices:
        field(choice, "token_ids", list)
    record = read(reader, [msgspec.json.encode(event) for event in events])
    said = [(choice.get("logprobs") or {}).get("token_logprobs") or () for choice in choices]
    top = [row for choice in choices for row in _likeliest(choice)]
    matched = next((c["stop_reason"] for c in choices if c.get("stop_reason") is not None), None)
    return Answer(
        record=record,
        ids=tuple(record.output_ids or ()),
        text=record.text or "",
        matched=matched if isinstance(matched, int) else None,
        logp=tuple(number(value) for values in said for value in values),
        rounds=rounds,
        top_ids=tuple(tuple(int(name.rpartition(":")[2]) for name in row) for row in top),
        top_logp=tuple(tuple(number(x) for x in row.values()) for row in top),
    )


def _likeliest(choice: Any) -> list[dict[str, float]]:
    """Return the likeliest tokens at each place, named by id, the likeliest first."""
    rows = (choice.get("logprobs") or {}).get("top_logprobs") or ()
    return [dict(sorted((row or {}).items(), key=lambda kv: -kv[1])) for row in rows]


def score(ids: Sequence[int], top: int, *, model: str) -> HttpRequest:
    """Ask for the conditionals of a prompt."""
    return _completion(
        {
            "model": model,
            "prompt": list(ids),
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": top,
            "return_token_ids": True,
        }
    )


def scores(ids: Sequence[int], start: int, body: bytes) -> Scored:
    """Read the conditionals at ids[start:] (start >= 1)."""
    choice = field(documents([body])[0], "choices", list)[0]
    rows = field(choice, "prompt_logprobs", list)[start:]
    said = [int(next(iter(row))) if row else -1 for row in rows]
    same_tokens(said, ids[start:], exact=False)
    ordered = [sorted(row.items(), key=lambda entry: -entry[1]["logprob"]) for row in rows]
    return Scored(
        ids=tuple(ids[start:]),
        logp=tuple(row[str(t)]["logprob"] for row, t in zip(rows, ids[start:], strict=True)),
        top_ids=tuple(tuple(int(k) for k, _ in row) for row in ordered),
        top_logp=tuple(tuple(v["logprob"] for _, v in row) for row in ordered),
    )


def tokenise(text: str, *, model: str) -> HttpRequest:
    """Ask for the ids of a text as generation sees it."""
    return _completion(
        {
            "model": model,
            "prompt": text,
            "max_tokens": 1,
            "temperature": 0.0,
            "return_token_ids": True,
        }
    )


def token_ids(body: bytes) -> tuple[int, ...]:
    """Read the ids of a text."""
    choice = field(documents([body])[0], "choices", list)[0]
    return tuple(field(choice, "prompt_token_ids", list))


def _completion(body: dict[str, Any]) -> HttpRequest:
    return HttpRequest(path="/v1/completions", method="POST", body=msgspec.json.encode(body))
