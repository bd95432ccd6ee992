"""Control endpoints: older names, bad answers and silence are data; secrets are sent, not shown."""

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from specbench.backends.client import ControlClient, resolve_secret
from specbench.backends.products import backend_for
from specbench.errors import HostError, ServiceError

SGLANG = backend_for("sglang")


class Script(BaseHTTPRequestHandler):
    """Answers from a table; what was asked is kept."""

    answers: dict[str, tuple[int, bytes]]
    asked: list[tuple[str, str | None]]
    headers_too: dict[str, str]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.path, self.headers.get("Authorization")))
        status, body = self.answers.get(self.path.partition("?")[0], (404, b"{}"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in self.headers_too.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is http.server's


@pytest.fixture
def script() -> type[Script]:
    class Own(Script):
        answers: dict[str, tuple[int, bytes]] = {}  # noqa: RUF012 - a fresh class a test
        asked: list[tuple[str, str | None]] = []  # noqa: RUF012 - a fresh class a test
        headers_too: dict[str, str] = {}  # noqa: RUF012 - a fresh class a test

    return Own


@pytest.fixture
def client(script: type[Script]) -> Iterator[ControlClient]:
    with ThreadingHTTPServer(("127.0.0.1", 0), script) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with ControlClient(
            f"http://127.0.0.1:{server.server_port}/", SGLANG, api_key="sesame"
        ) as client:
            yield client
        server.shutdown()
        thread.join()


def test_older_names_are_tried_where_the_new_ones_are_missing(
    client: ControlClient, script: type[Script]
) -> None:
    script.answers["/get_server_info"] = (200, json.dumps({"version": "0.5.2"}).encode())

    assert client.info() == {"version": "0.5.2"}
    assert client.model_info() == {}


def test_the_api_key_goes_with_every_request(client: ControlClient, script: type[Script]) -> None:
    client.flush()
    client.abort()

    assert [key for _, key in script.asked] == ["Bearer sesame"] * 2


def test_a_wrong_api_key_is_an_error_that_says_what_to_set(
    client: ControlClient, script: type[Script]
) -> None:
    script.answers["/model_info"] = (401, b'{"error":"Unauthorized"}')

    with pytest.raises(ServiceError, match="API key") as error:
        client.model_info()

    assert "sesame" not in str(error.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff\xfe", b'{"a":', b"<html>"])
def test_an_answer_that_is_no_object_is_an_empty_one(
    client: ControlClient, script: type[Script], body: bytes
) -> None:
    script.answers["/server_info"] = script.answers["/v1/models"] = (200, body)

    assert client.info() == {}
    assert client.models() == ()


@pytest.mark.parametrize(
    ("status", "health"), [(200, "ready"), (503, "starting"), (500, "starting")]
)
def test_health_follows_the_status(
    client: ControlClient, script: type[Script], status: int, health: str
) -> None:
    script.answers["/health"] = (status, b"")

    assert client.health() == health


def test_a_closed_port_and_a_silent_server_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with ControlClient(f"http://127.0.0.1:{port}", SGLANG) as client:
            assert client.health(timeout_s=0.1) == "silent"
    with ControlClient(f"http://127.0.0.1:{port}", SGLANG) as client:
        assert client.health() == "closed"


def test_the_canary_falls_back_to_the_openai_endpoint(
    client: ControlClient, script: type[Script]
) -> None:
    script.answers["/v1/completions"] = (200, b"{}")

    assert client.canary("tiny").ok
    assert [path for path, _ in script.asked] == ["/generate", "/v1/completions"]


def test_proxies_of_the_environment_are_ignored(
    client: ControlClient, script: type[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    script.answers["/health"] = (200, b"")

    with ControlClient(client.url, SGLANG) as fresh:
        assert fresh.health() == "ready"


def test_a_secret_is_a_reference_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sesame")

    assert resolve_secret("${MY_KEY}") == "sesame"
    assert resolve_secret(None) is None
    with pytest.raises(HostError, match="NOT_SET is not set"):
        resolve_secret("${NOT_SET}")


DEEP = b"[" * 200_000 + b"]" * 200_000


def test_an_answer_nested_too_deeply_is_one_that_says_nothing(
    script: type[Script], client: ControlClient
) -> None:
    for path in ("/server_info", "/get_server_info", "/model_info", "/v1/models", "/get_load"):
        script.answers[path] = (200, DEEP)

    assert client.model_info() == {}
    assert client.models() == ()
    assert client.running() is None
    assert client.facts().version is None


def a_byte_at_a_time(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)


def without_end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(bytes(1 << 20))


@contextlib.contextmanager
def answering(act: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                act(listener.accept()[0])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_the_time_of_a_request_bounds_the_whole_answer_and_not_each_byte_of_it() -> None:
    with answering(a_byte_at_a_time) as url, ControlClient(url, SGLANG) as client:
        reply = client.alive(timeout_s=0.3)

    assert reply.status == 0
    assert client.silent
    assert b"in time" in reply.body


def test_an_answer_without_end_is_given_up_at_a_size() -> None:
    with answering(without_end) as url, ControlClient(url, SGLANG) as client:
        reply = client.alive(timeout_s=60.0)

    assert reply.status == 0
    assert reply.body == b"more than 64 MiB in one answer"


def test_a_compressed_answer_is_named_and_not_unpacked(
    client: ControlClient, script: type[Script]
) -> None:
    script.headers_too = {"Content-Encoding": "gzip"}
    script.answers["/model_info"] = (200, gzip.compress(b"{}"))

    reply = client.alive(timeout_s=5.0)

    assert reply.status == 0
    assert reply.body == b"compressed (gzip), which was not asked for"


def test_a_key_that_the_server_repeats_is_hidden(
    client: ControlClient, script: type[Script]
) -> None:
    script.answers["/server_info"] = (200, b'{"api_key":"sesame","argv":["--key=sesame"]}')

    assert client.info() == {"api_key": "***", "argv": ["--key=***"]}
