"""Request bodies of the OpenAI API, and the pieces that other products build theirs of."""

from typing import Any

from specbench.backends.backend import Ask
from specbench.errors import InputError
from specbench.model.load import Api, Prompt, Sampling

PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def body(ask: Ask) -> dict[str, Any]:
    """Return the JSON of a request with the keys that every server of this API knows.

    Raises InputError when the API cannot carry the prompt.
    """
    document: dict[str, Any] = {
        "model": ask.model,
        **_content(ask.prompt, ask.api),
        "max_tokens": max_tokens(ask),
        **common(ask.sampling),
        "stream": ask.stream,
    }
    if ask.stream:
        document["stream_options"] = {"include_usage": True}
    if ask.n != 1:
        document["n"] = ask.n
    if ask.bias:
        document["logit_bias"] = {str(token): bias for token, bias in ask.bias}
    return document


def max_tokens(ask: Ask) -> int:
    """Return the bound on output tokens: the prompt's own, or the sampling's."""
    return ask.prompt.max_tokens or ask.sampling.max_tokens


def common(sampling: Sampling) -> dict[str, float]:
    """Fields that every API knows under the same name."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
    }


def extended(sampling: Sampling) -> dict[str, Any]:
    """Fields beyond OpenAI's, under the names that several products share."""
    return {
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos,
    }


def text_or_ids(prompt: Prompt, api: Api) -> str | list[int]:
    """Take the raw prompt; a chat is refused, since only the server knows its template."""
    if prompt.input_ids:
        return list(prompt.input_ids)
    if prompt.text is not None:
        return prompt.text
    raise InputError(
        f"prompt {prompt.prompt_id!r} is a chat, and the {api} API applies no chat template",
        hint="use api: chat, or give the prompt as text or input_ids",
    )


def _content(prompt: Prompt, api: Api) -> dict[str, Any]:
    if api == "chat":
        return {"messages": _messages(prompt)}
    return {"prompt": text_or_ids(prompt, api)}


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    if prompt.messages:
        return list(prompt.messages)
    if prompt.text is not None:
        return [{"role": "user", "content": prompt.text}]
    raise InputError(
        f"prompt {prompt.prompt_id!r} holds token ids only; the chat API takes messages or text",
        hint="use api: generate or api: completions",
    )
