"""A server's control endpoints: health, identity, cache, aborts. Never on the measured path."""

import os
import re
import time
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import msgspec

from specbench.errors import HostError, ServiceError

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
        except (msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return decoded if isinstance(decoded, dict) else {}


class ControlClient:
    """Synchronous client of one server. Proxies of the environment are ignored.

    `api_key` may be a `${NAME}` reference to an environment variable; it is sent as a bearer token
    and never shown. Connections are not kept: a server in the middle of a restart must not be met
    through a stale one.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout_s: float = 10.0) -> None:
        self.url = url.rstrip("/")
        token = resolve_secret(api_key)
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_s,
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

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
        self._client.close()

    def ask(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        body: dict[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        """Send one request. Failure to get an answer is data (`status` 0), not an exception."""
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s)
        try:
            response = self._client.request(method, self.url + path, json=body, timeout=timeout)
        except httpx.ConnectError as error:
            return Reply(status=0, body=str(error).encode(), refused=True)
        except (httpx.TransportError, httpx.DecodingError) as error:
            text = str(error) or type(error).__name__
            # A tunnel accepts for the host and closes at once where nobody listens behind it.
            refused = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
            return Reply(status=0, body=text.encode(), refused=refused)
        except httpx.InvalidURL as error:
            raise HostError(f"not a URL: {self.url!r}: {error}") from error
        return Reply(status=response.status_code, body=response.content)

    def health(self, *, timeout_s: float = 25.0) -> Health:
        """Ask /health: it runs one token through the model, so it may take a second or more."""
        reply = self.ask("GET", "/health", timeout_s=timeout_s)
        if reply.ok:
            return "ready"
        if reply.status:
            return "starting"
        return "closed" if reply.refused else "silent"

    def model_info(self) -> dict[str, Any]:
        """/model_info, or /get_model_info of versions before 0.5.8; empty where neither exists."""
        return self._first("/model_info", "/get_model_info")

    def server_info(self) -> dict[str, Any]:
        """/server_info, or /get_server_info of versions before 0.5.8; empty where both lack."""
        return self._first("/server_info", "/get_server_info")

    def models(self) -> tuple[str, ...]:
        """Names of /v1/models; empty where it does not answer."""
        entries = self.ask("GET", "/v1/models").json().get("data")
        return tuple(
            str(entry["id"])
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and "id" in entry
        )

    def loads(self) -> dict[str, Any]:
        """/v1/loads (0.5.8 and later): running and waiting requests; empty where absent."""
        return self.ask("GET", "/v1/loads").json()

    def metrics(self) -> str:
        """/metrics as Prometheus text; empty where the server does not export any."""
        reply = self.ask("GET", "/metrics")
        return reply.body.decode(errors="replace") if reply.ok else ""

    def flush_cache(self, *, wait_s: float = 10.0) -> bool:
        """Empty the prefix cache; an idle server also resets its accept statistics.

        False when the server is busy beyond `wait_s` or has no such endpoint.
        """
        timeout = f"?timeout={wait_s:g}"
        return self.ask("POST", "/flush_cache" + timeout, timeout_s=wait_s + 10.0).ok

    def abort_all(self) -> bool:
        """End every running request, so that a stop need not wait for them to drain."""
        return self.ask("POST", "/abort_request", body={"abort_all": True}, timeout_s=5.0).ok

    def round_trip_s(self) -> float:
        """Time one small request that the server answers without its scheduler."""
        began = time.perf_counter()
        self.ask("GET", "/v1/models")
        return time.perf_counter() - began

    def canary(self, model: str, *, timeout_s: float = 120.0) -> Reply:
        """Send one short greedy request: the native endpoint, or the OpenAI one where absent."""
        sampling = {"max_new_tokens": 8, "temperature": 0.0}
        body: dict[str, Any] = {"text": "The capital of France is", "sampling_params": sampling}
        reply = self.ask("POST", "/generate", body=body, timeout_s=timeout_s)
        if reply.status in {404, 405}:
            openai = {"model": model, "prompt": body["text"], "max_tokens": 8, "temperature": 0.0}
            reply = self.ask("POST", "/v1/completions", body=openai, timeout_s=timeout_s)
        return reply

    def _first(self, *paths: str) -> dict[str, Any]:
        for path in paths:
            reply = self.ask("GET", path)
            if reply.ok:
                return reply.json()
            if reply.status in {401, 403}:
                raise ServiceError(
                    f"{path} answered {reply.status}: the API key is missing or wrong",
                    where=self.url,
                    hint="set api_key: ${NAME} in hosts.yaml, and export NAME",
                )
            if reply.status != httpx.codes.NOT_FOUND:
                return {}
        return {}


def resolve_secret(reference: str | None) -> str | None:
    """Follow a `${NAME}` reference to the environment. Raises HostError where NAME is not set."""
    match = re.fullmatch(r"\$\{(\w+)\}", reference or "")
    if match is None:
        return reference
    value = os.environ.get(match[1])
    if not value:
        raise HostError(f"the environment variable {match[1]} is not set", hint="export it")
    return value
