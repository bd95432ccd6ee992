"""Identities of the speculation counters, per request and over the server."""

import re

import pytest

from tests.engine.server.conftest import Engine, Json, Start

pytestmark = pytest.mark.process

WIDTH = 9


def spec(answer: Json) -> Json:
    meta: Json = answer["meta_info"]
    return meta


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("tokens", [2, 7, 40])
def test_histogram_identities(tree: Engine, temperature: int, tokens: int) -> None:
    meta = spec(tree.generate("A river", temperature=temperature, max_new_tokens=tokens))

    h, verify = meta["spec_correct_drafts_histogram"], meta["spec_verify_ct"]
    correct = meta["spec_num_correct_drafts"]
    assert sum(h) == verify
    assert sum(k * n for k, n in enumerate(h)) == correct
    assert meta["spec_num_proposed_drafts"] == verify * (WIDTH - 1)
    assert meta["spec_accept_rate"] == correct / meta["spec_num_proposed_drafts"]
    assert meta["spec_accept_length"] == meta["completion_tokens"] / verify
    assert h[-1] > 0
    assert 1 + verify <= meta["completion_tokens"] <= 1 + verify + correct


def test_one_token_needs_no_verify_step(tree: Engine) -> None:
    meta = spec(tree.generate(max_new_tokens=1))

    assert "spec_verify_ct" not in meta
    assert meta["completion_tokens"] == 1


def metric(engine: Engine, name: str) -> float:
    """Sum over the labels of one metric."""
    text = engine.get("/metrics").text
    found = re.findall(rf"^sglang:{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    assert found, name
    return sum(float(value) for value in found)


def test_counters_add_up_over_requests(tree: Engine) -> None:
    names = ("generation_tokens_total", "spec_verify_calls_total", "prompt_tokens_total")
    before = [metric(tree, name) for name in names]

    answers = [tree.generate(f"Number {k}", max_new_tokens=20) for k in range(5)]

    after = [metric(tree, name) for name in names]
    metas = [spec(answer) for answer in answers]
    sums = [
        sum(m[key] for m in metas)
        for key in ("completion_tokens", "spec_verify_ct", "prompt_tokens")
    ]
    assert [b - a for a, b in zip(before, after, strict=True)] == sums


def test_health_checks_do_not_count(plain: Engine) -> None:
    before = metric(plain, "num_requests_total")

    assert plain.get("/health").status_code == 200

    assert metric(plain, "num_requests_total") == before


def test_server_accept_length_is_cumulative_refreshed_by_interval_and_reset_by_flush(
    serve: Start,
) -> None:
    flags = ("--speculative-algorithm", "DFLASH", "--speculative-num-draft-tokens", "8")
    with serve(*flags, "--decode-log-interval", "10", "--draft-quality", "0.5") as engine:
        assert engine.post("/flush_cache").status_code == 200
        state = engine.get("/server_info").json()["internal_states"][0]
        assert "avg_spec_accept_length" not in state

        metas = [spec(engine.generate(f"Say {k}", max_new_tokens=60)) for k in range(4)]

        verify = sum(m["spec_verify_ct"] for m in metas)
        correct = sum(m["spec_num_correct_drafts"] for m in metas)
        state = engine.get("/server_info").json()["internal_states"][0]
        seen = engine.log().count("Decode batch")
        assert seen == verify // 10
        assert state["avg_spec_accept_length"] == pytest.approx(1 + correct / verify, rel=0.3)
        assert engine.get("/v1/loads").json()["loads"][0]["speculative"]["accept_length"] > 1

        assert engine.post("/flush_cache").status_code == 200
        state = engine.get("/server_info").json()["internal_states"][0]
        assert "avg_spec_accept_length" not in state


def test_gauges_exist_without_speculation_and_say_zero(plain: Engine) -> None:
    assert metric(plain, "spec_accept_length") == 0.0
    assert metric(plain, "spec_num_draft_tokens") == 0.0


def test_metrics_need_their_flag(serve: Start) -> None:
    with serve() as engine:
        assert engine.get("/metrics").status_code == 404
