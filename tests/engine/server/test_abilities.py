"""`--without`: the engine refuses what such servers refuse, and does everything else."""

import contextlib
from collections.abc import Callable

import pytest

from specbench.engine.server import args
from tests.engine.server.conftest import Engine

pytestmark = pytest.mark.process

Start = Callable[..., contextlib.AbstractContextManager[Engine]]
IDS = [5, 6, 7]


def test_tokenize_gives_the_ids_that_the_server_generates_from(plain: Engine) -> None:
    answer = plain.post("/tokenize", {"prompt": "The sea is wide"}).json()
    again = plain.post("/detokenize", {"tokens": answer["tokens"]}).json()

    assert answer["count"] == len(answer["tokens"]) > 1
    assert again["text"] == "The sea is wide"


def test_a_server_without_logprobs_still_gives_ids(serve: Start) -> None:
    with serve("--without", "logprobs,logit_bias", "--speculative-algorithm", "DFLASH") as engine:
        sampling = {"max_new_tokens": 4, "temperature": 0}
        body = {"input_ids": IDS, "sampling_params": sampling}
        scored = engine.post("/generate", body | {"return_logprob": True})
        biased = engine.post(
            "/generate", {"input_ids": IDS, "sampling_params": sampling | {"logit_bias": {"9": 5}}}
        )
        openai = engine.post("/v1/completions", {"prompt": IDS, "max_tokens": 2, "logprobs": 1})
        plain = engine.post("/generate", body)

    assert scored.status_code == biased.status_code == openai.status_code == 400
    assert "return_logprob" in scored.text
    assert len(plain.json()["output_ids"]) == 4
    assert plain.json()["meta_info"]["spec_verify_ct"] > 0


def test_next_token_scores_stay_where_only_those_of_prompts_are_missing(serve: Start) -> None:
    with serve("--without", "prompt_logprobs,tokenize,flush,n") as engine:
        body = {"input_ids": IDS, "return_logprob": True, "top_logprobs_num": 3}
        body["sampling_params"] = {"max_new_tokens": 1, "temperature": 0}
        prompt = engine.post("/generate", body | {"logprob_start_len": 0})
        next_one = engine.post("/generate", body).json()
        statuses = [
            engine.post("/tokenize", {"prompt": "x"}).status_code,
            engine.post("/flush_cache").status_code,
            engine.post(
                "/generate", {"input_ids": IDS, "sampling_params": {"n": 2, "max_new_tokens": 1}}
            ).status_code,
        ]

    assert prompt.status_code == 400
    assert len(next_one["meta_info"]["output_top_logprobs"][0]) == 3
    assert statuses == [404, 404, 400]


def test_a_text_server_takes_and_gives_no_ids(serve: Start) -> None:
    with serve("--without", "ids,counters", "--speculative-algorithm", "DFLASH") as engine:
        refused = engine.post("/generate", {"input_ids": IDS})
        text = engine.generate("The sea")

    assert refused.status_code == 400
    assert "output_ids" not in text
    assert not [key for key in text["meta_info"] if key.startswith("spec_")]


def test_an_unknown_ability_is_a_wrong_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        args.read(["--model-path", "x", "--without", "magic"])

    assert ended.value.code == 2
    assert "unknown ability 'magic'" in capsys.readouterr().err
