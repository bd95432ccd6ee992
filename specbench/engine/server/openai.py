"""`/v1/completions` and `/v1/chat/completions`: OpenAI's shapes with SGLang's extensions."""

import time
from collections.abc import AsyncIterator

from specbench.engine.server.abilities import refuse
from specbench.engine.server.backend import Backend
from specbench.engine.server.http import Exchange, event
from specbench.engine.server.meta import Json, meta_info, spec_details
from specbench.engine.server.openai_logprobs import chat_logprobs, completion_logprobs
from specbench.engine.server.openai_wire import OpenAIAsk
from specbench.engine.server.request import Request
from specbench.engine.server.streaming import Update, updates
from specbench.engine.server.wire import read_json


async def completions(backend: Backend, exchange: Exchange) -> None:
    """Serve one `/v1/completions` request."""
    await _serve(backend, exchange, chat=False)


async def chat_completions(backend: Backend, exchange: Exchange) -> None:
    """Serve one `/v1/chat/completions` request."""
    await _serve(backend, exchange, chat=True)


async def _serve(backend: Backend, exchange: Exchange, *, chat: bool) -> None:
    body = read_json(await exchange.body())
    refuse(backend.lacking, exchange.path, body)
    ask = backend.openai.chat(body) if chat else backend.openai.completion(body)
    requests = backend.submit(ask.wishes, exchange)
    answer = Answer(backend, ask, requests, chat=chat)
    if ask.stream:
        await backend.stream(exchange, requests, answer.events())
        return
    await backend.wait(exchange, requests)
    await exchange.json(answer.whole())


class Answer:
    """The answer to one body, whole or in chunks."""

    def __init__(
        self, backend: Backend, ask: OpenAIAsk, requests: list[Request], *, chat: bool
    ) -> None:
        self.backend, self.ask, self.requests, self.chat = backend, ask, requests, chat
        self.created = int(time.time())
        self.version = str(backend.args["weight_version"])

    # Whole

    def whole(self) -> Json:
        """Return the answer of a request without `stream`."""
        answer: Json = {
            "id": self.ask.id,
            "object": "chat.completion" if self.chat else "text_completion",
            "created": self.created,
            "model": self.ask.model,
            "choices": [self._choice(i, request) for i, request in enumerate(self.requests)],
            "usage": self._usage(details=True),
            "metadata": {
                "weight_version": self.version,
                "weight_versions": [
                    {"version": self.version, "start": 0, "end": len(self.requests[0].ids)}
                ],
            },
        }
        if extension := self._extension():
            answer["sglext"] = extension
        return answer

    def _choice(self, index: int, request: Request) -> Json:
        echo = self.ask.echo[index] if self.ask.echo else ""
        choice: Json = {"index": index}
        if self.chat:
            choice["message"] = {
                "role": "assistant",
                "content": request.text,
                "reasoning_content": None,
            }
        else:
            choice["text"] = echo + request.text
        choice["logprobs"] = self._logprobs(request, 0)
        choice |= _finish(request)
        if self.chat and self.ask.meta_info:
            choice["meta_info"] = meta_info(request, self.backend.width, self.version)
        return choice

    def _logprobs(self, request: Request, since: int) -> Json | None:
        if self.ask.top_logprobs is None:
            return None
        make = chat_logprobs if self.chat else completion_logprobs
        return make(request, self.backend.piece, self.ask.top_logprobs, since)

    def _usage(self, *, details: bool) -> Json:
        prompts = {id(r.wish.prompt_ids): r.prompt_tokens for r in self.requests}
        prompt = sum(prompts.values())
        completion = sum(len(request.ids) for request in self.requests)
        usage: Json = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        cached = None
        if self.backend.args["enable_cache_report"]:
            cached = {"cached_tokens": sum(request.cached_tokens for request in self.requests)}
        if details or cached is not None:
            usage["prompt_tokens_details"] = cached
        usage["reasoning_tokens"] = 0
        if details:
            usage["completion_tokens_details"] = None
        return usage

    def _extension(self) -> Json:
        extension: Json = {}
        if self.ask.spec_details and self.backend.width > 1 and self._counts():
            extension["spec_tokens_details"] = spec_details(self.requests, self.backend.width)
        if self.ask.output_ids and "ids" not in self.backend.lacking:
            extension["output_ids"] = [request.ids for request in self.requests]
        return extension

    def _counts(self) -> bool:
        return "counters" not in self.backend.lacking

    # Streamed

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the chunks: a chat's roles first, then text, then extensions and usage."""
        if self.chat:
            for index in range(len(self.requests)):
                yield self._event(self._delta(index, {"role": "assistant", "content": ""}))
        elif self.ask.echo:
            for index, echo in enumerate(self.ask.echo):
                yield self._event(self._text(index, echo, None))
        async for update in updates(self.requests, self.backend.args["stream_interval"]):
            for choice in self._choices(update):
                yield self._event(choice)
        if extension := self._extension():
            yield self._event(None, extension=extension)
        if self.ask.include_usage:
            yield event(self._frame([]) | {"usage": self._usage(details=self.chat)})

    def _choices(self, update: Update) -> list[Json]:
        text, request = update.new_text, update.request
        logprobs = self._logprobs(request, update.tokens)
        end = _finish(request) if update.over else None
        if not self.chat:
            return [self._text(update.index, text, end, logprobs)]
        deltas = [self._delta(update.index, {"content": text}, logprobs=logprobs)] if text else []
        if end is not None:
            deltas.append(self._delta(update.index, {}, end))
        return deltas

    def _text(self, index: int, text: str, end: Json | None, logprobs: Json | None = None) -> Json:
        return {"index": index, "text": text, "logprobs": logprobs} | (end or _UNFINISHED)

    def _delta(
        self, index: int, delta: Json, end: Json | None = None, logprobs: Json | None = None
    ) -> Json:
        content = {"reasoning_content": None} | delta
        return {"index": index, "delta": content, "logprobs": logprobs} | (end or _UNFINISHED)

    def _frame(self, choices: list[Json]) -> Json:
        return {
            "id": self.ask.id,
            "object": "chat.completion.chunk" if self.chat else "text_completion",
            "created": self.created,
            "model": self.ask.model,
            "choices": choices,
        }

    def _event(self, choice: Json | None, extension: Json | None = None) -> bytes:
        frame = self._frame([] if choice is None else [choice])
        if self.ask.continuous_usage:
            frame["usage"] = self._usage(details=self.chat)
        elif not self.chat:
            frame["usage"] = None
        if extension is not None:
            frame["sglext"] = extension
        return event(frame)


_UNFINISHED: Json = {"finish_reason": None, "matched_stop": None}


def _finish(request: Request) -> Json:
    finish = request.finish or {}
    return {"finish_reason": finish.get("type"), "matched_stop": finish.get("matched")}
