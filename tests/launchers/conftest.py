"""Hosts, specifications and ports for launcher tests; the state folder is the test's own."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.launchers import Patience
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec

FAKE_SERVER = str(Path(__file__).with_name("fake_server.py"))
PATIENCE = Patience(load_timeout_s=30.0, stall_s=2.0, poll_s=0.05)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def local(port: int) -> Host:
    return Host(name="local", url=f"http://127.0.0.1:{port}", stop_timeout_s=3.0)


@pytest.fixture
def spec_of() -> Callable[..., LaunchSpec]:
    def make(scenario: str = "healthy", *words: str, speculative: bool = False) -> LaunchSpec:
        return LaunchSpec(
            fingerprint="f" * 12,
            algorithm="eagle" if speculative else "ar",
            speculative=speculative,
            model_path="/models/a b'c$(id)",
            served_name="tiny",
            command=(sys.executable, FAKE_SERVER, "--scenario", scenario, *words),
            flags=(("speculative-algorithm", "EAGLE"),) if speculative else (),
            env=(("SPECBENCH_TEST_WORD", "one 'two' $(three)"),),
        )

    return make
