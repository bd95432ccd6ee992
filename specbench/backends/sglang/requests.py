"""Request bodies of SGLang, vLLM and OpenAI-compatible servers, one per API.

Every sampling field is sent, since the OpenAI endpoints of SGLang and vLLM otherwise take defaults
from the model's generation_config.json. No key is sent that a server is known to refuse: SGLang
0.5.23 answers 400 to an unknown key of `sampling_params`, older versions answer 500; unknown
top-level keys are ignored. The keys used here exist in every version from 0.4.6 to 0.5.23.
"""

from typing import Any

import msgspec

from specbench.errors import InputError
from specbench.model.load import Api, Prompt, Sampling, Target

PATHS: dict[Api, str] = {
    "generate": "/generate",
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
}

_encode = msgspec.json.Encoder().encode


def request_body(
    target: Target,
    sampling: Sampling,
    prompt: Prompt,
    *,
    rid: str = "",
    salt: str = "",
    stream: bool = True,
    keep_text: bool = False,
) -> bytes:
    """Encode one request as JSON.

    `rid` names the request to SGLang; `salt` isolates its prefix cache (`cache_salt`), and vLLM's.
    `keep_text` asks vLLM for token ids too. Raises InputError when the API cannot carry the prompt.
    """
    if target.api == "generate":
        body = _generate(sampling, prompt, rid)
    else:
        body = _openai_options(target, sampling, prompt, rid, stream=stream, keep_text=keep_text)
    body["stream"] = stream
    if salt and target.engine != "openai":
        body["cache_salt"] = salt
    return _encode(body)


def _generate(sampling: Sampling, prompt: Prompt, rid: str) -> dict[str, Any]:
    content = _text_or_ids(prompt, "generate")
    body: dict[str, Any] = {"text" if isinstance(content, str) else "input_ids": content}
    body["sampling_params"] = {
        "max_new_tokens": prompt.max_tokens or sampling.max_tokens,
        **_common(sampling),
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos,
    }
    if rid:
        body["rid"] = rid
    return body


def _openai_options(
    target: Target, sampling: Sampling, prompt: Prompt, rid: str, *, stream: bool, keep_text: bool
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model": target.model,
        **_content(prompt, target.api),
        "max_tokens": prompt.max_tokens or sampling.max_tokens,
        **_common(sampling),
    }
    if target.engine == "openai":
        return options | ({"stream_options": {"include_usage": True}} if stream else {})
    options |= {
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "ignore_eos": sampling.ignore_eos,
    }
    if stream:
        options["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if target.engine == "sglang":
        options["return_spec_tokens_details"] = True
        if rid:
            options["rid"] = rid
    elif keep_text:
        options["return_token_ids"] = True
    return options


def _content(prompt: Prompt, api: Api) -> dict[str, Any]:
    if api == "chat":
        return {"messages": _messages(prompt)}
    return {"prompt": _text_or_ids(prompt, api)}


def _common(sampling: Sampling) -> dict[str, float]:
    """Fields that every API knows under the same name."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
    }


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    if prompt.messages:
        return list(prompt.messages)
    if prompt.text is not None:
        return [{"role": "user", "content": prompt.text}]
    raise InputError(
        f"prompt {prompt.prompt_id!r} holds token ids only; the chat API takes messages or text",
        hint="use api: generate or api: completions",
    )


def _text_or_ids(prompt: Prompt, api: Api) -> str | list[int]:
    """Take the raw prompt; a chat is refused, since only the server knows its template."""
    if prompt.input_ids:
        return list(prompt.input_ids)
    if prompt.text is not None:
        return prompt.text
    raise InputError(
        f"prompt {prompt.prompt_id!r} is a chat, and the {api} API applies no chat template",
        hint="use api: chat, or give the prompt as text or input_ids",
    )
