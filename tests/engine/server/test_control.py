"""Queue, caps, room, cache, abort and the control endpoints, on running servers."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.engine.server.conftest import Engine, Json, Start

pytestmark = pytest.mark.process

LONG = {"temperature": 0, "max_new_tokens": 4000, "ignore_eos": True}


def load(engine: Engine) -> Json:
    first: Json = engine.get("/v1/loads").json()["loads"][0]
    return first


def eventually(holds: Callable[[], bool], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def in_background(engine: Engine, count: int, **body: Any) -> list[threading.Thread]:
    def ask(number: int) -> None:
        text = f"Story {number}: once"
        engine.post("/generate", {"text": text, "rid": f"long-{number}"} | body)

    threads = [threading.Thread(target=ask, args=(k,), daemon=True) for k in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_flush_is_refused_while_busy_and_abort_ends_the_work(serve: Start) -> None:
    with serve("--time-scale", "1") as engine:
        threads = in_background(engine, 3, sampling_params=LONG)
        eventually(lambda: load(engine)["num_running_reqs"] == 3)

        assert engine.post("/flush_cache").status_code == 400
        assert engine.post("/flush_cache?timeout=0.05").status_code == 400
        assert engine.post("/abort_request", {"rid": "long-1"}).status_code == 200
        eventually(lambda: load(engine)["num_running_reqs"] == 2)
        assert engine.post("/abort_request", {"abort_all": True}).status_code == 200

        for thread in threads:
            thread.join(10)
        assert engine.post("/flush_cache?timeout=5").status_code == 200
        assert engine.post("/abort_request", {}).status_code == 400


def test_the_silent_cap_of_48_is_logged_and_the_rest_waits(serve: Start) -> None:
    flags = ("--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "4")
    with serve(*flags, "--time-scale", "1") as engine:
        assert "Max running requests is reset to 48 for speculative decoding." in engine.log()

        limits = httpx.Limits(max_connections=100)
        engine.client = httpx.Client(timeout=60, limits=limits, trust_env=False)
        threads = in_background(engine, 52, sampling_params=LONG)
        eventually(lambda: load(engine)["num_waiting_reqs"] == 4)

        assert load(engine)["num_running_reqs"] == 48
        engine.post("/abort_request", {"abort_all": True})
        for thread in threads:
            thread.join(10)


def test_a_full_pool_retracts_and_every_request_ends_right(serve: Start) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 150, "ignore_eos": True}
    prompts = [f"Story {k}: once upon a time" for k in range(6)]
    with serve("--max-total-tokens", "420", "--disable-radix-cache", "--enable-metrics") as engine:
        alone = [engine.post("/generate", _body(p, sampling)).json() for p in prompts]

        together = engine.post("/generate", _body(prompts, sampling)).json()

        retracted = sum(answer["meta_info"]["num_retractions"] for answer in together)
        counter = re.search(
            r"num_retracted_requests_total\{.*\} (\S+)", engine.get("/metrics").text
        )
        assert [a["output_ids"] for a in together] == [a["output_ids"] for a in alone]
        assert retracted > 0
        assert counter is not None
        assert float(counter.group(1)) == retracted
        assert "KV cache pool is full. Retract requests. #retracted_reqs:" in engine.log()


def _body(text: str | list[str], sampling: Json) -> Json:
    return {"text": text, "sampling_params": sampling}


def test_a_repeated_prompt_is_cached_unless_salted(serve: Start) -> None:
    text = "A long enough prompt about rivers, seas and mountains."
    with serve() as engine:

        def cached(**body: Any) -> int:
            asked = _body(text, {"temperature": 0, "max_new_tokens": 8}) | body
            answer = engine.post("/generate", asked).json()
            return int(answer["meta_info"]["cached_tokens"])

        first, again = cached(), cached()
        salted, salted_again = cached(cache_salt="a"), cached(cache_salt="a")
        other = cached(extra_key="a")
        scoring = cached(return_logprob=True, logprob_start_len=2)
        engine.post("/flush_cache")

        prompt = engine.generate(text)["meta_info"]["prompt_tokens"]
        assert (first, again) == (0, prompt - 1)
        assert (salted, salted_again, other) == (0, prompt - 1, 0)
        assert scoring <= 2


def test_cache_reuse_does_not_change_the_text(plain: Engine, tree: Engine) -> None:
    for engine in (plain, tree):
        first = engine.generate("Tell me of the mountains and the sea.", max_new_tokens=40)
        again = engine.generate("Tell me of the mountains and the sea.", max_new_tokens=40)

        assert again["meta_info"]["cached_tokens"] > 0
        assert again["output_ids"] == first["output_ids"]


def test_greedy_speculation_emits_the_tokens_of_plain_decoding(plain: Engine, tree: Engine) -> None:
    prompts = [f"{k}. What can you say about rivers?" for k in range(12)]
    sampling = {"temperature": 0, "max_new_tokens": 40}

    alone, together = (
        engine.post("/generate", _body(prompts, sampling)) for engine in (plain, tree)
    )

    assert [a["output_ids"] for a in alone.json()] == [a["output_ids"] for a in together.json()]


def test_thresholds_change_live_and_unknown_keys_answer_false(serve: Start) -> None:
    with serve("--speculative-algorithm", "DFLASH") as engine:
        wanted = {"speculative_accept_threshold_acc": 0.5}

        changed = engine.post("/set_internal_state", {"server_args": wanted}).json()
        refused = engine.post("/set_internal_state", {"server_args": {"tp_size": 2}}).json()

        assert changed == [True]
        assert refused == [False]
        info = engine.get("/server_info").json()
        assert info["speculative_accept_threshold_acc"] == 0.5


def test_sampling_defaults_come_from_the_generation_config_unless_told(serve: Start) -> None:
    asked = {"prompt": "The sea", "max_tokens": 30, "logprobs": 1, "ignore_eos": True}
    with serve("--sampling-defaults", "openai") as neutral:
        texts = {
            neutral.post("/v1/completions", asked).json()["choices"][0]["text"] for _ in range(4)
        }

    assert len(texts) > 1


def test_prompts_and_answers_that_do_not_fit_are_refused(serve: Start) -> None:
    with serve("--context-length", "64") as engine:
        long = engine.post("/generate", _body("word " * 200, {"max_new_tokens": 1}))
        greedy = engine.post("/generate", _body("word", {"max_new_tokens": 64}))

        assert (long.status_code, greedy.status_code) == (400, 400)


def test_a_full_queue_is_refused(serve: Start) -> None:
    caps = ("--max-running-requests", "1", "--max-queued-requests", "1", "--time-scale", "2")
    with serve(*caps) as engine:
        threads = in_background(engine, 1, sampling_params=LONG, rid="runs")
        eventually(lambda: load(engine)["num_running_reqs"] == 1)
        threads += in_background(engine, 1, sampling_params=LONG, rid="waits")
        eventually(lambda: load(engine)["num_waiting_reqs"] == 1)

        refused = engine.post("/generate", _body("word", {"max_new_tokens": 1}))

        assert refused.status_code == 503
        engine.post("/abort_request", {"abort_all": True})
        for thread in threads:
            thread.join(10)
