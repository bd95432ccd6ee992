"""A server's control endpoints: health, identity, cache, aborts. Never on the measured path."""

import os
import re
import time
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import msgspec

from specbench.backends.backend import Backend, HttpRequest, Verb
from specbench.backends.base_url import base_url
from specbench.backends.bearer import bearer
from specbench.backends.products import BACKENDS
from specbench.errors import HostError, ServiceError
from specbench.model.facts import ServerFacts
from specbench.model.json_text import NOT_JSON

_FAILURES = (httpx.TransportError, httpx.DecodingError)
_CLOSED = "without sending a response"
_ABSENT = frozenset({404, 405})

Health = Literal["closed", "starting", "ready", "silent"]


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
        return self.status == httpx.codes.OK

    def json(self) -> dict[str, Any]:
        """Decode a JSON object; anything else gives an empty one."""
        try:
            decoded = msgspec.json.decode(self.body)
        except NOT_JSON:
            return {}
        return decoded if isinstance(decoded, dict) else {}


class Sender:
    """Sends requests to one server over HTTP; failure to get an answer is data, no exception.

    `api_key` is the key itself; it is sent as a bearer token and never shown. Proxies of the
    environment are ignored. `connections` are kept open between requests; 0 keeps none.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout_s: float = 10.0, connections: int = 0
    ) -> None:
        self.url = base_url(url)
        headers = {"Authorization": bearer(api_key)} if api_key else {}
        limits = httpx.Limits(max_keepalive_connections=0)
        self._keeps = connections > 0
        if connections:
            limits = httpx.Limits(max_connections=connections)
        self._client = httpx.Client(
            headers=headers,
            timeout=timeout_s,
            trust_env=False,
            limits=limits,
        )

    def close(self) -> None:
        """Close all connections; the server is not touched."""
        self._client.close()

    def send(self, request: HttpRequest, *, timeout_s: float | None = None) -> Reply:
        """Send one request and take the whole answer. Raises HostError for an unusable URL."""
        try:
            response = self._once_more(request, timeout_s)
        except _FAILURES as error:
            return _failure(error)
        except httpx.InvalidURL as error:
            raise HostError(f"not a URL: {self.url!r}: {error}") from error
        return Reply(status=response.status_code, body=response.content)

    def _once_more(self, request: HttpRequest, timeout_s: float | None) -> httpx.Response:
        """Send again what met a connection that the server had closed meanwhile.

        A server may end a kept connection between two requests; nothing of the answer came then.
        """
        sent = (request.method, self.url + request.path)
        try:
            return self._client.request(*sent, **_content(request, timeout_s))
        except httpx.RemoteProtocolError as error:
            if not self._stale(error):
                raise
            return self._client.request(*sent, **_content(request, timeout_s))

    def events(self, request: HttpRequest, *, timeout_s: float) -> tuple[Reply, list[bytes]]:
        """Send one request and take the payloads of its SSE answer, or its whole body if refused.

        Raises HostError for an unusable URL.
        """
        payloads: list[bytes] = []
        try:
            try:
                return self._streamed(request, timeout_s, payloads), payloads
            except httpx.RemoteProtocolError as error:
                if not self._stale(error) or payloads:
                    raise
                return self._streamed(request, timeout_s, payloads), payloads
        except _FAILURES as error:
            return _failure(error), payloads
        except httpx.InvalidURL as error:
            raise HostError(f"not a URL: {self.url!r}: {error}") from error

    def _streamed(self, request: HttpRequest, timeout_s: float, payloads: list[bytes]) -> Reply:
        with self._client.stream(
            request.method, self.url + request.path, **_content(request, timeout_s)
        ) as response:
            if response.status_code != httpx.codes.OK:
                return Reply(status=response.status_code, body=response.read())
            payloads.extend(
                line[5:].strip().encode()
                for line in response.iter_lines()
                if line.startswith("data:")
            )
        return Reply(status=response.status_code, body=b"")

    def _stale(self, error: httpx.RemoteProtocolError) -> bool:
        """Whether a kept connection was closed by the server before anything of an answer came."""
        return self._keeps and _CLOSED in str(error)


def _content(request: HttpRequest, timeout_s: float | None) -> dict[str, Any]:
    return {
        "content": request.body or None,
        "headers": {"Content-Type": "application/json"} if request.body else {},
        "timeout": httpx.Timeout(request.timeout_s if timeout_s is None else timeout_s),
    }


def _failure(error: Exception) -> Reply:
    text = str(error) or type(error).__name__
    # A tunnel accepts for the host and closes at once where nobody listens behind it.
    gone = (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError)
    return Reply(status=0, body=text.encode(), refused=isinstance(error, gone))


class ControlClient:
    """Asks one server for what is not generation.

    `api_key` may be a `${NAME}` reference to an environment variable. Connections are not kept: a
    server in the middle of a restart must not be met through a stale one.
    """

    def __init__(
        self,
        url: str,
        backend: Backend,
        *,
        api_key: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._sender = Sender(url, api_key=resolve_secret(api_key), timeout_s=timeout_s)
        self.url = self._sender.url
        self.backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client; the server is not touched."""
        self._sender.close()

    def send(self, request: HttpRequest, *, timeout_s: float | None = None) -> Reply:
        """Send a request; where its endpoint does not exist, the one that it names instead."""
        reply = self._sender.send(request, timeout_s=timeout_s)
        if reply.status in _ABSENT and request.otherwise is not None:
            return self.send(request.otherwise, timeout_s=timeout_s)
        return reply

    def do(self, verb: Verb, *, timeout_s: float | None = None) -> Reply | None:
        """Do something that the product may be able to; None where it is not."""
        request = self.backend.control(verb)
        return None if request is None else self.send(request, timeout_s=timeout_s)

    def alive(self, *, timeout_s: float) -> Reply:
        """Ask for the least that a bound server answers; `refused` says that nobody listens."""
        reply = self.do("alive", timeout_s=timeout_s)
        return Reply(status=0, body=b"", refused=False) if reply is None else reply

    def health(self, *, timeout_s: float | None = None) -> Health:
        """Ask whether it is ready; some run a token through the model for it."""
        reply = self.do("health", timeout_s=timeout_s)
        if reply is None or reply.ok:
            return "ready"
        if reply.status:
            return "starting"
        return "closed" if reply.refused else "silent"

    def info(self) -> dict[str, Any]:
        """Gather what the server says of itself, as it is recorded; empty where it says nothing.

        Raises ServiceError where it wants an API key.
        """
        found: dict[str, Any] = {}
        for verb in self.backend.speaks:
            reply = self._allowed(verb)
            if reply is not None and reply.ok:
                found |= self.backend.read(verb, reply.body)
        return found

    def model_info(self) -> dict[str, Any]:
        """Ask what the server says of its model; empty where it has no such endpoint."""
        reply = self._allowed("model")
        return reply.json() if reply is not None and reply.ok else {}

    def facts(self) -> ServerFacts:
        """Ask the server who it is."""
        return self.backend.facts(self.info(), self.model_info())

    def models(self) -> tuple[str, ...]:
        """Names of its models; empty where it does not answer."""
        reply = self.do("models")
        entries = reply.json().get("data") if reply is not None else None
        return tuple(
            str(entry["id"])
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and "id" in entry
        )

    def running(self) -> int | None:
        """Count the requests that the server says it is working on; None where it does not say."""
        reply = self.do("running")
        return self.backend.running(reply.body) if reply is not None and reply.ok else None

    def flush(self) -> bool:
        """Empty the prefix cache; False when the server is busy or cannot."""
        reply = self.do("flush")
        return reply is not None and reply.ok

    def abort(self) -> bool:
        """End every running request, so that a stop need not wait for them to drain."""
        reply = self.do("abort")
        return reply is not None and reply.ok

    def round_trip_s(self) -> float:
        """Time one small request that the server answers without its scheduler."""
        began = time.perf_counter()
        self.do("models")
        return time.perf_counter() - began

    def canary(self, model: str, *, timeout_s: float = 120.0) -> Reply:
        """Send one short greedy request."""
        request = self.backend.control("canary", model=model)
        if request is None:
            return Reply(status=0, body=b"the product has no request to try")
        return self.send(request, timeout_s=timeout_s)

    def _allowed(self, verb: Verb) -> Reply | None:
        reply = self.do(verb)
        if reply is not None and reply.status in {401, 403}:
            raise ServiceError(
                f"{verb} answered {reply.status}: the API key is missing or wrong",
                where=self.url,
                hint="set api_key: ${NAME} in hosts.yaml, and export NAME",
            )
        return reply


def resolve_secret(reference: str | None) -> str | None:
    """Follow a `${NAME}` reference to the environment. Raises HostError where NAME is not set."""
    match = re.fullmatch(r"\$\{(\w+)\}", reference or "")
    if match is None:
        return reference
    value = os.environ.get(match[1])
    if not value:
        raise HostError(f"the environment variable {match[1]} is not set", hint="export it")
    return value


def recognise(url: str, *, api_key: str | None = None) -> Backend:
    """Find the product of a running server: by the owner of its models, then by what it says.

    What is no product known is an OpenAI-compatible server.
    """
    *known, anything = BACKENDS.values()
    with ControlClient(url, anything, api_key=api_key) as client:
        models = client.info().get("models") or {}
    for backend in known:
        if backend.recognises(models, {}):
            return backend
    for backend in known:
        with ControlClient(url, backend, api_key=api_key) as client:
            if backend.recognises({}, client.info()):
                return backend
    return anything
