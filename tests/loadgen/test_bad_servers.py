"""Whatever a server does, each request becomes one row, with a reason from the fixed list."""

import socket
import time
from pathlib import Path

import pytest

from tests.loadgen.scripted import (
    DONE,
    END,
    GOOD,
    HEAD,
    Script,
    chunk,
    event,
    finish,
    good,
    index_of,
    make_load,
    run,
    serving,
    stream,
    usage,
    word,
)

pytestmark = pytest.mark.process

JSON = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"


def sends(data: bytes, *, close: bool = True) -> Script:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_RDWR)

    return script


def answers(status: bytes, body: bytes) -> Script:
    return sends(JSON % (status, len(body), body), close=False)


def close_silently(connection: socket.socket, number: int) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket, number: int) -> None:
    connection.sendall(HEAD + chunk(GOOD[0]))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


def long_line(connection: socket.socket, number: int) -> None:
    connection.sendall(HEAD + b"a00000\r\ndata: " + b"x" * 0xA00000)


LONG = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * (10 << 20) + b'"}}]}\n\n'

CASES: dict[str, tuple[Script, str, str]] = {
    "closes at once": (close_silently, "failed", "closed_early"),
    "closes after the head": (sends(HEAD), "failed", "closed_early"),
    "closes mid stream": (sends(HEAD + chunk(GOOD[0])), "truncated", "closed_early"),
    "closes mid event": (
        sends(HEAD + chunk(GOOD[0]) + chunk(GOOD[1][:9])),
        "truncated",
        "closed_early",
    ),
    "resets mid stream": (reset, "truncated", "closed_early"),
    "ends without a finish": (sends(stream(GOOD[:2]), close=False), "truncated", "closed_early"),
    "ends without a word": (sends(stream([]), close=False), "failed", "closed_early"),
    "400": (answers(b"400 Bad Request", b'{"error":{"message":"no"}}'), "failed", "http_4xx"),
    "404 without a body": (answers(b"404 Not Found", b""), "failed", "http_4xx"),
    "429": (answers(b"429 Too Many Requests", b"slow down"), "failed", "http_429"),
    "500": (answers(b"500 Internal Server Error", b"<html>"), "failed", "http_5xx"),
    "503 cut short": (
        sends(b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\nab"),
        "failed",
        "http_5xx",
    ),
    "redirects": (
        sends(b"HTTP/1.1 307 X\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", close=False),
        "failed",
        "redirect",
    ),
    "invalid JSON": (sends(stream([GOOD[0], b"data: {nonsense\n\n", DONE])), "failed", "bad_json"),
    "not UTF-8": (
        sends(stream([b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n', DONE])),
        "failed",
        "bad_json",
    ),
    "another type": (
        sends(stream([event({"choices": [{"delta": {"content": 5}}]})])),
        "failed",
        "bad_json",
    ),
    "JSON that is no reply": (sends(stream([event({"hello": 1})])), "failed", "bad_json"),
    "no HTTP": (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), "failed", "bad_http"),
    "bad chunk size": (sends(HEAD + b"zz\r\ndata"), "failed", "bad_http"),
    "error event": (
        sends(stream([GOOD[0], event({"error": {"message": "out of memory"}}), DONE])),
        "failed",
        "error_event",
    ),
    "abort as finish": (
        sends(
            stream([GOOD[0], event({"choices": [{"delta": {}, "finish_reason": "abort"}]}), DONE])
        ),
        "failed",
        "server_abort",
    ),
    "10 MB line in a stream": (sends(HEAD + chunk(LONG), close=False), "failed", "line_too_long"),
    "never ends a line": (long_line, "failed", "line_too_long"),
    "no usage": (sends(stream([word("a"), finish(), DONE]), close=False), "ok", "no_usage"),
    "count falls": (
        sends(stream([word("a", 3), word("b", 1), finish(), usage(1), DONE]), close=False),
        "ok",
        "bad_count",
    ),
    "counts nothing": (
        sends(stream([word("a"), finish(), usage(0), DONE]), close=False),
        "ok",
        "bad_count",
    ),
}


def test_each_bad_server_becomes_a_row_with_its_reason(tmp_path: Path) -> None:
    scripts = [script for script, _, _ in CASES.values()]

    def script(connection: socket.socket, number: int) -> None:
        scripts[number](connection, number)

    with serving(script) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=len(CASES))

        report, found = run(load, tmp_path / "rows.jsonl")

    names = list(CASES)
    expected = {name: (status, reason) for name, (_, status, reason) in CASES.items()}
    assert {names[index_of(row)]: (row.status, row.reason) for row in found} == expected
    assert report.requests == len(CASES)
    assert report.failed == sum(status != "ok" for status, _ in expected.values())


def test_the_servers_own_words_reach_the_row(tmp_path: Path) -> None:
    body = b'{"error":{"message":"max_new_tokens is too large","code":400}}'
    with serving(answers(b"400 Bad Request", body)) as server:
        _, found = run(make_load(tmp_path, f"http://127.0.0.1:{server.port}"), tmp_path / "rows")

    assert found[0].detail == "max_new_tokens is too large"
    assert found[0].http_status == 400


def test_a_server_that_never_answers_runs_into_the_timeout(tmp_path: Path) -> None:
    with serving(lambda connection, number: server.hang()) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", request_timeout_s=0.4)

        _, found = run(load, tmp_path / "rows")

    assert [(row.status, row.reason) for row in found] == [("failed", "no_first_byte")] * 2
    assert found[0].first_byte_ns is None


def test_a_server_that_falls_silent_is_stalled(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD + chunk(GOOD[0]))
        server.hang()

    with serving(script) as server:
        load = make_load(
            tmp_path, f"http://127.0.0.1:{server.port}", stall_timeout_s=0.3, requests=1
        )

        _, found = run(load, tmp_path / "rows")

    assert [(row.status, row.reason) for row in found] == [("failed", "stalled")]
    assert len(found[0].chunk_ns) == 1


def test_a_server_that_trickles_runs_into_the_timeout(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(HEAD)
        for _ in range(100):
            connection.sendall(b"1\r\n:\r\n")
            time.sleep(0.02)

    with serving(script) as server:
        load = make_load(
            tmp_path, f"http://127.0.0.1:{server.port}", request_timeout_s=0.5, requests=1
        )

        _, found = run(load, tmp_path / "rows")

    assert [(row.status, row.reason) for row in found] == [("failed", "timeout")]


def test_a_response_that_never_ends_after_its_last_chunk_is_found_complete(tmp_path: Path) -> None:
    with serving(sends(stream(GOOD) + b"trailing garbage", close=False)) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=1)

        _, found = run(load, tmp_path / "rows")

    assert found[0].output_tokens == 4
    assert found[0].status in ("ok", "failed")


def test_a_dropped_keep_alive_costs_a_reconnection_and_no_request(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(stream(GOOD))
        connection.shutdown(socket.SHUT_RDWR)

    with serving(script) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=6)

        report, found = run(load, tmp_path / "rows")

    assert [row.status for row in found] == ["ok"] * 6
    assert report.failed == 0


def test_a_connection_close_header_is_obeyed(tmp_path: Path) -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

    def script(connection: socket.socket, number: int) -> None:
        connection.sendall(head + b"".join(map(chunk, GOOD)) + END)
        connection.shutdown(socket.SHUT_RDWR)

    with serving(script) as server:
        load = make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=4)

        report, found = run(load, tmp_path / "rows")

    assert [row.status for row in found] == ["ok"] * 4
    assert report.accuracy.reconnects == 0


def test_a_body_without_framing_ends_with_the_connection(tmp_path: Path) -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with serving(sends(head + b"".join(GOOD))) as server:
        _, found = run(make_load(tmp_path, f"http://127.0.0.1:{server.port}"), tmp_path / "rows")

    assert [(row.status, row.output_tokens) for row in found] == [("ok", 4)] * 2


def test_a_plain_document_is_read_as_a_reply(tmp_path: Path) -> None:
    body = (
        b'{"choices":[{"message":{"content":"abc"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":5,"completion_tokens":3}}'
    )
    with serving(answers(b"200 OK", body)) as server:
        _, found = run(make_load(tmp_path, f"http://127.0.0.1:{server.port}"), tmp_path / "rows")

    assert [(row.status, row.output_tokens) for row in found] == [("ok", 3)] * 2
    assert found[0].chunk_tokens == [3]


def test_one_bad_answer_spoils_no_other(tmp_path: Path) -> None:
    def script(connection: socket.socket, number: int) -> None:
        if number % 2:
            connection.sendall(b"garbage\r\n\r\n")
            connection.shutdown(socket.SHUT_RDWR)
        else:
            good(connection, number)

    with serving(script) as server:
        _, found = run(
            make_load(tmp_path, f"http://127.0.0.1:{server.port}", requests=6), tmp_path / "rows"
        )

    assert sorted(row.status for row in found) == ["failed"] * 3 + ["ok"] * 3
