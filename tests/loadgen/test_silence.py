"""Servers without end: each costs bounded time and memory, and the rows say what happened."""

import socket
from pathlib import Path

import pytest

from specbench.loadgen import drive
from specbench.model.load import Closed, DriveProgress, DriveReport, Replay
from tests.loadgen.scripted import (
    GOOD,
    HEAD,
    chunk,
    good,
    make_load,
    rows,
    run,
    serving,
    word,
)

pytestmark = pytest.mark.process


@pytest.mark.parametrize("answered", [0, 3])
def test_a_server_that_falls_silent_ends_the_load(answered: int, tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        if number >= answered:
            server.hang()
        good(connection, number)

    with serving(script) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=2),
            requests=50,
            request_timeout_s=600.0,
            silence_timeout_s=0.5,
        )
        report, found = run(load, tmp_path / "rows")

    failed = [row for row in found if row.status == "failed"]
    assert len(found) == answered + 2
    assert [row.reason for row in failed] == ["no_first_byte"] * 2
    assert report.gave_up.startswith("nothing came from the server for")
    assert not report.interrupted


def test_one_silent_request_among_others_does_not_end_the_load(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        if number == 1:
            server.closing_or(1.0)
        server.closing_or(0.02)
        good(connection, number)

    with serving(script) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=2),
            requests=40,
            silence_timeout_s=0.9,
        )
        report, found = run(load, tmp_path / "rows")

    assert report.gave_up == ""
    assert [row.status for row in found] == ["ok"] * 40


def test_silence_is_told_while_it_lasts(tmp_path: Path) -> None:
    with serving(lambda connection, number: server.hang()) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", silence_timeout_s=1.5)

        said = [e.silent_s for e in drive(load, tmp_path / "r") if isinstance(e, DriveProgress)]

    assert said[-1] > 0.9
    assert said == sorted(said)


def test_a_reply_without_end_is_cut_off_at_a_bound(tmp_path: Path) -> None:
    block = b"".join(chunk(word("x" * 60_000)) for _ in range(16))

    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD)
        while True:
            connection.sendall(block)

    with serving(script) as server:
        load = make_load(
            tmp_path, f"http://127.0.0.1:{server.port}", requests=1, request_timeout_s=120.0
        )
        _, found = run(load, tmp_path / "rows")

    assert [(row.status, row.reason) for row in found] == [("failed", "too_large")]


def test_a_load_that_is_stopped_reports_what_came_until_then(tmp_path: Path) -> None:
    asked: list[int] = []

    def script(connection: socket.socket, number: int) -> None:
        asked.append(number)
        if number < 4:
            good(connection, number)
        else:
            connection.sendall(HEAD + chunk(GOOD[0]))
            server.hang()

    with serving(script) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=20)
        *_, report = drive(load, tmp_path / "rows", stopped=lambda: len(asked) > 4)

    found = rows(tmp_path / "rows")
    assert isinstance(report, DriveReport)
    assert report.interrupted
    assert [row.status for row in found] == ["ok"] * 4 + ["aborted"]


def test_silence_between_requests_of_an_open_loop_is_none(tmp_path: Path) -> None:
    with serving(good) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Replay(offsets_s=(0.0, 1.0)),
            requests=None,
            silence_timeout_s=0.5,
        )
        report, found = run(load, tmp_path / "rows")

    assert report.gave_up == ""
    assert [row.status for row in found] == ["ok"] * 2
