"""An attached server is measured and never touched."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from specbench.backends.client import ControlClient
from specbench.backends.products import backend_for
from specbench.errors import HostError, LoadFailed
from specbench.launchers import launcher_for
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from tests.launchers.conftest import FAKE_SERVER, PATIENCE

pytestmark = pytest.mark.process

Make = Callable[..., LaunchSpec]


@pytest.fixture
def attached(local: Host) -> Host:
    return msgspec.structs.replace(local, launcher="attach")


@pytest.fixture
def stranger(local: Host) -> Iterator[subprocess.Popen[bytes]]:
    words = ["--model-path", "/models/a b'c$(id)", "--served-model-name", "tiny"]
    port = local.url.rpartition(":")[2]
    server = subprocess.Popen(
        [sys.executable, FAKE_SERVER, "--port", port, *words], stderr=subprocess.DEVNULL
    )
    with ControlClient(local.url, backend_for("")) as client:
        deadline = time.monotonic() + 20
        while client.health() != "ready" and time.monotonic() < deadline:
            time.sleep(0.02)
    yield server
    server.kill()
    server.wait()


def test_an_attached_server_is_identified_and_left_running(
    attached: Host, stranger: subprocess.Popen[bytes], spec_of: Make, tmp_path: Path
) -> None:
    with launcher_for(attached, patience=PATIENCE).running(spec_of(), tmp_path) as service:
        list(service.until_ready())
        trouble = service.check()

    assert trouble is None
    assert service.facts.version == "0.5.23"
    assert stranger.poll() is None


def test_an_attached_server_that_differs_is_refused_and_left_running(
    attached: Host, stranger: subprocess.Popen[bytes], spec_of: Make, tmp_path: Path
) -> None:
    def measured() -> None:
        with launcher_for(attached, patience=PATIENCE).running(
            spec_of(speculative=True), tmp_path
        ) as service:
            list(service.until_ready())

    with pytest.raises(LoadFailed, match="the server does not"):
        measured()

    assert stranger.poll() is None


class Vllm(BaseHTTPRequestHandler):
    """As much of a vLLM server as says what it is."""

    def do_GET(self) -> None:
        body = b'{"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


def test_a_server_of_another_product_than_the_matrix_means_is_refused(
    attached: Host, spec_of: Make, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Vllm) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = msgspec.structs.replace(attached, url=f"http://127.0.0.1:{server.server_port}")
        try:
            with (
                pytest.raises(HostError, match="is vllm, and a matrix that names no") as error,
                launcher_for(host, patience=PATIENCE).running(spec_of(), tmp_path),
            ):
                pass
        finally:
            server.shutdown()

    assert error.value.hint == "write server: {engine: vllm} in the matrix"


def test_nobody_at_the_url_is_said_before_anything_else(
    attached: Host, spec_of: Make, tmp_path: Path
) -> None:
    with (
        pytest.raises(HostError, match="no server answers"),
        launcher_for(attached, patience=PATIENCE).running(spec_of(), tmp_path),
    ):
        pass


def test_the_end_of_an_attached_server_is_noticed(
    attached: Host, stranger: subprocess.Popen[bytes], spec_of: Make, tmp_path: Path
) -> None:
    with launcher_for(attached, patience=PATIENCE).running(spec_of(), tmp_path) as service:
        list(service.until_ready())
        stranger.kill()
        stranger.wait()

        assert service.check() is not None
