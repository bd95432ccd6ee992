"""Request bodies of SGLang: its native endpoint, and its OpenAI ones with its own keys.

Every sampling field is sent, since the OpenAI endpoints otherwise take defaults from the model's
generation_config.json. No key is sent that a server is known to refuse: SGLang 0.5.23 answers 400
to an unknown key of `sampling_params`, older versions answer 500; unknown top-level keys are
ignored. The keys used here exist in every version from 0.4.6 to 0.5.23.
"""

from typing import Any

from specbench.backends.backend import Ask
from specbench.backends.openai import requests as openai

PATHS = {"generate": "/generate", **openai.PATHS}


def body(ask: Ask) -> dict[str, Any]:
    """Return the JSON of a request. Raises InputError when the API cannot carry the prompt."""
    document = _generate(ask) if ask.api == "generate" else _openai(ask)
    if ask.rid:
        document["rid"] = ask.rid
    if ask.salt:
        document["cache_salt"] = ask.salt
    return document


def _generate(ask: Ask) -> dict[str, Any]:
    content = openai.text_or_ids(ask.prompt, ask.api)
    sampling: dict[str, Any] = {
        "max_new_tokens": openai.max_tokens(ask),
        **openai.common(ask.sampling),
        **openai.extended(ask.sampling),
    }
    if ask.n != 1:
        sampling["n"] = ask.n
    if ask.bias:
        sampling["logit_bias"] = {str(token): bias for token, bias in ask.bias}
    document: dict[str, Any] = {
        "text" if isinstance(content, str) else "input_ids": content,
        "sampling_params": sampling,
        "stream": ask.stream,
    }
    if ask.logprobs:
        document |= {"return_logprob": True, "return_text_in_logprobs": True}
    if ask.top:
        document["top_logprobs_num"] = ask.top
    return document


def _openai(ask: Ask) -> dict[str, Any]:
    document = openai.body(ask) | openai.extended(ask.sampling)
    if ask.stream:
        document["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    return document | {"return_spec_tokens_details": True}
