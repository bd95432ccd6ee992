"""Bodies of every endpoint, key by key: recorded from SGLang 0.5.23, written down by hand."""

import pytest

from tests.engine.server.conftest import Engine, Json

pytestmark = pytest.mark.process

META = {
    "id", "finish_reason", "prompt_tokens", "weight_version", "num_retractions",
    "storage_prefetch_wait", "storage_staging_wait", "forward_entry_time", "prefill_finished_time",
    "queue_time", "reasoning_tokens", "completion_tokens", "cached_tokens", "cached_tokens_details",
    "dp_rank",
}  # fmt: skip
META_END = {
    "weight_versions", "e2e_latency", "request_received_ts", "first_token_latency",
    "api_server_dispatch_finish_ts", "request_finished_ts", "decode_throughput",
    "response_sent_to_client_ts",
}  # fmt: skip
SPEC = {
    "spec_accept_rate", "spec_accept_length", "spec_num_correct_drafts",
    "spec_num_proposed_drafts", "spec_verify_ct", "spec_correct_drafts_histogram",
}  # fmt: skip
SPEC_DETAILS = SPEC | {"spec_cap_length", "spec_block_accept_length", "spec_cap_lens_histogram"}
CHAT = {"messages": [{"role": "user", "content": "What is a river?"}], "max_tokens": 16}
USAGE = {
    "prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details",
    "reasoning_tokens", "completion_tokens_details",
}  # fmt: skip


def test_generate_without_speculation(plain: Engine) -> None:
    answer = plain.generate(max_new_tokens=6)

    assert set(answer) == {"text", "output_ids", "meta_info"}
    assert set(answer["meta_info"]) == META | META_END
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 6}


def test_generate_with_speculation_has_the_counters_at_the_end(tree: Engine) -> None:
    body = {"text": "The sea", "sampling_params": {"temperature": 0, "max_new_tokens": 20}}

    events = tree.events("/generate", body)

    assert set(events[-1]["meta_info"]) == META | META_END | SPEC
    assert all(set(event["meta_info"]) == META for event in events[:-1])
    assert len(events) > 2


def test_generate_batches_answer_with_a_list(plain: Engine) -> None:
    body = {"text": ["One", "Two"], "sampling_params": {"max_new_tokens": 3, "n": 2}}

    answers = plain.post("/generate", body).json()

    assert [len(answer["output_ids"]) for answer in answers] == [3, 3, 3, 3]


def test_streamed_batches_carry_an_index(plain: Engine) -> None:
    body = {"text": ["One", "Two"], "sampling_params": {"max_new_tokens": 3, "ignore_eos": True}}

    events = plain.events("/generate", body)

    assert {event["index"] for event in events} == {0, 1}


def test_logprob_triples(plain: Engine) -> None:
    body = {
        "text": "The sea is",
        "sampling_params": {"temperature": 0, "max_new_tokens": 4},
        "return_logprob": True,
        "logprob_start_len": 1,
        "top_logprobs_num": 2,
        "token_ids_logprob": [5, 6],
        "return_text_in_logprobs": True,
    }

    meta = plain.post("/generate", body).json()["meta_info"]

    assert meta["output_token_logprobs_length"] == 4
    assert len(meta["output_token_logprobs"]) == len(meta["output_top_logprobs"]) == 4
    first = meta["input_token_logprobs"][0]
    assert first[0] is None
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"] - 1
    assert meta["cached_tokens"] <= 1
    logprob, token, text = meta["output_token_logprobs"][0]
    assert [logprob, token] == meta["output_top_logprobs"][0][0][:2]
    assert isinstance(text, str)
    assert [entry[1] for entry in meta["output_token_ids_logprobs"][0]] == [5, 6]


