"""An attached server is measured and never touched."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
