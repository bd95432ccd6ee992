"""The few HTTP primitives of the server: a request, JSON and text answers, an event stream."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import msgspec

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY = 64 << 20
JSON_HEADERS = [(b"content-type", b"application/json")]
TEXT_HEADERS = [(b"content-type", b"text/plain; charset=utf-8")]
SSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
]
DONE = b"data: [DONE]\n\n"

encode = msgspec.json.Encoder().encode


class BadRequest(Exception):
    """The client's request cannot be served; `status` goes with it, `plain` as a bare string."""

    def __init__(self, message: str, status: int = 400, *, plain: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.plain = plain


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


class CutStream(Exception):
    """A fault breaks the connection off; uvicorn closes it when the application raises."""


@dataclass
class Exchange:
    """One request and the means to answer it; `gone` completes when the client disconnects."""

    scope: Scope
    receive: Receive
    send: Send
    query: dict[str, list[str]] = field(default_factory=dict)
    started: bool = False
    arrived: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))

    @property
    def path(self) -> str:
        """The path, decoded."""
        return str(self.scope["path"])

    def header(self, name: bytes) -> str:
        """Return a request header, or the empty string."""
        return next((v.decode("latin-1") for k, v in self.scope["headers"] if k == name), "")

    async def body(self) -> bytes:
        """Read the whole body. Raises BadRequest (413) beyond 64 MiB, ClientGone on disconnect."""
        chunks, size = [], 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > MAX_BODY:
                raise BadRequest("Request body is too large.", 413)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def gone(self) -> None:
        """Wait until the client disconnects."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of the answer."""
        self.started = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def answer(
        self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] = JSON_HEADERS
    ) -> None:
        """Send a whole answer."""
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [*headers, length])
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def json(self, value: Any, status: int = 200) -> None:
        """Send a JSON answer."""
        await self.answer(status, encode(value))

    async def text(self, value: str, status: int = 200) -> None:
        """Send a plain text answer."""
        await self.answer(status, value.encode(), TEXT_HEADERS)

    async def events(self, events: AsyncIterator[bytes]) -> None:
        """Send an event stream; each item is one or more complete `data:` events."""
        await self.start(200, SSE_HEADERS)
        async for event in events:
            await self.send({"type": "http.response.body", "body": event, "more_body": True})
        await self.send({"type": "http.response.body", "body": DONE, "more_body": False})


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + encode(value) + b"\n\n"


async def first_of(work: Awaitable[None], exchange: Exchange) -> None:
    """Await `work` unless the client disconnects first. Raises ClientGone then."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(exchange.gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        task.result()
    finally:
        task.cancel()
        watch.cancel()
