"""Requests by text through the OpenAI API, which every product speaks."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from specbench.backends import backend as backends
from specbench.backends.backend import Backend, HttpRequest
from specbench.errors import InputError
from specbench.model.load import Api, Prompt, Sampling
from specbench.verify.refused import Refused


class Speaker(Protocol):
    """A client as far as requests by text need one."""

    backend: Backend
    model: str

    def post(self, request: HttpRequest) -> bytes:
        """Send a request and return the body. Raises Refused."""
        ...

    def stream(self, request: HttpRequest) -> list[bytes]:
        """Send a request and return the payloads of its events. Raises Refused."""
        ...


@dataclass(frozen=True, slots=True)
class Words:
    """One request by text. `extra` are keys of the body that the products' common ones lack."""

    text: str
    max_tokens: int
    temperature: float = 0.0
    api: Api = "chat"
    n: int = 1
    extra: dict[str, Any] = field(default_factory=dict)

    def request(self, speaker: Speaker, *, stream: bool = False) -> HttpRequest:
        """Build the request. Raises Refused where the product has no such API."""
        ask = backends.Ask(
            prompt=Prompt(prompt_id="", text=self.text),
            sampling=Sampling(temperature=self.temperature, max_tokens=self.max_tokens),
            api=self.api,
            model=speaker.model,
            stream=stream,
            n=self.n,
        )
        try:
            plain = speaker.backend.request(ask)
        except InputError as error:
            raise Refused(0, error.what) from error
        body = msgspec.json.decode(plain.body) | self.extra
        return msgspec.structs.replace(plain, body=msgspec.json.encode(body))


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: its text, what was called reasoning, tool calls as (name, arguments)."""

    text: str
    reasoning: str = ""
    finish: str = ""
    tools: tuple[tuple[str, str], ...] = ()


def say(speaker: Speaker, words: Words) -> list[Said]:
    """Send one request and return its answers. Raises Refused, also for an unreadable answer."""
    try:
        body = msgspec.json.decode(speaker.post(words.request(speaker)))
        return [_said(choice) for choice in body["choices"]]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise Refused(200, f"an answer without choices ({error})") from error


def say_all(speaker: Speaker, many: Sequence[Words], concurrency: int) -> list[list[Said]]:
    """Send requests side by side, in order of the answers. Raises Refused for the first refusal."""
    with ThreadPoolExecutor(max(min(concurrency, len(many)), 1)) as pool:
        return list(pool.map(lambda words: say(speaker, words), many))


def say_streamed(speaker: Speaker, words: Words) -> Said:
    """Send one request, streamed, and return its joined answer. Raises Refused."""
    text, reasoning, finish = [], [], ""
    for payload in speaker.stream(words.request(speaker, stream=True)):
        try:
            choices = msgspec.json.decode(payload).get("choices") or []
        except (msgspec.DecodeError, AttributeError):
            continue
        for choice in choices:
            delta = choice.get("delta") or {}
            text.append(choice.get("text") or delta.get("content") or "")
            reasoning.append(delta.get("reasoning_content") or delta.get("reasoning") or "")
            finish = choice.get("finish_reason") or finish
    return Said("".join(text), "".join(reasoning), finish)


def _said(choice: dict[str, Any]) -> Said:
    message = choice.get("message") or {}
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return Said(
        text=choice.get("text") or message.get("content") or "",
        reasoning=message.get("reasoning_content") or message.get("reasoning") or "",
        finish=choice.get("finish_reason") or "",
        tools=tuple((call.get("name") or "", call.get("arguments") or "") for call in calls),
    )
