"""Connections that are kept, closed, cut or written to unasked: none costs another request."""

import socket
import threading
from pathlib import Path

import pytest

from specbench.model.load import Closed, RequestRecord
from tests.loadgen.scripted import (
    END,
    GOOD,
    HEAD,
    Script,
    chunk,
    good,
    index_of,
    make_load,
    run,
    serving,
    stream,
)

pytestmark = pytest.mark.process

ANNOUNCED = HEAD.replace(b"Transfer", b"Connection: close\r\nTransfer")


def close_after(head: bytes) -> Script:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(head + b"".join(map(chunk, GOOD)) + END)
        connection.shutdown(socket.SHUT_RDWR)

    return script


def reset_after(connection: socket.socket, number: int) -> None:
    connection.sendall(stream(GOOD))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


def drive_against(
    script: Script, folder: Path, *, slots: int = 1, requests: int = 8
) -> tuple[list[RequestRecord], int]:
    """Give the rows in the order of their sending, and how many connections there were."""
    connections: set[tuple[str, int]] = set()

    def counted(connection: socket.socket, number: int) -> None:
        connections.add(connection.getpeername())
        script(connection, number)

    with serving(counted) as server:
        load = make_load(
            folder,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=slots),
            requests=requests,
        )
        _, found = run(load, folder / "rows")
    return sorted(found, key=index_of), len(connections)


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize(
    "script",
    [close_after(HEAD), close_after(ANNOUNCED), reset_after],
    ids=["silent", "announced", "reset"],
)
def test_a_server_that_closes_after_each_reply_costs_no_request(
    script: Script, slots: int, tmp_path: Path
) -> None:
    found, connections = drive_against(script, tmp_path, slots=slots, requests=16)

    assert [(row.status, row.output_tokens) for row in found] == [("ok", 4)] * 16
    assert connections >= 16


def test_a_connection_that_is_kept_is_used_again(tmp_path: Path) -> None:
    found, connections = drive_against(good, tmp_path)

    assert connections == 1
    assert not any(row.resent for row in found)


def test_a_kept_connection_that_dies_unheard_is_replaced_once_and_the_row_says_so(
    tmp_path: Path,
) -> None:
    heard: list[int] = []

    def script(connection: socket.socket, number: int) -> None:
        heard.append(number)
        if heard.count(3) == 1 and number == 3:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            good(connection, number)

    found, connections = drive_against(script, tmp_path)

    assert [row.status for row in found] == ["ok"] * 8
    assert [row.resent for row in found] == [number == 3 for number in range(8)]
    assert heard.count(3) == 2
    assert connections == 2


def test_a_request_is_not_sent_a_third_time(tmp_path: Path) -> None:
    heard: list[int] = []

    def script(connection: socket.socket, number: int) -> None:
        heard.append(number)
        if number == 1:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            good(connection, number)

    found, _ = drive_against(script, tmp_path, requests=3)

    assert [row.status for row in found] == ["ok", "failed", "ok"]
    assert found[1].reason == "closed_early"
    assert heard.count(1) == 2


def test_a_reply_that_was_cut_is_truncated_and_not_sent_again(tmp_path: Path) -> None:
    heard: list[int] = []

    def script(connection: socket.socket, number: int) -> None:
        heard.append(number)
        if number == 2:
            connection.sendall(HEAD + chunk(GOOD[0]))
            connection.shutdown(socket.SHUT_RDWR)
        else:
            good(connection, number)

    found, _ = drive_against(script, tmp_path, requests=5)

    assert [row.status for row in found] == ["ok", "ok", "truncated", "ok", "ok"]
    assert heard == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("surplus", [stream(GOOD), HEAD, b"HTTP/1.1 200 OK\r\n", b"garbage"])
def test_what_was_not_asked_for_is_taken_for_no_reply(surplus: bytes, tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(stream(GOOD) + surplus)

    found, connections = drive_against(script, tmp_path, requests=4)

    assert [(row.status, row.output_tokens) for row in found] == [("ok", 4)] * 4
    assert [len(row.chunk_ns) for row in found] == [3] * 4
    assert connections == 4


def test_an_end_that_comes_while_idle_is_found_before_the_next_send(tmp_path: Path) -> None:
    """The slots of a drive begin apart: the second finds the connection of the first one dead."""
    closed = threading.Event()

    def script(connection: socket.socket, number: int) -> None:
        good(connection, number)
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with serving(script) as server:
        load = make_load(
            tmp_path,
            f"http://127.0.0.1:{server.port}",
            shape=Closed(concurrency=2, stagger_s=0.4),
            requests=2,
        )
        _, found = run(load, tmp_path / "rows")

    assert closed.is_set()
    assert [row.status for row in found] == ["ok"] * 2