def test_teacher_forcing_agrees_with_decoding(plain: Engine) -> None:
    prompt = plain.generate("The sea is", max_new_tokens=1)["meta_info"]["prompt_tokens"]
    body: Json = {
        "text": "The sea is",
        "sampling_params": {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    first = plain.post("/generate", body).json()
    ids = [entry[1] for entry in first["meta_info"]["input_token_logprobs"]] + first["output_ids"]
    replay = {
        "input_ids": ids,
        "sampling_params": {"max_new_tokens": 0},
        "return_logprob": True,
        "logprob_start_len": prompt - 1,
    }

    scored = plain.post("/generate", replay).json()["meta_info"]

    decoded = first["meta_info"]["output_token_logprobs"]
    assert scored["completion_tokens"] == 0
    assert [entry[1] for entry in scored["input_token_logprobs"][1:]] == first["output_ids"]
    for (a, *_), (b, *_) in zip(decoded, scored["input_token_logprobs"][1:], strict=True):
        assert a == pytest.approx(b, abs=1e-4)


def test_completions(tree: Engine) -> None:
    body = {"prompt": "The sea", "max_tokens": 16, "return_spec_tokens_details": True}

    answer = tree.post("/v1/completions", body | {"temperature": 0}).json()

    assert set(answer) == {
        "id", "object", "created", "model", "choices", "usage", "metadata", "sglext",
    }  # fmt: skip
    assert answer["object"] == "text_completion"
    choice = {"index", "text", "logprobs", "finish_reason", "matched_stop"}
    assert set(answer["choices"][0]) == choice
    assert set(answer["usage"]) == USAGE
    assert set(answer["sglext"]["spec_tokens_details"]) == SPEC_DETAILS


def test_completion_stream_ends_with_extension_then_usage(tree: Engine) -> None:
    body = {
        "prompt": "The sea", "max_tokens": 16, "temperature": 0, "ignore_eos": True,
        "return_spec_tokens_details": True, "stream_options": {"include_usage": True},
    }  # fmt: skip

    *text, extension, usage = tree.events("/v1/completions", body)

    assert all(event["usage"] is None and event["choices"] for event in text)
    assert extension["choices"] == []
    assert set(extension["sglext"]["spec_tokens_details"]) == SPEC_DETAILS
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 16
    assert text[-1]["choices"][0]["finish_reason"] == "length"


def test_chat(tree: Engine) -> None:
    body = CHAT | {
        "temperature": 0, "return_meta_info": True, "return_output_ids_in_sglext": True,
    }  # fmt: skip

    answer = tree.post("/v1/chat/completions", body).json()

    choice = answer["choices"][0]
    assert answer["object"] == "chat.completion"
    assert set(choice) == {
        "index", "message", "logprobs", "finish_reason", "matched_stop", "meta_info",
    }  # fmt: skip
    assert set(choice["message"]) == {"role", "content", "reasoning_content"}
    assert len(answer["sglext"]["output_ids"][0]) == answer["usage"]["completion_tokens"]


def test_chat_stream_begins_with_the_role_and_ends_with_usage(plain: Engine) -> None:
    body = CHAT | {"temperature": 0, "stream_options": {"include_usage": True}}

    first, *middle, end, usage = plain.events("/v1/chat/completions", body)

    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert all("usage" not in event for event in (first, *middle, end))
    assert end["choices"][0]["delta"] == {"reasoning_content": None}
    assert end["choices"][0]["finish_reason"] in {"stop", "length"}
    assert set(usage["usage"]) == USAGE


def test_continuous_usage_grows_to_the_total(plain: Engine) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "The sea", "max_tokens": 5, "ignore_eos": True, "stream_options": options}

    counts = [
        event["usage"]["completion_tokens"] for event in plain.events("/v1/completions", body)
    ]

    assert counts == sorted(counts)
    assert counts[-1] == 5


@pytest.mark.parametrize(
    ("path", "body", "shape"),
    [
        ("/generate", {"text": "x", "sampling_params": {"seed": 1}}, str),
        ("/generate", {"text": "x", "sampling_params": {"temperature": -1}}, dict),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": "many"}}, dict),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 10**9}}, dict),
        ("/generate", {"text": "x", "sampling_params": {"regex": "a*"}}, dict),
        ("/generate", {"text": "x", "input_ids": [1]}, dict),
        ("/generate", {"input_ids": [10**6]}, dict),
        ("/generate", {"input_ids": []}, dict),
        ("/generate", {}, dict),
    ],
)
def test_generate_refuses_with_400(plain: Engine, path: str, body: Json, shape: type) -> None:
    answer = plain.post(path, body)

    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert isinstance(answer.json()["error"], shape)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/chat/completions", {"messages": [{"content": "no role"}]}),
        ("/v1/chat/completions", CHAT | {"tools": [{"type": "function"}]}),
        ("/v1/completions", {"prompt": {"not": "a prompt"}}),
        ("/v1/completions", {"prompt": "x", "temperature": -1}),
    ],
)
def test_openai_refuses_with_its_own_shape(plain: Engine, path: str, body: Json) -> None:
    answer = plain.post(path, body)

    assert answer.status_code == 400
    assert set(answer.json()) == {"object", "message", "type", "param", "code"}


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff\xfe", b"null", b'{"text": "\xc3"}'])
def test_a_body_that_is_no_json_object_is_400(plain: Engine, raw: bytes) -> None:
    answer = plain.client.post(plain.url("/generate"), content=raw)

    assert answer.status_code == 400


