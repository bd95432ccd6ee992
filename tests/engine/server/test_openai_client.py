"""The official OpenAI client works unchanged."""

from collections.abc import Iterator

import openai
import pytest

from tests.engine.server.conftest import Engine, Start

pytestmark = pytest.mark.process

QUESTION = [{"role": "user", "content": "Why is the sea salty?"}]


@pytest.fixture(scope="module")
def client(tree: Engine) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=tree.url("/v1"), api_key="none", max_retries=0) as client:
        yield client


def test_chat_and_its_stream_give_the_same_text(client: openai.OpenAI) -> None:
    asked = {"model": "test-model", "messages": QUESTION, "temperature": 0, "max_tokens": 32}

    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )

    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert whole.choices[0].message.content == text
    assert whole.usage == chunks[-1].usage
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_chat_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="test-model", messages=QUESTION, temperature=0, max_tokens=6, logprobs=True,
        top_logprobs=3,
    )  # fmt: skip

    content = answer.choices[0].logprobs.content
    text = "".join(entry.token for entry in content)  # special tokens included
    assert text.endswith(answer.choices[0].message.content)
    assert all(len(entry.top_logprobs) == 3 for entry in content)
    assert all(entry.logprob == entry.top_logprobs[0].logprob for entry in content)


def test_completions_with_echo_and_logprobs(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="test-model",
        prompt="The sea",
        temperature=0,
        max_tokens=5,
        logprobs=2,
        echo=True,
        n=2,
    )

    assert len(answer.choices) == 2
    logprobs = answer.choices[0].logprobs
    assert "".join(logprobs.tokens) == answer.choices[0].text
    assert logprobs.token_logprobs[0] is None
    assert len(logprobs.top_logprobs[1]) == 2


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["test-model"]


def test_a_refusal_is_a_bad_request_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model="test-model", prompt="x", temperature=-1)


def test_keys_are_checked(serve: Start) -> None:
    with serve("--api-key", "s3cret", "--admin-api-key", "adm1n") as engine:
        url = engine.url("/v1")
        stranger = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with openai.OpenAI(base_url=url, api_key="s3cret", max_retries=0) as friend:
            assert friend.models.list().data

        user = {"authorization": "Bearer s3cret"}
        admin = {"authorization": "Bearer adm1n"}
        assert engine.get("/health").status_code == 200
        assert engine.get("/model_info").status_code == 401
        assert engine.get("/model_info").json() == {"error": "Unauthorized"}
        assert engine.post("/flush_cache", headers=user).status_code == 401
        assert engine.post("/flush_cache", headers=admin).status_code == 200
        info = engine.get("/server_info", headers=user).text
        assert "s3cret" not in info + engine.log()
        assert "adm1n" not in info + engine.log()
