"""A synchronous client of the server under test: one thread a request in flight."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from specbench.errors import HostError, InputError, ServiceError
from specbench.verify.wire import (
    Ask,
    Completion,
    Dialect,
    Malformed,
    Scored,
    completions,
    generate_body,
    prompt_ids,
    score_body,
    scored,
    streamed,
)

_PATHS: dict[Dialect, str] = {"sglang": "/generate", "vllm": "/v1/completions"}


class Refused(Exception):
    """The server answered and refused: a capability that it does not have. `status` is HTTP's."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"HTTP {status}: {what}")
        self.status = status


@dataclass(slots=True)
class Spent:
    """Tokens that were asked for so far; kept under the client's lock."""

    generated: int = 0
    scored: int = 0
    requests: int = 0


@dataclass(slots=True)
class Client:
    """Talks to one server. Proxies of the environment are ignored; the key is never logged.

    `dialect`, `model`, `draft_tokens` and `least_new` are set by the handshake.
    """

    url: str
    api_key_env: str | None = None
    concurrency: int = 16
    timeout_s: float = 120.0
    dialect: Dialect = "sglang"
    model: str = ""
    draft_tokens: int | None = None
    least_new: int = 0
    spent: Spent = field(default_factory=Spent)
    _http: httpx.Client = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        headers = {}
        if self.api_key_env:
            key = os.environ.get(self.api_key_env)
            if not key:
                raise InputError(
                    f"the environment variable {self.api_key_env} is empty",
                    hint="--api-key-env names the variable that holds the API key",
                )
            headers["Authorization"] = f"Bearer {key}"
        limits = httpx.Limits(max_connections=max(self.concurrency, 4) + 4)
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=httpx.Timeout(self.timeout_s, connect=10.0),
                limits=limits,
                trust_env=False,
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise InputError(f"not a URL: {self.url!r}", hint=str(error)) from error

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def get(self, path: str) -> Any:
        """Return the JSON of a GET, or None where the path does not exist or is not JSON.

        Raises:
            HostError: nobody answers there.
            InputError: the server wants an API key.

        """
        answer = self._send("GET", path, None)
        if answer.status_code >= 400:
            return None
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError:
            return None

    def text(self, path: str) -> str:
        """Return the body of a GET, or an empty string where the path does not exist."""
        answer = self._send("GET", path, None)
        return answer.text if answer.status_code < 400 else ""

    def flush(self) -> bool:
        """Empty the prefix cache; False where the server cannot, or is not idle."""
        path = "/flush_cache" if self.dialect == "sglang" else "/reset_prefix_cache"
        return self._send("POST", path, None).status_code == 200

    def generate(self, ask: Ask) -> list[Completion]:
        """Send one request and return its `n` completions.

        Raises:
            Refused: the server does not do this.
            ServiceError: the server died, or its answer has no meaning.

        """
        body = generate_body(self.dialect, ask, self.model)
        try:
            if ask.stream:
                events = self._stream(body)
                out = [streamed(self.dialect, ask, events, self.draft_tokens)]
            else:
                answer = self._post(body)
                out = completions(self.dialect, ask, answer, self.draft_tokens)
        except Malformed as error:
            raise ServiceError(f"an answer that cannot be read: {error}", where=self.url) from error
        with self._lock:
            self.spent.generated += sum(len(c.ids) for c in out)
            self.spent.requests += 1
        return out

    def score(self, ids: Sequence[int], start: int, top: int) -> Scored:
        """Return the target's conditionals at ids[start:], from prefill.

        Raises:
            Refused: the server does not give prompt log-probabilities.
            ServiceError: the server died, or its answer has no meaning.

        """
        body = score_body(self.dialect, ids, start, top, self.model, least_new=self.least_new)
        try:
            out = scored(self.dialect, ids, start, self._post(body))
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
        if self.dialect == "sglang":
            body: dict[str, Any] = {
                "text": text,
                "return_logprob": True,
                "logprob_start_len": 0,
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            }
        else:
            body = {
                "model": self.model,
                "prompt": text,
                "max_tokens": 1,
                "temperature": 0.0,
                "return_token_ids": True,
            }
        try:
            return prompt_ids(self.dialect, self._post(body))
        except Malformed as error:
            raise Refused(200, str(error)) from error

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

    def _post(self, body: dict[str, Any]) -> Any:
        answer = self._send("POST", _PATHS[self.dialect], body)
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.text[:300])
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise ServiceError(f"an answer that is not JSON: {error}", where=self.url) from error

    def _stream(self, body: dict[str, Any]) -> list[Any]:
        events: list[Any] = []
        try:
            with self._http.stream("POST", _PATHS[self.dialect], json=body) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise Refused(answer.status_code, answer.text[:300])
                events.extend(
                    msgspec.json.decode(line[6:])
                    for line in answer.iter_lines()
                    if line.startswith("data: {")
                )
        except httpx.HTTPError as error:
            raise self._dead(error) from error
        except msgspec.DecodeError as error:
            raise ServiceError(f"an event that is not JSON: {error}", where=self.url) from error
        return events

    def _send(self, method: str, path: str, body: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if self.spent.requests:
                raise self._dead(error) from error
            raise HostError(
                f"nobody answers at {self.url}", where=path, hint=f"is the server up? ({error})"
            ) from error
        except httpx.UnsupportedProtocol as error:
            raise InputError(f"not a URL: {self.url!r}", hint=str(error)) from error
        except httpx.HTTPError as error:
            raise self._dead(error) from error
        if answer.status_code in (401, 403):
            raise InputError(
                f"the server at {self.url} wants an API key (HTTP {answer.status_code})",
                hint="name the variable that holds it: --api-key-env NAME",
            )
        return answer

    def _dead(self, error: Exception) -> ServiceError:
        what = str(error) or type(error).__name__
        return ServiceError(
            f"the server stopped answering: {what}",
            where=self.url,
            hint="look at its log; what was found until then is kept",
        )


def _ordered(pool: ThreadPoolExecutor, work: Any, jobs: Sequence[Any]) -> list[Any]:
    """Run all jobs; the first failure cancels those that have not started."""
    futures = [pool.submit(work, job) for job in jobs]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
