"""Whatever a body holds, it is read or refused; nothing else happens."""

import functools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.engine.lm import load_language
from specbench.engine.server.http import BadRequest
from specbench.engine.server.openai_wire import OpenAIReader
from specbench.engine.server.wire import NUMBERS, Reader, read_json

scalars = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False)
values = st.recursive(
    scalars | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@functools.cache
def reader() -> Reader:
    return Reader(load_language().tokenizer, 256, None)


def some_of(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, values))


OPENAI_KEYS = (
    "prompt", "messages", "max_tokens", "n", "seed", "logprobs", "top_logprobs", "echo",
    "stream_options", "response_format", "temperature", "stop", "logit_bias", "tools", "rid",
)  # fmt: skip
sampling = some_of(*NUMBERS, "stop", "stop_token_ids", "ignore_eos", "n", "logit_bias")
generate = st.fixed_dictionaries(
    {"text": st.just("x") | st.just(["x", "y"]) | values},
    optional={
        "sampling_params": sampling | st.lists(sampling, max_size=2) | values,
        "rid": values,
        "return_logprob": values,
        "logprob_start_len": values,
        "top_logprobs_num": values,
        "token_ids_logprob": values,
        "cache_salt": values,
        "stream": values,
    },
)


@settings(max_examples=50)
@given(generate)
def test_generate_bodies_are_read_or_refused(body: dict[str, Any]) -> None:
    try:
        wishes, _ = reader().generate(body)
    except BadRequest:
        return

    assert all(0 < len(wish.prompt_ids) + wish.params.max_new_tokens <= 256 for wish in wishes)


@settings(max_examples=50)
@given(some_of(*OPENAI_KEYS).map(lambda extra: {"prompt": "x"} | extra))
def test_openai_bodies_are_read_or_refused(body: dict[str, Any]) -> None:
    openai = OpenAIReader(reader(), "model", usage_by_default=False)
    for read in (openai.completion, openai.chat):
        try:
            asked = read(body)
        except BadRequest:
            continue

        assert asked.wishes


@given(
    st.lists(st.fixed_dictionaries({"role": st.text(max_size=8), "content": values}), max_size=3)
)
def test_chats_are_read_or_refused(messages: list[dict[str, Any]]) -> None:
    openai = OpenAIReader(reader(), "openai", usage_by_default=False)
    try:
        asked = openai.chat({"messages": messages, "max_tokens": 4})
    except BadRequest:
        return

    assert asked.wishes[0].prompt_ids


@given(st.binary(max_size=40))
def test_bytes_are_an_object_or_refused(raw: bytes) -> None:
    try:
        value = read_json(raw)
    except BadRequest:
        return

    assert isinstance(value, dict)
