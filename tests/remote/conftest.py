"""Every shell that the contract tests run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.remote.endpoint import CONFIG_VARIABLE, resolve
from specbench.remote.local import LocalShell
from specbench.remote.shell import Shell
from specbench.remote.ssh import SshShell
from tests.remote.sshd import Sshd, sshd


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(params=["local", "near"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """This machine directly, and over SSH."""
    if request.param == "local":
        yield LocalShell()
        return
    server: Sshd = request.getfixturevalue("shared_sshd")
    monkeypatch.setenv(CONFIG_VARIABLE, str(server.config))
    shell = SshShell(resolve(request.param))
    yield shell
    shell.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)
