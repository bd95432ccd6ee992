"""Each fault of the server shows itself, and only as it says."""

import httpx
import pytest

from specbench.engine.server.faults import SERVER_FAULTS
from tests.engine.server.conftest import Engine, Json, Start

pytestmark = pytest.mark.process

BODY: Json = {"text": "The sea", "sampling_params": {"max_new_tokens": 12, "ignore_eos": True}}


def ask(engine: Engine, times: int, timeout: float) -> None:
    for _ in range(times):
        engine.post("/generate", BODY, timeout=timeout)


def ask_until_death(engine: Engine) -> None:
    """Ask until the engine hangs up; it must within 40 requests."""
    with pytest.raises(httpx.TransportError):
        ask(engine, 40, timeout=60.0)


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("crash-under-load", "Scheduler hit an exception:"),
        ("oom-under-load", "CUDA out of memory"),
        ("native-crash", "crashed with exit code -6. Triggering SIGQUIT"),
    ],
)
def test_crashes_come_under_load(serve: Start, fault: str, line: str) -> None:
    with serve("--fault", fault) as engine:
        ask_until_death(engine)

        assert engine.ended() == 137
        assert line in engine.log()
        assert "SIGQUIT received." in engine.log()


def test_every_fifth_request_fails(serve: Start) -> None:
    with serve("--fault", "http-500") as engine:
        statuses = [engine.post("/generate", BODY).status_code for _ in range(10)]

    assert sorted(statuses) == [200] * 8 + [500] * 2


def test_a_cut_stream_has_no_end(serve: Start) -> None:
    with serve("--fault", "cut-stream") as engine:
        for _ in range(4):
            assert engine.events("/generate", BODY)

        with pytest.raises(httpx.RemoteProtocolError):
            engine.events("/generate", BODY)

        assert engine.generate()["output_ids"]


def test_an_error_event_ends_a_stream(serve: Start) -> None:
    with serve("--fault", "error-event") as engine:
        ends = [engine.events("/generate", BODY)[-1] for _ in range(5)]

    assert all("meta_info" in end for end in ends[:4])
    assert set(ends[4]["error"]) == {"message", "type", "code", "retryable"}


def test_an_endless_stream_never_ends(serve: Start) -> None:
    with serve("--fault", "endless-stream") as engine:
        for _ in range(4):
            engine.events("/generate", BODY)

        with pytest.raises(httpx.ReadTimeout):
            engine.post("/generate", BODY | {"stream": True}, timeout=1.0)


def test_a_zombie_is_healthy_but_mute(serve: Start) -> None:
    with serve("--fault", "zombie") as engine:
        with pytest.raises(httpx.ReadTimeout):
            ask(engine, 40, timeout=2.0)

        assert engine.get("/health").status_code == 200


def test_a_hung_server_does_not_answer_its_health_check(serve: Start) -> None:
    with serve("--fault", "hang-under-load") as engine:
        with pytest.raises(httpx.ReadTimeout):
            ask(engine, 40, timeout=2.0)

        with pytest.raises(httpx.ReadTimeout):
            engine.get("/health", timeout=2.0)


def test_every_fault_of_the_server_is_listed_with_a_sentence() -> None:
    assert all(sentence.endswith(".") for sentence in SERVER_FAULTS.values())
