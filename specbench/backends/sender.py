"""One server over HTTP, for what is not measured: every request has an end in time and in size."""

import ssl
import threading
import time
from collections.abc import Iterable
from typing import Any

import httpcore
import msgspec

from specbench.backends.backend import HttpRequest
from specbench.backends.base_url import base_url
from specbench.backends.bearer import bearer
from specbench.errors import HostError
from specbench.model.json_text import NOT_JSON
from specbench.model.secrets import Secrets

LARGEST_BYTES = 64 << 20
"""An answer may hold so much: prompt log-probabilities are the largest that there is."""
STREAM_PATIENCE = 5.0
"""A stream may take so many times as long as its silences."""

_OK = 200
_CLOSED = b"without sending a response"
_FAILURES = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError)
# A tunnel accepts for the host and closes at once where nobody listens behind it.
_WORDS: dict[type[Exception], str] = {
    httpcore.ReadTimeout: "it took the request, and did not answer in time",
    httpcore.ConnectTimeout: "no connection in time",
    httpcore.WriteTimeout: "it did not take the request in time",
}
_GONE = (httpcore.ConnectError, httpcore.RemoteProtocolError, httpcore.ReadError)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer: HTTP status and body. `status` 0 means none came, `body` then says why.

    `refused` is true when nobody listens on the port.
    """

    status: int
    body: bytes
    refused: bool = False

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked."""
        return self.status == _OK

    def json(self) -> dict[str, Any]:
        """Decode a JSON object; anything else gives an empty one."""
        try:
            decoded = msgspec.json.decode(self.body)
        except NOT_JSON:
            return {}
        return decoded if isinstance(decoded, dict) else {}


class Sender:
    """Sends requests to one server over HTTP; failure to get an answer is data, no exception.

    `api_key` is the key itself; it is sent as a bearer token and never shown, not even where the
    server repeats it. Proxies of the environment are ignored. `connections` are kept open between
    requests; 0 keeps none.

    Raises InputError or HostError for a URL or a key that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        connections: int = 0,
    ) -> None:
        self.url = base_url(url)
        self._headers = [(b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
        if api_key:
            self._headers.append((b"Authorization", bearer(api_key).encode()))
        self._hidden = Secrets.of([api_key or ""])
        self._keeps = connections > 0
        self._bounds = _Bounds()
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls_context() if self.url.startswith("https:") else None,
            max_connections=connections or None,
            max_keepalive_connections=connections,
            network_backend=_BoundedNetwork(self._bounds),
        )

    def close(self) -> None:
        """Close all connections; the server is not touched."""
        self._pool.close()

    def send(self, request: HttpRequest, *, timeout_s: float | None = None) -> Reply:
        """Send one request and take the whole answer, within `timeout_s` altogether."""
        bound = request.timeout_s if timeout_s is None else timeout_s
        return self._ask(request, bound, bound)[0]

    def events(self, request: HttpRequest, *, timeout_s: float) -> tuple[Reply, list[bytes]]:
        """Send one request and take the payloads of its SSE answer, or its whole body if refused.

        `timeout_s` bounds a silence, and five times that the whole.
        """
        reply, whole = self._ask(request, timeout_s, STREAM_PATIENCE * timeout_s)
        if not reply.ok:
            return reply, _payloads(whole)
        return Reply(status=reply.status, body=b""), _payloads(reply.body)

    def _ask(self, request: HttpRequest, silence_s: float, total_s: float) -> tuple[Reply, bytes]:
        """Give the answer, and what came of one that broke off.

        A server may end a kept connection between two requests; what met its end is sent again.
        """
        reply, came = self._exchange(request, silence_s, total_s)
        if self._keeps and not reply.status and _CLOSED in reply.body and not came:
            return self._exchange(request, silence_s, total_s)
        return reply, came

    def _exchange(
        self, request: HttpRequest, silence_s: float, total_s: float
    ) -> tuple[Reply, bytes]:
        came = bytearray()
        self._bounds.until_s = time.monotonic() + total_s
        silence = dict.fromkeys(("connect", "read", "write", "pool"), silence_s)
        try:
            with self._pool.stream(
                request.method,
                self.url + request.path,
                headers=self._headers + _content(request),
                content=request.body or None,
                extensions={"timeout": silence},
            ) as response:
                for piece in response.iter_stream():
                    came += piece
                    if len(came) > LARGEST_BYTES:
                        return _none(f"more than {LARGEST_BYTES >> 20} MiB in one answer"), b""
                status = response.status
                encoding = _encoding(response.headers)
        except _FAILURES as error:
            return self._failure(error), bytes(came)
        except (httpcore.UnsupportedProtocol, UnicodeError, ValueError, TypeError) as error:
            raise HostError(f"not a URL: {self.url!r}: {error}") from error
        if encoding:
            return _none(f"compressed ({encoding}), which was not asked for"), b""
        return Reply(status=status, body=self._hidden.hide_bytes(bytes(came))), b""

    def _failure(self, error: Exception) -> Reply:
        text = _WORDS.get(type(error)) or str(error) or type(error).__name__
        said = self._hidden.hide_bytes(text.encode(errors="replace"))
        return Reply(status=0, body=said, refused=isinstance(error, _GONE))


class _Bounds(threading.local):
    """Until when the request of this thread may take; a thread has one in flight."""

    until_s: float = float("inf")

    def left(self, silence_s: float | None, error: type[Exception]) -> float:
        """Give the seconds that one more step may take. Raises `error` where there are none."""
        left = self.until_s - time.monotonic()
        if left <= 0.0:
            raise error
        return left if silence_s is None else min(left, silence_s)


class _BoundedNetwork(httpcore.NetworkBackend):
    """Connects as usual; what is connected then ends with its request's time.

    The timeouts of an HTTP library bound a silence: a byte a second outlasts them for ever.
    """

    def __init__(self, bounds: _Bounds) -> None:
        self._bounds = bounds
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect; the library calls this."""
        left = self._bounds.left(timeout, httpcore.ConnectTimeout)
        stream = self._backend.connect_tcp(host, port, left, local_address, socket_options)
        return _BoundedStream(stream, self._bounds)


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every step fits into what is left."""

    def __init__(self, stream: httpcore.NetworkStream, bounds: _Bounds) -> None:
        self._stream = stream
        self._bounds = bounds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read; the library calls this."""
        return self._stream.read(max_bytes, self._bounds.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write; the library calls this."""
        self._stream.write(buffer, self._bounds.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        """Close; the library calls this."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Shake hands; the library calls this."""
        left = self._bounds.left(timeout, httpcore.ConnectTimeout)
        return _BoundedStream(
            self._stream.start_tls(ssl_context, server_hostname, left), self._bounds
        )

    def get_extra_info(self, info: str) -> Any:
        """Tell of the socket; the library calls this."""
        return self._stream.get_extra_info(info)


def tls_context() -> ssl.SSLContext:
    """Trust the authorities of the system, or those that SSL_CERT_FILE or SSL_CERT_DIR name."""
    return ssl.create_default_context()


def _none(why: str) -> Reply:
    return Reply(status=0, body=why.encode())


def _content(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    return [(b"Content-Type", b"application/json")] if request.body else []


def _encoding(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Name the compression of an answer; empty for none."""
    for name, value in headers:
        if name.lower() == b"content-encoding" and value.strip().lower() != b"identity":
            return value.decode("latin-1")[:40]
    return ""


def _payloads(body: bytes) -> list[bytes]:
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return [line[5:].strip() for line in lines if line.startswith(b"data:")]
