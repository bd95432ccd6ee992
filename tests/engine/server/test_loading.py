"""The load: order of its lines, its failures, the port, and the end."""

import http.client
import re
import signal

import pytest

from tests.engine.server.conftest import Engine, Start
from tests.ports import free_port

pytestmark = pytest.mark.process

MILESTONES = [
    r"server_args=",
    r"Init parallel begin\.",
    r"Load weight begin\. avail mem=",
    r"Loading safetensors checkpoint shards:",
    r"Load weight end\. elapsed=[\d.]+ s, type=\w+, avail mem=[\d.]+ GB, mem usage=[\d.]+ GB\.",
    r"KV Cache is allocated\. dtype: \S+, #tokens: \d+, K size: [\d.]+ GB, V size: [\d.]+ GB",
    r"Memory pool end\. avail mem=",
    r"Running FlashInfer autotune",
    r"FlashInfer autotune completed\.",
    r"Capture target verify CUDA graph begin\. backend=full, num_tokens_per_req=4, avail mem=",
    r"Capturing batches \(bs=\d+ avail_mem=[\d.]+ GB\)",
    r"Capture target verify CUDA graph end\.",
    r"Load weight begin\.",
    r"Load weight end\.",
    r"Capture draft decode CUDA graph begin\.",
    r"Capture draft decode CUDA graph end\.",
    r"max_total_num_tokens=\d+, chunked_prefill_size=\d+, max_prefill_tokens=\d+,",
    r"max_running_requests=48, context_len=\d+, available_gpu_mem=[\d.]+ GB",
    r"Engine startup timings \(s\): load_weight=",
    r"Uvicorn running on http://127\.0\.0\.1:\d+",
    r"GET /model_info HTTP/1\.1\" 200",
    r"POST /generate HTTP/1\.1\" 200",
    r"The server is fired up and ready to roll!",
]
EAGLE = (
    "--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "draft",
    "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4",
)  # fmt: skip


def status_of(port: int, path: str) -> int | None:
    """Status of one GET; None when nobody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except ConnectionError:
        return None
    finally:
        connection.close()


def test_the_milestones_come_in_sglangs_order(serve: Start) -> None:
    with serve(*EAGLE, "--tp-size", "2", "--load-seconds", "0.2") as engine:
        log, at = engine.log(), 0

        for milestone in MILESTONES:
            found = re.compile(milestone).search(log, at)
            assert found, f"{milestone} not after {log[at : at + 300]!r}"
            at = found.end()
        assert re.search(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d TP0\] Load weight", log, re.MULTILINE)


def test_a_poller_sees_closed_then_starting_then_ready(launch: Start) -> None:
    port = free_port()
    with launch("--load-seconds", "0.5", "--phase-seconds", "warmup=1", port=port) as engine:
        seen: list[tuple[int | None, int | None]] = []
        while not seen or seen[-1] != (200, 200):
            state = (status_of(port, "/model_info"), status_of(port, "/health"))
            seen += [state] if not seen or state != seen[-1] else []
            assert engine.process.poll() is None, engine.log()

    assert seen[0] == (None, None)
    assert (200, 503) in seen


def test_sigterm_drains_and_ends_with_status_0(serve: Start) -> None:
    with serve("--time-scale", "1") as engine:
        body = {"text": "x", "sampling_params": {"max_new_tokens": 150, "ignore_eos": True}}
        with engine.client.stream(
            "POST", engine.url("/generate"), json=body | {"stream": True}
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            engine.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]

        assert rest[-1] == "data: [DONE]"
        assert '"completion_tokens":150' in rest[-2]
        assert engine.ended() == 0
        assert "SIGTERM received." in engine.log()


def test_a_second_sigterm_does_not_wait(serve: Start) -> None:
    with serve("--fault", "slow-drain") as engine:
        engine.process.send_signal(signal.SIGTERM)
        engine.until("SIGTERM received")
        assert engine.process.poll() is None

        engine.process.send_signal(signal.SIGTERM)

        assert engine.ended(20) == 0


def test_forced_shutdown_does_not_drain(serve: Start) -> None:
    with serve("--fault", "slow-drain", SGL_FORCE_SHUTDOWN="1") as engine:
        engine.process.send_signal(signal.SIGTERM)

        assert engine.ended(20) == 0


@pytest.mark.parametrize(
    "phase", ["starting", "weights", "kv_cache", "autotune", "graphs", "draft"]
)
def test_a_failing_phase_kills_the_process_as_sglang_does(launch: Start, phase: str) -> None:
    with launch(*EAGLE, "--fail-load", phase, port=free_port()) as engine:
        assert engine.ended() == 137
        assert "Scheduler hit an exception:" in engine.log()
        assert f"failed in phase {phase}" in engine.log()
        assert "Received sigquit from a child process." in engine.log()


def test_a_failing_warm_up_kills_the_bound_server(launch: Start) -> None:
    with launch("--fault", "warmup-fails", port=free_port()) as engine:
        assert engine.ended() == 137
        assert "Initialization failed. warmup error:" in engine.log()


@pytest.mark.parametrize("phase", ["weights", "warmup"])
def test_a_hanging_phase_stays_and_dies_of_sigterm(launch: Start, phase: str) -> None:
    with launch("--hang-load", phase, port=free_port()) as engine:
        engine.until(f"hanging in phase {phase}")
        assert "fired up" not in engine.log()

        engine.process.send_signal(signal.SIGTERM)

        assert engine.ended(20) in {0, 143}


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("oom-load", "torch.OutOfMemoryError: CUDA out of memory"),
        ("oom-graphs", "Capture cuda graph failed:"),
        ("no-kv-room", "Not enough memory. Please try to increase --mem-fraction-static."),
    ],
)
def test_load_faults_leave_sglangs_lines(launch: Start, fault: str, line: str) -> None:
    with launch("--fault", fault, port=free_port()) as engine:
        assert engine.ended() == 137
        assert line in engine.log()


def test_weights_beyond_the_gpu_leave_no_room(launch: Start) -> None:
    with launch("--gpu", "rtx4090", "--clock-model", "llama-3.3-70b", port=1) as engine:
        assert engine.ended() == 137
        assert "Not enough memory. Please try to increase --mem-fraction-static." in engine.log()


def test_the_loser_of_a_port_still_says_that_it_is_ready(plain: Engine, launch: Start) -> None:
    with launch(port=plain.port) as loser:
        assert loser.ended() == 137
        log = loser.log()

    assert "[Errno 98] error while attempting to bind on address" in log
    assert "The server is fired up and ready to roll!" in log
    assert "crashed with exit code -9" in log
    assert plain.get("/model_info").status_code == 200


def test_a_port_taken_by_something_else_fails_the_warm_up(launch: Start) -> None:
    with launch("--fault", "port-conflict", port=free_port()) as engine:
        assert engine.ended() == 137
        assert "address already in use" in engine.log()
        assert "Initialization failed. warmup error:" in engine.log()
