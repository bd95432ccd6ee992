"""One request gives one text, however it is asked for."""

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.engine.server.conftest import Engine, Json, Start, serving

pytestmark = pytest.mark.process

PROMPTS = ["The sea", "Écris une phrase sur la mer", "def area(width, height):"]


def body_of(text: str, **sampling: object) -> Json:
    fixed = {"temperature": 0, "max_new_tokens": 48, "ignore_eos": True}
    return {"text": text, "sampling_params": fixed | sampling}


@pytest.fixture(scope="module")
def incremental(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("incremental") / "server.log"
    with serving(path, "--incremental-streaming-output") as engine:
        yield engine


@pytest.mark.parametrize("text", PROMPTS)
def test_cumulative_incremental_and_whole_agree(
    plain: Engine, incremental: Engine, text: str
) -> None:
    whole = plain.post("/generate", body_of(text)).json()

    cumulative = plain.events("/generate", body_of(text))
    deltas = incremental.events("/generate", body_of(text))

    assert cumulative[-1]["text"] == whole["text"]
    assert cumulative[-1]["output_ids"] == whole["output_ids"]
    assert "".join(event["text"] for event in deltas) == whole["text"]
    assert [token for event in deltas for token in event["output_ids"]] == whole["output_ids"]
    assert all(b["text"].startswith(a["text"]) for a, b in pairwise(cumulative))


@pytest.mark.parametrize("place", [slice(20, 21), slice(25, 27), slice(30, 37)])
def test_a_stop_string_never_shows_in_part(
    plain: Engine, incremental: Engine, place: slice
) -> None:
    stop = plain.generate(max_new_tokens=100)["text"][place]
    body = body_of("The sea", stop=[stop], max_new_tokens=100)

    whole = plain.post("/generate", body).json()
    deltas = incremental.events("/generate", body)

    assert "".join(event["text"] for event in deltas) == whole["text"]
    assert stop not in whole["text"]
    assert whole["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert deltas[-1]["meta_info"]["finish_reason"] == whole["meta_info"]["finish_reason"]


def test_no_stop_trim_keeps_the_stop_string(plain: Engine) -> None:
    trimmed = plain.generate(stop=["e"], max_new_tokens=100)
    kept = plain.generate(stop=["e"], no_stop_trim=True, max_new_tokens=100)

    assert kept["text"] == trimmed["text"] + "e"
    assert kept["output_ids"] == trimmed["output_ids"]


def test_speculation_stops_at_the_same_token(plain: Engine, tree: Engine) -> None:
    for stop in ("e", ".", " the"):
        alone, together = (
            engine.generate("A river", stop=[stop], max_new_tokens=120) for engine in (plain, tree)
        )

        assert alone["text"] == together["text"]
        assert alone["output_ids"] == together["output_ids"]


def test_openai_streams_add_up(plain: Engine) -> None:
    body: Json = {"prompt": "The sea", "max_tokens": 40, "temperature": 0}
    chat: Json = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40}
    chat |= {"temperature": 0}

    whole = plain.post("/v1/completions", body).json()["choices"][0]["text"]
    parts = [event["choices"][0]["text"] for event in plain.events("/v1/completions", body)]
    answer = plain.post("/v1/chat/completions", chat).json()["choices"][0]["message"]["content"]
    deltas = [
        event["choices"][0]["delta"].get("content", "")
        for event in plain.events("/v1/chat/completions", chat)
    ]

    assert "".join(parts) == whole
    assert "".join(deltas) == answer


def test_one_event_a_step(tree: Engine) -> None:
    events = tree.events("/generate", body_of("The sea"))

    assert len(events) == 1 + events[-1]["meta_info"]["spec_verify_ct"]


def test_a_disconnected_client_frees_its_request(serve: Start) -> None:
    with serve("--time-scale", "1") as engine:
        body = body_of("The sea", max_new_tokens=20_000) | {"stream": True}
        with engine.client.stream("POST", engine.url("/generate"), json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert engine.get("/v1/loads").json()["loads"][0]["num_running_reqs"] == 1

        deadline = 200
        while engine.get("/v1/loads").json()["loads"][0]["num_running_reqs"]:
            deadline -= 1
            assert deadline, "the request still runs"

        assert engine.post("/flush_cache").status_code == 200
        assert json.loads(engine.get("/v1/loads").text)["loads"][0]["num_used_tokens"] == 0


def test_a_stream_interval_joins_steps(serve: Start) -> None:
    with serve("--stream-interval", "10") as engine:
        events = engine.events("/generate", body_of("The sea", max_new_tokens=35))

    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == [1, 11, 21, 31, 35]
