"""A server's control endpoints: health, identity, cache, aborts. Never on the measured path."""

import os
import re
import time
from types import TracebackType
from typing import Any, Literal, Self

from specbench.backends.backend import Backend, HttpRequest, Verb
from specbench.backends.products import BACKENDS
from specbench.backends.sender import Reply, Sender
from specbench.errors import HostError, ServiceError
from specbench.model.facts import ServerFacts

_ABSENT = frozenset({404, 405})

Health = Literal["closed", "starting", "ready", "silent"]


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
    ) -> None:
        self._sender = Sender(url, api_key=resolve_secret(api_key))
        self.url = self._sender.url
        self.backend = backend
        self.silent = False
        """Whether the last request was accepted, and had no whole answer in time."""

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
        self.silent = not reply.status and not reply.refused
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

        One that falls silent is asked no more. Raises ServiceError where it wants an API key.
        """
        found: dict[str, Any] = {}
        for verb in self.backend.speaks:
            reply = self._allowed(verb)
            if self.silent:
                break
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

    What is no product known is an OpenAI-compatible server, and so is one that falls silent.
    """
    *known, anything = BACKENDS.values()
    with ControlClient(url, anything, api_key=api_key) as client:
        models = client.info().get("models") or {}
        if client.silent:
            return anything
    for backend in known:
        if backend.recognises(models, {}):
            return backend
    for backend in known:
        with ControlClient(url, backend, api_key=api_key) as client:
            if backend.recognises({}, client.info()):
                return backend
            if client.silent:
                break
    return anything
