"""`specbench load` as a program: what it says of failures, of silence, and after Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.loadgen.scripted import (
    DONE,
    GOOD,
    HEAD,
    Script,
    chunk,
    finish,
    good,
    serving,
    stream,
    usage,
    word,
)

pytestmark = pytest.mark.process

REFUSED = (
    b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"
    b'{"error": "[red]no key"}'
)


def command(port: int, *words: str) -> list[str]:
    url = f"http://127.0.0.1:{port}"
    fixed = ["--engine", "openai", "--concurrency", "1", "--max-tokens", "16"]
    return [sys.executable, "-m", "specbench", "load", "--url", url, *fixed, *words]


def load(script: Script, *words: str) -> subprocess.CompletedProcess[str]:
    with serving(script) as server:
        return subprocess.run(
            command(server.port, *words), capture_output=True, text=True, timeout=120, check=False
        )


def refuse(connection: socket.socket, number: int) -> None:
    connection.sendall(REFUSED)


def test_failures_have_their_reason_and_number_in_the_table() -> None:
    done = load(refuse, "--requests", "6")

    assert done.returncode == 3
    assert "concurrency 1: failed: 6 × 401 Unauthorized" in done.stdout  # noqa: RUF001
    assert "Traceback" not in done.stderr


def test_failures_have_their_reason_and_number_in_the_document() -> None:
    done = load(refuse, "--requests", "6", "--json")

    (level,) = json.loads(done.stdout)["levels"]
    assert level["failures"] == [{"reason": "401 Unauthorized", "count": 6, "said": "[red]no key"}]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([usage(2), DONE], "no TPOT: tokens are counted at the end of a reply only"),
        ([DONE], "no figures of tokens: the server does not count them"),
    ],
)
def test_figures_that_a_server_gives_no_counts_for_are_empty_with_the_reason(
    last: list[bytes], said: str
) -> None:
    events = [word("one "), word("two"), finish(), *last]

    done = load(lambda connection, number: connection.sendall(stream(events)), "--requests", "2")

    assert done.returncode == 0
    assert said in done.stdout


def test_a_silent_server_ends_the_load_at_the_limit_asked_for() -> None:
    with serving(lambda connection, number: server.hang()) as server:
        done = subprocess.run(
            command(server.port, "--requests", "9", "--stall-timeout", "0.5"),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    assert done.returncode == 3
    assert "ended early: nothing came from the server" in done.stdout
    assert "1 × no answer in time" in done.stdout  # noqa: RUF001


def test_a_request_takes_no_longer_than_the_timeout() -> None:
    def drip(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD)
        while True:
            connection.sendall(chunk(GOOD[0]))
            server.closing_or(0.05)

    with serving(drip) as server:
        done = subprocess.run(
            command(server.port, "--requests", "2", "--timeout", "0.5", "--json"),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    (level,) = json.loads(done.stdout)["levels"]
    assert [each["reason"] for each in level["failures"]] == ["timeout"]


def test_ctrl_c_shows_the_figures_so_far_and_marks_them() -> None:
    enough = threading.Event()

    def script(connection: socket.socket, number: int) -> None:
        if number > 5:
            enough.set()
        server.closing_or(0.02)
        good(connection, number)

    with serving(script) as server:
        running = subprocess.Popen(
            command(server.port, "--requests", "500", "--json"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert enough.wait(60)
        running.send_signal(signal.SIGINT)
        said, complaint = running.communicate(timeout=60)

    (level,) = json.loads(said)["levels"]
    assert running.returncode == 130
    assert "interrupted" in level["flags"]
    assert 4 <= level["columns"]["n_requests"] < 500
    assert level["columns"]["tok_s"] > 0
    assert "Traceback" not in complaint


def test_an_event_nested_too_deeply_fails_its_request_in_words(tmp_path: Path) -> None:
    deep = b'data: {"later": ' + b"[" * 15_000 + b"]" * 15_000 + b"}\n\n"

    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(stream([GOOD[0], deep, *GOOD[1:]]))

    done = load(script, "--requests", "2", "--keep", str(tmp_path))

    details = [json.loads(line)["detail"] for line in rows_of(tmp_path)]
    assert "Traceback" not in done.stderr
    assert "2 × not a reply" in done.stdout  # noqa: RUF001
    assert {detail.partition(":")[0] for detail in details} == {"it is nested too deeply"}
    assert done.returncode == 3


def rows_of(folder: Path) -> list[bytes]:
    (path,) = folder.glob("*.jsonl")
    return path.read_bytes().splitlines()


def test_a_model_named_like_markup_is_shown_by_its_name() -> None:
    done = load(good, "--requests", "2", "--model", "[/red][bold]m:smile:")

    assert "Traceback" not in done.stderr
    assert "[/red][bold]m:smile:" in done.stderr
