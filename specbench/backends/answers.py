"""Whole answers by token ids, as losslessness is judged on, and the target's scores of them."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from specbench.backends.backend import ReplyReader
from specbench.backends.scored import Malformed
from specbench.model.json_text import NOT_JSON, why_not
from specbench.model.load import RequestRecord


class _Reads(Protocol):
    def __call__(self, record: RequestRecord) -> ReplyReader: ...


def read(make: _Reads, payloads: Sequence[bytes]) -> RequestRecord:
    """Let the reader of replies fill a record. Raises Malformed for what it cannot read."""
    record = RequestRecord(rid="", prompt_id="")
    reader = make(record)
    for number, payload in enumerate(payloads):
        reader.event(payload, number)
    reader.finish()
    if record.finish_reason == "abort" and reader.failure is not None:
        raise Malformed(f"the server aborted a request: {reader.failure[1]}")
    if reader.failure is not None:
        raise Malformed(": ".join(reader.failure))
    if record.output_ids is None:
        raise Malformed("no token ids in the answer")
    return record


def documents(payloads: Sequence[bytes]) -> list[Any]:
    """Decode the events of an answer. Raises Malformed for one that is not JSON, or none at all."""
    try:
        found = [msgspec.json.decode(p) for p in payloads if p.strip() and p != b"[DONE]"]
    except NOT_JSON as error:
        raise Malformed(f"not JSON: {why_not(error)}") from None
    if not found:
        raise Malformed("the answer is empty")
    return found


def field(document: Any, name: str, kind: type) -> Any:
    """Return a field of an object. Raises Malformed where it is missing or of another type."""
    value = document.get(name) if isinstance(document, dict) else None
    if not isinstance(value, kind):
        raise Malformed(f"no `{name}` in the answer")
    return value


def same_tokens(said: Sequence[int], sent: Sequence[int], *, exact: bool = True) -> None:
    """Check that scores are about the tokens sent. Raises Malformed."""
    if len(said) != len(sent) or (exact and list(said) != list(sent)):
        raise Malformed(f"scores for {len(said)} other tokens instead of the {len(sent)} sent")


def number(value: Any) -> float:
    """Log-probability of a JSON entry; minus infinity is clamped, null is NaN."""
    return math.nan if value is None else max(float(value), -1e4)
