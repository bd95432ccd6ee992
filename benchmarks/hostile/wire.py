"""What a hostile server can do on the wire, as data: an answer is a tuple of acts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Json = object


@dataclass(frozen=True)
class Pause:
    """Nothing for so long."""

    seconds: float


@dataclass(frozen=True)
class Forever:
    """The same bytes again and again, with a pause between, until the client leaves."""

    piece: bytes
    pause_s: float = 0.0


Act = bytes | Pause | Forever | Literal["hang", "reset", "close"]
Answer = tuple[Act, ...]
"""Acts in order. After the last one the connection is kept, unless the act was to leave it."""

HANG: Answer = ("hang",)
RESET: Answer = ("reset",)
CLOSE: Answer = ("close",)


def document(
    body: bytes | Json,
    status: str = "200 OK",
    kind: str = "application/json",
    headers: Sequence[str] = (),
    length: str | None = None,
    version: str = "HTTP/1.1",
) -> bytes:
    """Write a whole answer; `length` replaces the true Content-Length."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = str(len(content)) if length is None else length
    lines = [f"{version} {status}", f"Content-Type: {kind}", *headers]
    lines += [f"Content-Length: {told}"] if told else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def head(kind: str = "text/event-stream", headers: Sequence[str] = ()) -> bytes:
    """Begin a chunked stream."""
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Transfer-Encoding: chunked", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(content: bytes) -> bytes:
    """Write one chunk."""
    return b"%x\r\n%b\r\n" % (len(content), content)


def event(payload: bytes | Json) -> bytes:
    """Write one event as a chunk of its own."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return chunk(b"data: " + text + b"\n\n")


END = b"0\r\n\r\n"
DONE = event(b"[DONE]")


def stream(*payloads: bytes | Json) -> Answer:
    """Stream the payloads as events, each in a write of its own, and end well."""
    return (head(), *(event(each) for each in payloads), DONE, END)


def words(count: int = 8, text: str = "w ") -> list[Json]:
    """Give the content events of a good reply."""
    return [{"choices": [{"index": 0, "delta": {"content": text}}]} for _ in range(count)]


def finish(reason: Json = "length", **more: Json) -> Json:
    """Give the event that ends a reply."""
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **more}


def usage(count: Json = 8, prompt: Json = 9) -> Json:
    """Give the event that counts."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": count}}
