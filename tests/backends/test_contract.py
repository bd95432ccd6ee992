"""What every backend keeps to, whatever its product."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec
import pytest

from specbench.backends.backend import Ask, Backend, Verb
from specbench.backends.products import BACKENDS, DEFAULT, backend_for
from specbench.backends.replies import settle_steps
from specbench.config.algorithms import builtin
from specbench.errors import InputError
from specbench.model.facts import ServerFacts
from specbench.model.host import Address
from specbench.model.load import Api, Prompt, RequestRecord, Sampling
from specbench.model.plan import LaunchSpec

SPEC = LaunchSpec(
    fingerprint="f", algorithm="ar", speculative=False, model_path="/m", served_name="tiny",
    flags=(("some-flag", 3), ("a-switch", True)),
)  # fmt: skip
HERE = Address(host="127.0.0.1", port=4711)
LIMITS = ("max_tokens", "max_new_tokens", "n_predict")
GARBAGE = [b"", b"null", b"[]", b"<html>", b"\xff", b'{"data": 3}', b'{"data": [7]}']


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]


def apis(backend: Backend) -> Iterator[tuple[Api, Prompt]]:
    for api in backend.paths:
        yield api, Prompt(prompt_id="p", text="Hello")


def test_a_backend_is_found_by_its_name_and_the_default_one_by_none(backend: Backend) -> None:
    assert backend_for(backend.name) is backend
    assert backend_for("") is BACKENDS[DEFAULT]
    with pytest.raises(InputError, match="unknown engine"):
        backend_for("no-such-engine")


def test_what_can_be_started_says_where_it_listens_and_takes_the_flags_given(
    backend: Backend,
) -> None:
    argv = backend.command(SPEC, HERE, ())
    if argv is None:
        pytest.skip("it is never started")

    assert {"/m", "tiny", "127.0.0.1", "4711", "--a-switch"} <= set(argv)
    assert argv[argv.index("--some-flag") + 1] == "3"
    assert (backend.command(SPEC, HERE, ("own", "head")) or ())[:2] == ("own", "head")


def test_a_canary_and_a_sign_of_life_can_be_asked_of_every_server(backend: Backend) -> None:
    for verb in ("alive", "health", "models"):
        assert backend.control(verb) is not None
    canary = backend.control("canary", model="tiny")

    assert canary is not None
    assert canary.method == "POST"


@pytest.mark.parametrize("verb", get_args(Verb))
def test_a_request_of_a_verb_is_a_path_with_a_json_body_or_none(
    backend: Backend, verb: Verb
) -> None:
    request = backend.control(verb)

    while request is not None:
        assert request.path.startswith("/")
        assert not request.body or isinstance(msgspec.json.decode(request.body), dict)
        request = request.otherwise


@pytest.mark.parametrize("body", GARBAGE)
def test_answers_that_make_no_sense_are_no_facts_and_no_exception(
    backend: Backend, body: bytes
) -> None:
    info: dict[str, object] = {}
    for verb in backend.speaks:
        info |= backend.read(verb, body)

    facts = backend.facts(info, {})

    assert isinstance(facts, ServerFacts)
    assert facts.product == backend.name
    assert facts.algorithm is None
    backend.running(body)


def test_only_the_backend_that_is_asked_last_takes_a_stranger_for_its_own(
    backend: Backend,
) -> None:
    stranger = {"id": "tiny", "owned_by": "somebody"}
    last = list(BACKENDS.values())[-1]

    assert backend.recognises(stranger, {"name": "unknown"}) == (backend is last)


def test_every_api_sends_the_sampling_and_asks_for_usage_where_it_is_not_native(
    backend: Backend,
) -> None:
    sampling = Sampling(temperature=0.25, top_p=0.5, max_tokens=7)
    for api, prompt in apis(backend):
        request = backend.request(Ask(prompt=prompt, sampling=sampling, api=api, model="tiny"))
        sent = msgspec.json.decode(request.body)
        where = sent.get("sampling_params", sent)

        assert request.path == backend.paths[api]
        assert sent["stream"] is True
        assert (where["temperature"], where["top_p"]) == (0.25, 0.5)
        assert {where.get(name) for name in LIMITS} == {7, None}
        if api != "generate":
            assert sent["stream_options"]["include_usage"] is True


def test_an_api_that_a_product_does_not_have_is_refused_with_those_that_it_has(
    backend: Backend,
) -> None:
    missing = [api for api in get_args(Api) if api not in backend.paths]
    for api in missing:
        ask = Ask(prompt=Prompt(prompt_id="p", text="x"), sampling=Sampling(), api=api)
        with pytest.raises(InputError, match="has no API"):
            backend.request(ask)


def stream(text: str, **more: object) -> bytes:
    return msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": text}}], **more})


END = msgspec.json.encode({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
USAGE = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}'


def chat(backend: Backend, *payloads: bytes) -> RequestRecord:
    record = RequestRecord(rid="r", prompt_id="p")
    reader = backend.reader("chat", record, keep_text=True)
    reader.events(list(payloads), list(range(1, len(payloads) + 1)))
    reader.finish()
    record.detail = "; ".join(filter(None, [record.detail, *(reader.failure or ())]))
    return record


def test_a_stream_without_continuous_usage_is_counted_by_its_end(backend: Backend) -> None:
    record = chat(backend, stream("a"), stream("b"), END, USAGE, b"[DONE]")

    assert (record.text, record.output_tokens, record.reason) == ("ab", 2, "")
    assert record.chunk_ns == [1, 2]


@pytest.mark.parametrize("beat", [b"", b" ", b'{"type":"ping"}', b'{"type": "ping"}'])
def test_heartbeats_are_no_chunks_and_no_failures(backend: Backend, beat: bytes) -> None:
    record = chat(backend, beat, stream("a"), beat, stream("b"), END, USAGE, b"[DONE]")

    assert (record.text, record.detail, len(record.chunk_ns)) == ("ab", "", 2)


def test_content_as_a_list_of_parts_is_text(backend: Backend) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    event = msgspec.json.encode({"choices": [{"index": 0, "delta": {"content": parts}}]})

    record = chat(backend, event, END, USAGE, b"[DONE]")

    assert (record.text, record.detail, len(record.chunk_ns)) == ("ab", "", 1)


def test_a_count_written_as_a_float_is_a_count_if_it_is_whole(backend: Backend) -> None:
    whole = chat(backend, stream("a"), END, USAGE.replace(b":2}", b":2.0}"), b"[DONE]")
    broken = chat(backend, stream("a"), END, USAGE.replace(b":2}", b":2.5}"), b"[DONE]")

    assert whole.output_tokens == 2
    assert broken.output_tokens is None


def test_a_character_cut_in_two_events_is_whole_again_and_a_lone_half_is_replaced(
    backend: Backend,
) -> None:
    halves = [
        b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\ude00"}}]}',
    ]

    whole = chat(backend, *halves, END, USAGE, b"[DONE]")
    lone = chat(backend, halves[0], END, USAGE, b"[DONE]")

    assert whole.text == "\U0001f600"
    assert lone.text == "�"
    msgspec.json.encode(lone)


def test_an_error_in_a_stream_is_one_whatever_comes_with_it(backend: Backend) -> None:
    error = b'{"error":{"message":"out of memory"}}'

    assert "out of memory" in chat(backend, stream("a"), error, b"[DONE]").detail


def test_a_living_server_without_a_bad_line_has_not_failed_and_an_ended_one_has(
    backend: Backend,
) -> None:
    lines = ["some line", "another one"]

    assert backend.diagnose(lines, exit_status=None) is None
    ended = backend.diagnose(lines, exit_status=-9)
    assert ended is not None
    assert ended.hint
    assert not any(map(backend.log_reader().is_fatal, lines))


def test_its_table_of_algorithms_has_the_control_and_every_other_one_speculates(
    backend: Backend,
) -> None:
    table = builtin(backend.name).algorithms

    assert table["ar"].speculative is False
    assert not table["ar"].flags
    assert all(entry.speculative for name, entry in table.items() if name != "ar")


def test_a_backend_opens_nothing(backend: Backend) -> None:
    source = inspect.getsource(sys.modules[type(backend).__module__])

    assert not any(f"import {name}" in source for name in ("socket", "subprocess", "httpx"))


@pytest.mark.parametrize(
    ("tokens", "accepted", "drafted", "steps"),
    [(10_240, 4_680, 1_960, 5_559), (24, 1, 1, 22), (24, 26, 5, 5), (64, 0, 0, 63)],
)
def test_steps_without_a_draft_are_steps_too(
    tokens: int, accepted: int, drafted: int, steps: int
) -> None:
    record = RequestRecord(rid="r", prompt_id="p", output_tokens=tokens)
    record.spec_steps_of, record.spec_accepted = "derived", accepted
    record.spec_drafted_steps, record.spec_histogram = drafted, [drafted]

    settle_steps(record)

    assert record.spec_verify_ct == steps
    assert sum(record.spec_histogram) == steps


class Says(Mapping[str, Any]):
    """An answer in which every name that anybody asks for has the same value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __getitem__(self, name: str) -> object:
        return self.value

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("value", [None, True, 7, 2.5, "", "text", [], [7], ["x"], [{"x": 1}], {}])
@pytest.mark.parametrize("deep", [0, 1, 2])
def test_typed_facts_of_any_answer_are_of_their_types_and_can_be_read_again(
    backend: Backend, value: object, deep: int
) -> None:
    said = Says(value)
    for _ in range(deep):
        said = Says(said)

    facts = msgspec.structs.replace(backend.facts(said, said), shown={})

    assert msgspec.convert(msgspec.to_builtins(facts), ServerFacts) == facts
