"""Requests carry every sampling field, and no key that a server refuses."""

from typing import Any

import msgspec
import pytest

from specbench.backends.backend import Ask
from specbench.backends.products import backend_for
from specbench.errors import InputError
from specbench.model.load import Api, Prompt, Sampling

TEXT = Prompt(prompt_id="p", text="Hello")
CHAT = Prompt(prompt_id="c", messages=({"role": "user", "content": "Hi"},))
IDS = Prompt(prompt_id="i", input_ids=(1, 2, 3))

KNOWN_SAMPLING_PARAMS = {  # every version from 0.4.6 to 0.5.23 has these; 0.5.23 refuses others
    "max_new_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "ignore_eos",
}
OPENAI_KEYS = {
    "model",
    "messages",
    "max_tokens",
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "stream",
    "stream_options",
}


def body(
    api: Api, prompt: Prompt, engine: str = "sglang", sampling: Sampling | None = None, **more: Any
) -> dict[str, Any]:
    ask = Ask(prompt=prompt, sampling=sampling or Sampling(), api=api, model="m", **more)
    decoded: dict[str, Any] = msgspec.json.decode(backend_for(engine).request(ask).body)
    return decoded


def test_generate_sends_every_sampling_field_and_no_unknown_one() -> None:
    sent = body("generate", TEXT, rid="r-1", salt="s")

    assert set(sent["sampling_params"]) == KNOWN_SAMPLING_PARAMS
    assert sent["text"] == "Hello"
    assert (sent["rid"], sent["cache_salt"], sent["stream"]) == ("r-1", "s", True)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_the_openai_apis_send_every_sampling_field(api: Api, engine: str) -> None:
    sent = body(api, TEXT, engine)

    fields = KNOWN_SAMPLING_PARAMS - {"max_new_tokens"} | {"max_tokens"}
    assert fields <= set(sent)
    assert sent["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_spec_details_are_asked_of_sglang_only() -> None:
    assert body("chat", TEXT)["return_spec_tokens_details"] is True
    assert "return_spec_tokens_details" not in body("chat", TEXT, "vllm")


def test_an_openai_server_gets_openai_keys_only() -> None:
    sent = body("chat", TEXT, "openai", rid="r", salt="s", ids=True)

    assert set(sent) == OPENAI_KEYS
    assert sent["stream_options"] == {"include_usage": True}


def test_values_are_sent_as_given() -> None:
    sampling = Sampling(temperature=0.6, top_p=0.9, top_k=20, min_p=0.1, max_tokens=7)

    sent = body("generate", TEXT, sampling=sampling)["sampling_params"]

    assert (sent["temperature"], sent["top_p"], sent["top_k"]) == (0.6, 0.9, 20)
    assert (sent["min_p"], sent["max_new_tokens"]) == (0.1, 7)


def test_a_prompt_may_bring_its_own_limit() -> None:
    limited = Prompt(prompt_id="p", text="Hello", max_tokens=3)

    assert body("generate", limited)["sampling_params"]["max_new_tokens"] == 3
    assert body("chat", limited)["max_tokens"] == 3


def test_ids_travel_as_ids_and_text_becomes_a_chat() -> None:
    assert body("generate", IDS)["input_ids"] == [1, 2, 3]
    assert body("completions", IDS)["prompt"] == [1, 2, 3]
    assert body("chat", TEXT)["messages"] == [{"role": "user", "content": "Hello"}]
    assert body("chat", CHAT)["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("api", "prompt"), [("generate", CHAT), ("completions", CHAT), ("chat", IDS)]
)
def test_a_prompt_that_an_api_cannot_carry_is_refused(api: Api, prompt: Prompt) -> None:
    with pytest.raises(InputError, match="prompt"):
        body(api, prompt)


def test_no_salt_is_sent_where_none_is_wanted() -> None:
    assert "cache_salt" not in body("chat", TEXT)
