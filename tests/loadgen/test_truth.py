"""What is claimed of the stamps holds against servers that know when they sent what.

The servers here leave Nagle's algorithm on, as a plain socket does. What a send took is told from
both sides of it, so that a busy machine cannot make the truth wrong.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.model.load import DriveReport, RequestRecord
from tests.loadgen.scripted import (
    DONE,
    END,
    HEAD,
    chunk,
    finish,
    index_of,
    make_load,
    run,
    serving,
    usage,
    word,
)

pytestmark = pytest.mark.process

EVENTS = 12
STEP_S = 0.006
CLOCKS_NS = 200_000
"""Between the start on the two clocks, as a drive reads them."""

Send = Callable[[socket.socket, int], list[int]]
"""Sends the events of a reply; gives by when each had left, on CLOCK_MONOTONIC."""


def piece(number: int) -> bytes:
    return chunk(word(f"w{number} ", number + 1))


def one_by_one(connection: socket.socket, number: int) -> list[int]:
    left = []
    for event in range(EVENTS):
        time.sleep(STEP_S)
        connection.sendall(piece(event))
        left.append(time.monotonic_ns())
    return left


def through_a_proxy(connection: socket.socket, number: int) -> list[int]:
    """Write to a proxy that passes on what came in four steps at once."""
    left: list[int] = []
    held = b""
    for event in range(EVENTS):
        time.sleep(STEP_S)
        left.append(time.monotonic_ns())
        held += piece(event)
        if event % 4 == 3:
            connection.sendall(held)
            held = b""
    return left


def while_the_client_sleeps(connection: socket.socket, number: int) -> list[int]:
    """Stop the worker for a part of the reply, as a busy machine does."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    worker = next(int(row.split()[0]) for row in listed.stdout.splitlines() if ".worker" in row)
    left = []
    for event in range(EVENTS):
        if event == 3:
            os.kill(worker, signal.SIGSTOP)
        time.sleep(STEP_S)
        connection.sendall(piece(event))
        left.append(time.monotonic_ns())
        if event == 7:
            os.kill(worker, signal.SIGCONT)
    return left


def measure(
    folder: Path, send: Send
) -> tuple[DriveReport, list[RequestRecord], dict[int, list[int]]]:
    truth: dict[int, list[int]] = {}

    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD)
        truth[number] = send(connection, number)
        connection.sendall(chunk(finish()) + chunk(usage(EVENTS)) + chunk(DONE) + END)

    with serving(script) as server:
        load = make_load(folder, f"http://127.0.0.1:{server.port}", requests=3)
        report, found = run(load, folder / "rows")
    return report, found, truth


def lateness(report: DriveReport, row: RequestRecord, left: list[int]) -> list[int]:
    """Give how long after it had left each chunk of a reply was stamped."""
    origin = report.start_unix_ns - (time.time_ns() - time.monotonic_ns())
    return [origin + stamp - at for stamp, at in zip(row.chunk_ns, left, strict=True)]


@pytest.mark.parametrize("send", [one_by_one, through_a_proxy, while_the_client_sleeps])
def test_the_bounds_hold_whoever_kept_events_back(send: Send, tmp_path: Path) -> None:
    report, found, truth = measure(tmp_path, send)

    found_errors = report.accuracy
    assert found_errors.ttft_error_us is not None
    assert found_errors.gap_error_us is not None
    for row in found:
        late = lateness(report, row, truth[index_of(row)])
        assert late[0] <= found_errors.ttft_error_us * 1000 + CLOCKS_NS
        assert late[0] <= (row.first_doubt_ns or 0) + CLOCKS_NS
        assert late[-1] <= (row.last_doubt_ns or 0) + CLOCKS_NS
        assert max(late) <= found_errors.gap_error_us * 1000 + CLOCKS_NS


def test_a_server_with_nagles_algorithm_is_heard_event_by_event(tmp_path: Path) -> None:
    _, found, _ = measure(tmp_path, one_by_one)

    # Acknowledged after 40 ms, the first seven events of a reply come at once.
    apart = [len(set(row.chunk_ns)) for row in found]
    assert sorted(apart)[1] > EVENTS - 4, apart


def test_merged_events_are_admitted(tmp_path: Path) -> None:
    report, found, _ = measure(tmp_path, through_a_proxy)

    assert all(row.inexact_stamps == EVENTS for row in found)
    assert all((row.first_doubt_ns or 0) >= 3 * STEP_S * 1e9 for row in found)
    assert (report.accuracy.ttft_error_us or 0) >= 3 * STEP_S * 1e6
