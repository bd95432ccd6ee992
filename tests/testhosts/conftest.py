"""Two test hosts for the session, or the reason why there are none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.launchers import Patience
from specbench.model.host import Host
from specbench.remote.endpoint import CONFIG_VARIABLE
from tests.testhosts.lab import TestHost, lab, require_test_hosts, shared_folders

FAKE_SERVER = Path(__file__).parents[1] / "launchers" / "fake_server.py"
PATIENCE = Patience(load_timeout_s=90.0, stall_s=20.0, poll_s=0.2, unreachable_s=60.0)


@pytest.fixture(scope="session")
def running_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TestHost]]:
    require_test_hosts()
    with lab(tmp_path_factory.mktemp("lab"), 1, shared_folders()) as hosts:
        for host in hosts:
            put(host, FAKE_SERVER.read_bytes(), "/opt/fake_server.py")
        yield hosts


@pytest.fixture
def machine(running_hosts: list[TestHost], monkeypatch: pytest.MonkeyPatch) -> TestHost:
    host = running_hosts[0]
    monkeypatch.setenv(CONFIG_VARIABLE, str(host.folder.parent / "ssh_config"))
    return host


@pytest.fixture
def by_systemd(machine: TestHost) -> Host:
    return Host(
        name=machine.name,
        address=machine.name,
        launcher="systemd",
        unit="sglang-bench.service",
        python="/usr/bin/python3",
        url="http://127.0.0.1:30000",
        stop_timeout_s=3.0,
        env={"SPECBENCH_TEST_WORD": 'it\'s "100%" $HOME\\ ü', "MY_TOKEN": 'a"b$c`d\\'},
    )


def put(host: TestHost, content: bytes, path: str) -> None:
    """Place a file on a host's disk from outside."""
    target = host.folder / "disk/upper" / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
