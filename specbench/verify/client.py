"""A synchronous client of the server under test: one thread a request in flight."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec

from specbench.backends import backend as backends
from specbench.backends.backend import Backend, HttpRequest
from specbench.backends.client import ControlClient, recognise
from specbench.backends.products import backend_for
from specbench.backends.scored import Malformed, Scored
from specbench.backends.sender import Reply, Sender
from specbench.errors import HostError, InputError, ServiceError
from specbench.model.facts import ServerFacts
from specbench.model.load import Prompt, Sampling
from specbench.verify.refused import Refused
from specbench.verify.wire import Ask, Completion, completion, http_request, sent

__all__ = ["Client", "Refused", "Spent"]
ALIVE_S = 20.0
FIRST_SHARE = 0.4
"""Of the patience with a server that has never answered: nothing else waits for it yet."""


@dataclass(slots=True)
class Spent:
    """Tokens that were asked for so far; kept under the client's lock."""

    generated: int = 0
    scored: int = 0
    requests: int = 0


@dataclass(slots=True)
class Client:
    """Talks to one server. Proxies of the environment are ignored; the key is never logged.

    `engine` names its product; "" lets `identify` find it out. `model`, `draft_tokens` and
    `least_new` are set by the handshake.
    """

    url: str
    api_key_env: str | None = None
    concurrency: int = 16
    timeout_s: float = 120.0
    engine: str = ""
    model: str = ""
    draft_tokens: int | None = None
    least_new: int = 0
    spent: Spent = field(default_factory=Spent)
    backend: Backend = field(init=False)
    _http: Sender = field(init=False)
    _control: ControlClient = field(init=False)
    _known: bool = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"not a URL: {self.url!r}", hint="for example http://127.0.0.1:30000")
        self._http = Sender(
            self.url,
            api_key=self._key(),
            connections=max(self.concurrency, 4) + 4,
        )
        self._known = bool(self.engine)
        self._speak(backend_for(self.engine))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()
        self._control.close()

    def identify(self) -> ServerFacts:
        """Ask the server who it is; the first time, which product it is.

        Raises:
            HostError: nobody answers there.
            InputError: the server wants an API key.

        """
        alive = self._control.alive(timeout_s=min(self.timeout_s, ALIVE_S))
        if not alive.status or alive.status in (401, 403):
            self._allow(alive)
        if not self._known:
            self._known = True
            self._speak(recognise(self.url, api_key=self._key()))
        try:
            return self._control.facts()
        except ServiceError as error:
            raise InputError(
                f"the server at {self.url} wants an API key",
                hint="name the variable that holds it: --api-key-env NAME",
            ) from error

    def running(self) -> int | None:
        """Return how many requests the server says it is working on; None where it does not say."""
        return self._control.running()

    def flush(self) -> bool:
        """Empty the prefix cache; False where the server cannot, or is not idle."""
        return self._control.flush()

    def generate(self, ask: Ask) -> list[Completion]:
        """Send one request and return its `n` completions.

        Raises:
            Refused: the server does not do this.
            ServiceError: the server died, or its answer has no meaning.

        """
        if ask.n != 1 and self.backend.quirks.one_answer:
            raise Refused(0, f"{self.backend.title} gives one answer a request")
        request = http_request(ask, self.backend, self.model)
        payloads = self._stream(request) if ask.stream else [self._post(request)]
        try:
            parts = self.backend.answers(sent(ask, self.backend, self.model), payloads)
        except Malformed as error:
            raise ServiceError(f"an answer that cannot be read: {error}", where=self.url) from error
        withholds = self.backend.quirks.withholds_split_characters
        out = [completion(ask, part, self.draft_tokens, withholds=withholds) for part in parts]
        with self._lock:
            self.spent.generated += sum(len(c.ids) for c in out)
            self.spent.requests += 1
        return out

    def post(self, request: HttpRequest) -> bytes:
        """Send a request that was built elsewhere and return the body.

        Raises:
            Refused: the server does not do this.
            ServiceError: the server died.

        """
        body = self._post(request)
        self._count([body])
        return body

    def stream(self, request: HttpRequest) -> list[bytes]:
        """Send a request that was built elsewhere and return the payloads of its events.

        Raises:
            Refused: the server does not do this.
            ServiceError: the server died.

        """
        payloads = self._stream(request)
        self._count(payloads[-2:])
        return payloads

    def score(self, ids: Sequence[int], start: int, top: int) -> Scored:
        """Return the target's conditionals at ids[start:], from prefill.

        Raises:
            Refused: the server does not give prompt log-probabilities.
            ServiceError: the server died, or its answer has no meaning.

        """
        request = self.backend.score(ids, start, top, model=self.model, least_new=self.least_new)
        if request is None:
            raise Refused(0, f"{self.backend.title} gives no log-probabilities of a prompt")
        try:
            out = self.backend.scores(ids, start, self._post(request))
        except Malformed as error:
            raise Refused(200, str(error)) from error
        with self._lock:
            self.spent.scored += len(out.ids)
            self.spent.requests += 1
        return out

    def tokenise(self, text: str) -> tuple[int, ...]:
        """Return the ids of a text, as the server itself tokenises it.

        Raises:
            Refused: the server does not say them.

        """
        request = self.backend.tokenise(text, model=self.model)
        if request is None:
            raise Refused(0, f"{self.backend.title} says no token ids")
        try:
            return self.backend.token_ids(self._post(request))
        except Malformed as error:
            raise Refused(200, str(error)) from error

    def continuation(self, text: str, count: int) -> tuple[int, ...]:
        """Return the ids of a greedy answer to a text: a prompt for servers that tokenise nothing.

        Raises:
            Refused: the server gives no ids, or refuses.

        """
        if self.backend.id_api is None:
            raise Refused(0, f"{self.backend.title} gives no token ids")
        ask = backends.Ask(
            prompt=Prompt(prompt_id="", text=text),
            sampling=Sampling(temperature=0.0, max_tokens=count, ignore_eos=True),
            api=self.backend.id_api,
            model=self.model,
            stream=False,
            ids=True,
        )
        try:
            (part,) = self.backend.answers(ask, [self._post(self.backend.request(ask))])
        except Malformed as error:
            raise Refused(200, str(error)) from error
        if not part.ids:
            raise Refused(200, "no token ids in the answer")
        with self._lock:
            self.spent.generated += len(part.ids)
            self.spent.requests += 1
        return part.ids

    def generate_all(
        self, asks: Sequence[Ask], concurrency: int | None = None
    ) -> list[list[Completion]]:
        """Keep `concurrency` requests in flight until all are answered, in the order asked."""
        with ThreadPoolExecutor(concurrency or self.concurrency) as pool:
            return _ordered(pool, self.generate, asks)

    def score_all(self, jobs: Sequence[tuple[tuple[int, ...], int]], top: int) -> list[Scored]:
        """Score many sequences, each from its own start."""
        with ThreadPoolExecutor(min(self.concurrency, 8)) as pool:
            return _ordered(pool, lambda job: self.score(job[0], job[1], top), jobs)

    def _key(self) -> str | None:
        if not self.api_key_env:
            return None
        key = os.environ.get(self.api_key_env)
        if not key:
            raise InputError(
                f"the environment variable {self.api_key_env} is empty",
                hint="--api-key-env names the variable that holds the API key",
            )
        return key

    def _count(self, said: Sequence[bytes]) -> None:
        """Count a request and the tokens that its answer says it generated."""
        with self._lock:
            self.spent.requests += 1
            self.spent.generated += max((_usage(body) for body in said), default=0)

    def _speak(self, backend: Backend) -> None:
        self.backend = backend
        self._control = ControlClient(self.url, backend, api_key=self._key())

    def _post(self, request: HttpRequest) -> bytes:
        return self._allow(self._http.send(request, timeout_s=self._patience_s())).body

    def _stream(self, request: HttpRequest) -> list[bytes]:
        reply, payloads = self._http.events(request, timeout_s=self._patience_s())
        self._allow(reply)
        return payloads

    def _patience_s(self) -> float:
        return self.timeout_s if self.spent.requests else FIRST_SHARE * self.timeout_s

    def _allow(self, reply: Reply) -> Reply:
        """Raise what the status of an answer means, where it is no success."""
        if not reply.status:
            said = reply.body.decode(errors="replace")
            if reply.refused and not self.spent.requests:
                hint = f"is the server up? ({said})"
                raise HostError(f"nobody answers at {self.url}", hint=hint)
            raise ServiceError(
                f"the server stopped answering: {said}",
                where=self.url,
                hint="look at its log; what was found until then is kept",
            )
        if reply.status in (401, 403):
            raise InputError(
                f"the server at {self.url} wants an API key (HTTP {reply.status})",
                hint="name the variable that holds it: --api-key-env NAME",
            )
        if reply.status >= 400:
            raise Refused(reply.status, reply.body.decode(errors="replace")[:300])
        return reply


def _usage(body: bytes) -> int:
    try:
        usage = msgspec.json.decode(body).get("usage") or {}
        return int(usage.get("completion_tokens") or 0)
    except (msgspec.DecodeError, AttributeError, TypeError, ValueError):
        return 0


def _ordered(pool: ThreadPoolExecutor, work: Any, jobs: Sequence[Any]) -> list[Any]:
    """Run all jobs; the first failure cancels those that have not started."""
    futures = [pool.submit(work, job) for job in jobs]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
