import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from specbench.errors import HostError, InputError, ServiceError
from specbench.verify.client import Client, Refused
from specbench.verify.wire import Ask

ASK = Ask(ids=(5, 6, 7), max_tokens=4)
META = {
    "finish_reason": {"type": "length", "length": 4},
    "completion_tokens": 4,
    "cached_tokens": 2,
    "spec_verify_ct": 2,
    "spec_num_correct_drafts": 1,
    "spec_num_proposed_drafts": 4,
    "spec_correct_drafts_histogram": [1, 1],
}
WHOLE = {"text": "abcd", "output_ids": [1, 2, 3, 4], "meta_info": META}

Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any]], tuple[int, bytes]]


@contextmanager
def serving(reply: Reply) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            status, body = reply(self, json.loads(self.rfile.read(length) or b"{}"))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name that http.server looks up

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def client_of(reply: Reply, **options: object) -> Iterator[Client]:
    with serving(reply) as url:
        client = Client(url, **options)
        try:
            yield client
        finally:
            client.close()


def answer(value: object, status: int = 200) -> Reply:
    return lambda _handler, _body: (status, json.dumps(value).encode())


def test_a_whole_answer_is_read_with_its_counters() -> None:
    with client_of(answer(WHOLE), draft_tokens=3) as client:
        (out,) = client.generate(ASK)

    assert out.ids == (1, 2, 3, 4)
    assert (out.counters.verify_ct, out.counters.correct, out.counters.histogram) == (2, 1, (1, 1))
    assert client.spent.generated == 4


@pytest.mark.parametrize("incremental", [False, True])
def test_a_stream_gives_the_sizes_of_its_chunks(incremental: bool) -> None:
    def stream(_handler: object, _body: dict[str, Any]) -> tuple[int, bytes]:
        lines = []
        for start, end in ((0, 1), (1, 3), (3, 4)):
            shown = slice(start if incremental else 0, end)
            event = {
                "text": "abcd"[shown],
                "output_ids": [1, 2, 3, 4][shown],
                "meta_info": {**META, "completion_tokens": end},
            }
            lines.append(f"data: {json.dumps(event)}\n\n")
        return 200, ("".join(lines) + "data: [DONE]\n\n").encode()

    with client_of(stream) as client:
        (out,) = client.generate(Ask(ids=(5,), max_tokens=4, stream=True))

    assert out.rounds == (1, 2, 1)
    assert out.ids == (1, 2, 3, 4)
    assert out.text == "abcd"


def test_every_sampling_field_is_sent_and_the_key_in_the_header_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, Any] = {}

    def note(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> tuple[int, bytes]:
        seen.update(body=body, key=handler.headers.get("authorization"))
        return 200, json.dumps(WHOLE).encode()

    monkeypatch.setenv("THE_KEY", "s3cret")
    with client_of(note, api_key_env="THE_KEY") as client:
        client.generate(ASK)

    assert seen["key"] == "Bearer s3cret"
    assert "s3cret" not in json.dumps(seen["body"]) + repr(client)
    assert {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "ignore_eos"} <= set(
        seen["body"]["sampling_params"]
    )


def test_an_empty_key_variable_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)

    with pytest.raises(InputError, match="NO_SUCH_KEY"):
        Client("http://127.0.0.1:1", "NO_SUCH_KEY")


def test_a_refused_key_says_how_to_give_one() -> None:
    refusing = answer({"error": "Unauthorized"}, 401)

    with client_of(refusing) as client, pytest.raises(InputError, match="API key") as caught:
        client.generate(ASK)

    assert "--api-key-env" in str(caught.value)


def test_nobody_at_the_url_is_a_host_error() -> None:
    client = Client("http://127.0.0.1:9")

    with pytest.raises(HostError, match="nobody answers"):
        client.identify()
    client.close()


@pytest.mark.parametrize("url", ["localhost:30000", "not a url", "ftp://x"])
def test_what_is_not_a_url_is_the_users_mistake(url: str) -> None:
    with pytest.raises((InputError, HostError)):
        Client(url).identify()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"text": "x"}',
        b'{"meta_info": 3, "output_ids": 1}',
    ],
)
def test_an_answer_that_cannot_be_read_is_a_service_error(body: bytes) -> None:
    with client_of(lambda _h, _b: (200, body)) as client, pytest.raises(ServiceError):
        client.generate(ASK)


def test_a_refusal_is_told_from_a_death() -> None:
    refusing = answer({"error": {"message": "min_p?"}}, 400)

    with client_of(refusing) as client, pytest.raises(Refused, match="min_p"):
        client.generate(ASK)


def test_an_aborted_request_is_not_taken_for_an_answer() -> None:
    aborted: dict[str, Any] = {
        **WHOLE,
        "meta_info": {**META, "finish_reason": {"type": "abort", "message": "kv"}},
    }

    with client_of(answer(aborted)) as client, pytest.raises(ServiceError, match="aborted"):
        client.generate(ASK)


def test_scores_of_other_tokens_are_refused() -> None:
    shifted = {"meta_info": {"input_token_logprobs": [[None, 5, None], [-1.0, 9, None]]}}

    with client_of(answer(shifted)) as client, pytest.raises(Refused, match="other tokens"):
        client.score((5, 6), 1, 2)


def test_vllm_answers_are_read_from_prompt_logprobs() -> None:
    choice = {
        "token_ids": [9],
        "prompt_token_ids": [5, 6],
        "prompt_logprobs": [None, {"6": {"logprob": -2.0}, "7": {"logprob": -0.5}}],
    }

    with client_of(answer({"choices": [choice]}), engine="vllm") as client:
        score = client.score((5, 6), 1, 2)

    assert score.logp == (-2.0,)
    assert score.top_ids == ((7, 6),)


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_the_server_closed_between_requests_is_no_death(stream: bool) -> None:
    closed: list[int] = []

    def once(handler: BaseHTTPRequestHandler, body: dict[str, object]) -> tuple[int, bytes]:
        if not closed:
            closed.append(1)
            handler.connection.shutdown(2)
        whole = json.dumps(WHOLE)
        return 200, (f"data: {whole}\n\ndata: [DONE]\n\n" if body["stream"] else whole).encode()

    with client_of(once, draft_tokens=3) as client:
        (out,) = client.generate(Ask(ids=(5, 6, 7), max_tokens=4, stream=stream))

    assert closed
    assert out.ids == (1, 2, 3, 4)
