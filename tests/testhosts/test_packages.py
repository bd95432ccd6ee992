"""Packages on a real host: served from a folder of their own, and gone without a trace."""

import shutil
from contextlib import closing
from pathlib import Path

import msgspec
import pip
import pytest

from specbench.config import pin_files
from specbench.errors import HostError, LoadFailed
from specbench.launchers import launcher_for
from specbench.launchers.launcher import shell_for
from specbench.launchers.restoring import restore_everything
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from tests.launchers.clients import kill_when_ready
from tests.launchers.tinyserve import repository, wheel
from tests.testhosts.conftest import PATIENCE, put
from tests.testhosts.lab import TestHost
from tests.testhosts.test_systemd import spec, state_of

pytestmark = pytest.mark.ssh

PRIVATE = "/etc/systemd/system/sglang-bench.service.d/private.conf"
PYTHON = b"""#!/bin/sh
PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}/opt/lib" exec /usr/bin/python3 "$@"
"""


def serving(entry: str) -> LaunchSpec:
    command = ("{python}", "-m", "tinyserve", "/opt/fake_server.py", "--scenario", "healthy")
    return msgspec.structs.replace(spec(), command=command, files=(entry,))


@pytest.fixture
def with_pip(machine: TestHost, by_systemd: Host) -> Host:
    """The host with a Python that has a pip: that of this project, which is plain Python."""
    ours = Path(pip.__file__).parent
    theirs = machine.folder / "disk/upper/opt/lib/pip"
    shutil.copytree(ours, theirs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    put(machine, PYTHON, "/opt/python")
    machine.within("chmod 755 /opt/python")
    return msgspec.structs.replace(by_systemd, python="/opt/python")


def load(host: Host, entry: str, folder: Path) -> str:
    with (
        closing(launcher_for(host, patience=PATIENCE)) as launcher,
        launcher.running(serving(entry), folder) as service,
    ):
        list(service.until_ready())
    return (folder / "server.log").read_text()


def test_a_wheel_is_served_by_a_unit_and_leaves_the_host_as_it_was(
    machine: TestHost, with_pip: Host, tmp_path: Path
) -> None:
    before = state_of(machine)

    log = load(with_pip, str(wheel(tmp_path, "from the wheel")), tmp_path / "block")

    assert "serves tinyserve from the wheel" in log
    assert state_of(machine) == before


def test_a_commit_is_served_and_after_a_kill_restore_takes_it_away(
    machine: TestHost, with_pip: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = state_of(machine)
    url = f"git+file://{repository(tmp_path / 'r', 'from the commit')}@main#subdirectory=python"
    kill_when_ready(with_pip, serving(*pin_files([url])), tmp_path)
    during = state_of(machine)
    log = machine.within("journalctl --unit=sglang-bench --lines=60")

    with closing(shell_for(with_pip)) as shell:
        said = [check.found for check in restore_everything(with_pip, shell, break_lock=False)]

    assert "serves tinyserve from the commit" in log
    assert "/var/tmp/specbench-package-" in during
    assert any(text.startswith("removed /var/tmp/specbench-package-") for text in said)
    assert state_of(machine) == before


def test_a_python_without_pip_is_said_and_nothing_is_left(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)

    with pytest.raises(HostError, match="/usr/bin/python3 has no pip"):
        load(by_systemd, str(wheel(tmp_path, "w")), tmp_path)

    assert state_of(machine) == before


def test_a_unit_that_cannot_see_the_package_is_not_measured(
    machine: TestHost, with_pip: Host, tmp_path: Path
) -> None:
    text = "[Service]\\nPrivateTmp=yes\\nEnvironment=PYTHONPATH=/opt/theirs\\n"
    machine.run(f"sudo sh -c 'mkdir -p {PRIVATE.rpartition('/')[0]}; printf \"{text}\" > {PRIVATE};"
                " systemctl daemon-reload'")  # fmt: skip
    # Their own copy of the module: without the package it would serve in its place, in silence.
    machine.run("sudo mkdir -p /opt/theirs")
    machine.run("sudo ln -sfn /opt/fake_server.py /opt/theirs/tinyserve.py")
    command = ("{python}", "-m", "tinyserve", "--scenario", "healthy")
    hidden = msgspec.structs.replace(serving(str(wheel(tmp_path, "w"))), command=command)
    launcher = launcher_for(with_pip, patience=PATIENCE)

    try:
        with (
            pytest.raises(LoadFailed) as failure,
            closing(launcher),
            launcher.running(hidden, tmp_path) as service,
        ):
            list(service.until_ready())
    finally:
        machine.run(f"sudo rm -rf {PRIVATE} /opt/theirs")
        machine.run("sudo systemctl daemon-reload")

    assert failure.value.pattern == "wrong_code"
    assert "server_args=ServerArgs" in (tmp_path / "server.log").read_text()
