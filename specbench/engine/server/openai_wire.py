"""Read the bodies of `/v1/completions` and `/v1/chat/completions`."""

import secrets
from dataclasses import dataclass, replace
from typing import Any

from specbench.engine.server.http import BadRequest
from specbench.engine.server.request import Wish
from specbench.engine.server.wire import Reader, namespace, read_sampling, typed

GENERATION_CONFIG: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
"""What the embedded model's generation_config.json would say: the defaults of
`--sampling-defaults model` for every field that a request leaves out."""

PASSED = (
    "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "stop", "stop_token_ids", "ignore_eos", "n", "no_stop_trim", "logit_bias",
    "skip_special_tokens",
)  # fmt: skip
UNSUPPORTED = ("tools", "functions", "regex", "ebnf", "json_schema", "best_of", "suffix")
COMPLETION_TOKENS = 16


@dataclass(frozen=True)
class OpenAIAsk:
    """A read body: the wishes (choice by choice) and how the client wants its answer."""

    id: str
    model: str
    wishes: list[Wish]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    top_logprobs: int | None
    echo: list[str]
    spec_details: bool
    meta_info: bool
    output_ids: bool


class OpenAIReader:
    """Turn OpenAI bodies into wishes; fields left out follow `--sampling-defaults`."""

    def __init__(self, reader: Reader, defaults: str, usage_by_default: bool) -> None:
        self.reader = reader
        self.defaults = GENERATION_CONFIG if defaults == "model" else {}
        self.usage_by_default = usage_by_default

    def completion(self, body: dict[str, Any]) -> OpenAIAsk:
        """Read a `/v1/completions` body."""
        prompts = self._prompts(body.get("prompt"))
        logprobs = body.get("logprobs")
        top = None if logprobs is None or logprobs is False else typed(logprobs, int, "logprobs")
        echo = bool(body.get("echo", False))
        start = 0 if echo and top is not None else -1
        limit = body.get("max_tokens")
        ask = self._ask(body, prompts, COMPLETION_TOKENS if limit is None else limit, top, start)
        if echo:
            per_prompt = len(ask.wishes) // len(prompts)
            texts = [self.reader.tokenizer.decode(ids) for ids in prompts]
            return replace(ask, echo=[text for text in texts for _ in range(per_prompt)])
        return ask

    def chat(self, body: dict[str, Any]) -> OpenAIAsk:
        """Read a `/v1/chat/completions` body."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest("Messages cannot be empty.")
        prompt = self.reader.tokenizer.chat([_message(message) for message in messages])
        room = self.reader.context_len - len(prompt)
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        top = typed(body.get("top_logprobs") or 0, int, "top_logprobs")
        top = top if body.get("logprobs") else None
        return self._ask(body, [prompt], max(room, 1) if limit is None else limit, top, -1)

    def _ask(
        self,
        body: dict[str, Any],
        prompts: list[list[int]],
        limit: Any,
        top: int | None,
        start: int,
    ) -> OpenAIAsk:
        self._refuse(body)
        sampling = self.defaults | {k: body[k] for k in PASSED if body.get(k) is not None}
        sampling |= {"max_new_tokens": limit, "min_new_tokens": body.get("min_tokens")}
        sampling["sampling_seed"] = body.get("seed")
        params, extras = read_sampling(sampling, self.reader.tokenizer.vocab_size)
        wish_logprobs = None if top is None else self.reader.logprob_wish(top, None)
        answer_id = str(body.get("rid") or secrets.token_hex(16))
        wishes = []
        for index, prompt in enumerate(prompts):
            self.reader.check_length(prompt, params)
            for copy in range(extras.n):
                last = len(prompts) * extras.n == 1
                wishes.append(
                    Wish(
                        rid=answer_id if last else f"{answer_id}_{index}_{copy}",
                        prompt_ids=prompt,
                        params=params,
                        stop=extras.stop,
                        no_stop_trim=extras.no_stop_trim,
                        skip_special=extras.skip_special,
                        stream=bool(body.get("stream", False)),
                        namespace=namespace(body),
                        logprobs=wish_logprobs,
                        logprob_start=start,
                    )
                )
        options = typed(body.get("stream_options") or {}, dict[str, Any], "stream_options")
        return OpenAIAsk(
            id=answer_id,
            model=str(body.get("model") or "default"),
            wishes=wishes,
            stream=bool(body.get("stream", False)),
            include_usage=bool(options.get("include_usage", self.usage_by_default)),
            continuous_usage=bool(options.get("continuous_usage_stats", False)),
            top_logprobs=top,
            echo=[],
            spec_details=bool(body.get("return_spec_tokens_details", False)),
            meta_info=bool(body.get("return_meta_info", False)),
            output_ids=bool(body.get("return_output_ids_in_sglext", False)),
        )

    def _refuse(self, body: dict[str, Any]) -> None:
        for key in UNSUPPORTED:
            if body.get(key):
                raise BadRequest(f"{key} is not supported by this engine.")
        shape = typed(body.get("response_format") or {}, dict[str, Any], "response_format")
        if shape.get("type", "text") != "text":
            raise BadRequest("response_format is not supported by this engine.")

    def _prompts(self, prompt: Any) -> list[list[int]]:
        encode = self.reader.encode
        match prompt:
            case str():
                return [encode(prompt)]
            case [str(), *_] if all(isinstance(p, str) for p in prompt):
                return [encode(p) for p in prompt]
            case [int(), *_] if all(isinstance(p, int) for p in prompt):
                return [prompt]
            case [[int(), *_], *_] if all(
                isinstance(p, list) and all(isinstance(t, int) for t in p) for p in prompt
            ):
                return list(prompt)
        raise BadRequest("prompt must be a string, token ids, or a list of either.")


def _message(message: Any) -> dict[str, str]:
    """Return a chat message with plain text content; parts of type `text` are joined."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest("Each message needs a role and a content.")
    content = message.get("content") or ""
    if isinstance(content, list):
        if any(not isinstance(p, dict) or p.get("type") != "text" for p in content):
            raise BadRequest("Only text content is supported by this engine.")
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        raise BadRequest("Each message needs a role and a content.")
    return {"role": message["role"], "content": content}
