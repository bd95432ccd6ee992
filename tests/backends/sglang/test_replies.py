"""Counts come from the server, under the names of every version, and never from guesses.

The events are those that SGLang 0.5.23 and vLLM 0.32.0 sent, shortened.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.backend import ReplyReader
from specbench.backends.products import backend_for
from specbench.backends.replies import error_message
from specbench.model.load import Api, RequestRecord


def read(
    api: Api, events: list[Any], *, one_by_one: bool = False, engine: str = ""
) -> tuple[RequestRecord, ReplyReader]:
    record = RequestRecord(rid="r", prompt_id="p")
    reader = backend_for(engine).reader(api, record, keep_text=True)
    payloads = [each if isinstance(each, bytes) else msgspec.json.encode(each) for each in events]
    stamps = [10 * (number + 1) for number in range(len(payloads))]
    if one_by_one:
        for payload, stamp in zip(payloads, stamps, strict=True):
            reader.event(payload, stamp)
    else:
        reader.events(payloads, stamps)
    reader.finish()
    return record, reader


def generated(text: str, ids: list[int] | None, count: int, **meta: Any) -> dict[str, Any]:
    event: dict[str, Any] = {
        "text": text,
        "meta_info": {
            "finish_reason": None,
            "prompt_tokens": 8,
            "completion_tokens": count,
            **meta,
        },
    }
    return event if ids is None else event | {"output_ids": ids}


LENGTH = {"type": "length", "length": 6}
TREE = {  # SGLang 0.5.23, EAGLE with a tree
    "spec_accept_rate": 0.22,
    "spec_accept_length": 3.0,
    "spec_num_correct_drafts": 3,
    "spec_num_proposed_drafts": 14,
    "spec_verify_ct": 2,
    "spec_correct_drafts_histogram": [0, 1, 1],
}
CUMULATIVE = [
    generated(" a", [271], 1),
    generated(" a\n    path", [271, 275, 641], 3, cached_tokens=6, num_retractions=1),
    generated(
        " a\n    path, and the", [271, 275, 641, 14, 369, 290], 6, finish_reason=LENGTH, **TREE
    ),
    b"[DONE]",
]
INCREMENTAL = [
    generated(" a", [271], 1),
    generated("\n    path", [275, 641], 3, cached_tokens=6, num_retractions=1),
    generated(", and the", [14, 369, 290], 6, finish_reason=LENGTH, **TREE),
    b"[DONE]",
]


@pytest.mark.parametrize("events", [CUMULATIVE, INCREMENTAL])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_generate_is_read_alike_cumulative_and_incremental(
    events: list[Any], one_by_one: bool
) -> None:
    record, reader = read("generate", events, one_by_one=one_by_one)

    assert record.text == " a\n    path, and the"
    assert record.output_ids == [271, 275, 641, 14, 369, 290]
    assert (record.chunk_ns, record.chunk_tokens) == ([10, 20, 30], [1, 2, 3])
    assert (record.first_token_ns, record.last_token_ns) == (10, 30)
    assert record.tokens_in_first_chunk == 1
    assert (record.output_tokens, record.prompt_tokens) == (6, 8)
    assert (record.spec_verify_ct, record.spec_accepted, record.spec_proposed) == (2, 3, 14)
    assert record.spec_histogram == [0, 1, 1]
    assert record.finish_reason == "length"
    assert (reader.done, reader.failure, record.reason) == (True, None, "")


def test_without_ids_text_tells_cumulative_from_incremental() -> None:
    cumulative = [generated("a", None, 1), generated("ab", None, 2), generated("abc", None, 3)]
    incremental = [generated("a", None, 1), generated("b", None, 2), generated("c", None, 3)]

    assert read("generate", cumulative)[0].text == "abc"
    assert read("generate", incremental)[0].text == "abc"


def test_an_event_with_tokens_and_no_text_is_no_chunk_but_its_tokens_are_kept() -> None:
    events = [generated("a", [1], 1), generated("a", [1, 2], 2), generated("aé", [1, 2, 3], 3)]

    record, _ = read("generate", events)

    assert record.chunk_tokens == [1, 2]
    assert record.output_tokens == 3


SPEC_OF_VERSIONS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "0.4.6 to 0.5.2": ({"spec_verify_ct": 4}, (4, None, None, None)),
    "0.5.5": (
        {"spec_verify_ct": 4, "spec_accept_token_num": 5, "spec_draft_token_num": 12},
        (4, 5, 12, None),
    ),
    "0.5.10": (
        {
            "spec_verify_ct": 4,
            "spec_accept_token_num": 5,
            "spec_draft_token_num": 12,
            "spec_accept_histogram": [1, 1, 2],
        },
        (4, 5, 12, [1, 1, 2]),
    ),
    "0.5.12 to 0.5.20": (
        {
            "spec_verify_ct": 4,
            "spec_num_correct_drafts": 5,
            "spec_accepted_drafts": 5,
            "spec_num_proposed_drafts": 12,
            "spec_proposed_drafts": 12,
            "spec_correct_drafts_histogram": [1, 1, 2],
            "spec_accept_histogram": [1, 1, 2],
        },
        (4, 5, 12, [1, 1, 2]),
    ),
    "0.5.23": (
        {
            "spec_verify_ct": 4,
            "spec_num_correct_drafts": 5,
            "spec_num_proposed_drafts": 12,
            "spec_correct_drafts_histogram": [1, 1, 2],
        },
        (4, 5, 12, [1, 1, 2]),
    ),
    "plain decoding": ({}, (None, None, None, None)),
}


@pytest.mark.parametrize("version", SPEC_OF_VERSIONS)
def test_acceptance_is_found_under_the_names_of_every_version(version: str) -> None:
    spec, expected = SPEC_OF_VERSIONS[version]

    record, _ = read("generate", [generated("a", [1], 1, finish_reason={"type": "stop"}, **spec)])

    assert expected == (
        record.spec_verify_ct,
        record.spec_accepted,
        record.spec_proposed,
        record.spec_histogram,
    )


def delta(text: str | None, count: int | None = None, **more: Any) -> dict[str, Any]:
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None} | more]}
    return (
        event
        if count is None
        else event | {"usage": {"prompt_tokens": 13, "completion_tokens": count}}
    )


ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
END = [
    {"choices": [{"delta": {"reasoning_content": None}, "finish_reason": "length"}]},
    {
        "choices": [],
        "usage": None,
        "sglext": {"spec_tokens_details": TREE | {"spec_cap_length": 0.0}},
    },
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 13,
            "completion_tokens": 6,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    },
    b"[DONE]",
]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_chat_takes_counts_from_continuous_usage_and_sglext(one_by_one: bool) -> None:
    events = [ROLE, delta("#", 1), delta("\n#", 4), delta("\n", 6), *END]

    record, reader = read("chat", events, one_by_one=one_by_one)

    assert (record.chunk_ns, record.chunk_tokens) == ([20, 30, 40], [1, 3, 2])
    assert (record.output_tokens, record.cached_tokens, record.spec_verify_ct) == (6, 4, 2)
    assert (record.text, record.finish_reason) == ("#\n#\n", "length")
    assert (record.reason, reader.failure) == ("", None)


def test_usage_only_at_the_end_leaves_chunks_uncounted() -> None:
    record, _ = read("chat", [ROLE, delta("#"), delta("\n"), *END])

    assert record.chunk_tokens == []
    assert record.tokens_in_first_chunk is None
    assert (record.output_tokens, record.count_source) == (6, "server")


def test_reasoning_is_content() -> None:
    thinking = {"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]}
    vllm = {"choices": [{"delta": {"reasoning": "so"}}]}

    record, _ = read("chat", [ROLE, thinking, vllm, delta("42"), *END])

    assert record.text == "hmso42"
    assert record.first_token_ns == 20


def test_vllm_tells_acceptance_in_its_metrics() -> None:
    spec = {
        "mean_acceptance_length": 2.08,
        "acceptance_histogram": [5, 4, 0, 3],
        "num_spec_steps": 12,
        "num_accepted_draft_tokens": 13,
        "num_draft_tokens": 36,
    }
    events = [
        {"choices": [{"index": 0, "text": " a", "finish_reason": None, "token_ids": [7]}]},
        {"choices": [{"index": 0, "text": " b", "finish_reason": "stop", "token_ids": [8, 9]}]},
        {
            "choices": [],
            "usage": {"prompt_tokens": 8, "completion_tokens": 24},
            "metrics": {"time_to_first_token_ms": 5.4, "speculative_decoding": spec},
        },
        b"[DONE]",
    ]

    record, _ = read("completions", events, engine="vllm")

    assert (record.spec_drafted_steps, record.spec_accepted, record.spec_proposed) == (12, 13, 36)
    assert (record.spec_verify_ct, record.spec_steps_of) == (12, "derived")
    assert record.spec_histogram == [5, 4, 0, 3]
    assert record.output_ids == [7, 8, 9]


def test_equal_outputs_have_equal_hashes_and_others_do_not() -> None:
    same = [read("generate", events)[0].output_sha256 for events in (CUMULATIVE, INCREMENTAL)]
    other = read("generate", [generated(" b", [271], 1)])[0].output_sha256

    assert same[0] == same[1] is not None
    assert other not in same


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([delta("a"), {"choices": [{"delta": {}, "finish_reason": "stop"}]}], "no_usage"),
        ([delta("a", 5), delta("b", 2)], "bad_count"),
        ([delta("a", 5), {"choices": [], "usage": {"completion_tokens": 2}}], "bad_count"),
        ([delta("a"), {"choices": [], "usage": {"completion_tokens": 0}}], "bad_count"),
    ],
)
def test_counts_that_are_missing_or_contradict_each_other_are_named(
    events: list[Any], reason: str
) -> None:
    record, _ = read("chat", events)

    assert record.reason == reason
    assert record.chunk_tokens == []


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"error": {"message": "too long", "code": 400}}], "error_event"),
        ([{"error": "plain"}], "error_event"),
        ([{"object": "list"}], "bad_json"),
        ([b"{"], "bad_json"),
        ([b"[]"], "bad_json"),
        ([b"\xff"], "bad_json"),
        ([delta("a", finish_reason="abort")], "server_abort"),
    ],
)
def test_what_is_no_reply_fails_with_its_reason(events: list[Any], reason: str) -> None:
    for one_by_one in (True, False):
        _, reader = read("chat", events, one_by_one=one_by_one)

        assert reader.failure is not None
        assert reader.failure[0] == reason


def test_nothing_is_taken_after_an_error() -> None:
    record, _ = read("chat", [delta("a", 1), {"error": {"message": "gone"}}, delta("b", 2)])

    assert record.text == "a"


@given(st.lists(st.integers(1, 8), min_size=1, max_size=30))
def test_chunk_tokens_add_up_to_what_the_server_counted(steps: list[int]) -> None:
    counts = [sum(steps[: number + 1]) for number in range(len(steps))]
    events = [delta("x" * step, count) for step, count in zip(steps, counts, strict=True)]

    record, _ = read("chat", events)

    assert record.chunk_tokens == steps
    assert record.output_tokens == sum(steps)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":"a","code":1}}', "a"),
        (b'{"error":"b"}', "b"),
        (b'{"object":"error","message":"c"}', "c"),
        (b'{"detail":"d"}', "d"),
        (b"<html>", "<html>"),
        (b'{"other":1}', '{"other":1}'),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_the_servers_sentence_is_found_in_any_error_body(body: bytes, said: str) -> None:
    assert error_message(body) == said