def test_unknown_top_level_keys_are_ignored(plain: Engine) -> None:
    answer = plain.post(
        "/generate", {"text": "x", "sampling_params": {"max_new_tokens": 1}, "q": 1}
    )

    assert answer.status_code == 200


def test_model_and_server_info(tree: Engine) -> None:
    model, server = tree.get("/model_info").json(), tree.get("/server_info").json()

    assert model["model_path"] == "test-model"
    assert model["is_generation"] is True
    assert server["speculative_algorithm"] == "DDTREE"
    assert server["speculative_num_draft_tokens"] == 9
    assert server["max_running_requests"] == 48
    assert server["disable_overlap_schedule"] is True
    assert server["version"] == "0.5.23"
    assert "--speculative-ddtree-budget 8" in server["launch_command"]
    assert server["internal_states"][0]["effective_max_running_requests_per_dp"] == 48
    assert set(server["startup_time"]) >= {"load_weight", "scheduler_e2e", "tokenizer_e2e"}
    assert tree.get("/get_server_info").json().keys() == server.keys()
    assert tree.get("/get_model_info").json() == model


def test_a_plain_server_leaves_the_running_cap_unresolved(plain: Engine) -> None:
    server = plain.get("/server_info").json()

    assert server["max_running_requests"] is None
    assert server["internal_states"][0]["effective_max_running_requests_per_dp"] == 4096
    assert "avg_spec_accept_length" not in server["internal_states"][0]


def test_loads_and_models(tree: Engine) -> None:
    load = tree.get("/v1/loads").json()["loads"][0]

    assert load["max_running_requests"] == 48
    assert set(load["speculative"]) == {"accept_length", "accept_rate"}
    assert tree.get("/v1/models").json()["data"][0]["id"] == "test-model"


def test_unknown_paths_and_methods(plain: Engine) -> None:
    assert plain.get("/get_load").json() == {"detail": "Not Found"}
    assert plain.get("/get_load").status_code == 404
    assert plain.get("/generate").status_code == 405


def test_logit_bias_keys_are_strings_as_json_has_them(plain: Engine) -> None:
    assert plain.generate(max_new_tokens=3, logit_bias={"85": 100})["output_ids"] == [85] * 3
    body = {"prompt": "x", "max_tokens": 2, "temperature": 0, "logit_bias": {"85": 100}}
    assert plain.post("/v1/completions", body).json()["choices"][0]["text"] == "UU"


@pytest.mark.parametrize("key", ["999999", "-1", "many"])
def test_a_foreign_token_in_logit_bias_is_refused(plain: Engine, key: str) -> None:
    body = {"text": "x", "sampling_params": {"logit_bias": {key: 1}}}

    assert plain.post("/generate", body).status_code == 400


def test_special_tokens_show_only_when_asked_for(plain: Engine) -> None:
    hidden = plain.generate(max_new_tokens=1, logit_bias={"262": 1000})
    shown = plain.generate(max_new_tokens=1, logit_bias={"262": 1000}, skip_special_tokens=False)

    assert hidden["output_ids"] == shown["output_ids"] == [262]
    assert (hidden["text"], bool(shown["text"])) == ("", True)
