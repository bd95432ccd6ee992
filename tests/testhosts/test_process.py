"""Processes and user units on a real host: they outlive a connection, and nothing of them stays."""

from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError
from specbench.launchers import launcher_for
from specbench.launchers.launcher import shell_for
from specbench.launchers.launcher_checks import check_everything
from specbench.launchers.restoring import restore_everything
from specbench.model.host import Host
from tests.launchers.clients import kill_when_ready
from tests.testhosts.conftest import PATIENCE
from tests.testhosts.lab import TestHost
from tests.testhosts.test_systemd import load, spec, state_of

pytestmark = pytest.mark.ssh


@pytest.fixture
def by_process(by_systemd: Host) -> Host:
    return msgspec.structs.replace(by_systemd, launcher="process", unit=None)


def alive(machine: TestHost, pid: int) -> bool:
    return machine.run(f"ps -o pid= -p {pid} || true").strip() != ""


def test_a_process_is_started_waited_out_and_gone_with_all_its_files(
    machine: TestHost, by_process: Host, tmp_path: Path
) -> None:
    before = state_of(machine)

    progress, service = load(by_process, "children", tmp_path)

    assert progress[-1].phase == "checking"
    assert "driven_remotely" in service.facts.flags
    assert service.facts.path_ms is not None
    assert service.facts.host_facts["hostname"] == machine.name
    assert "ready to roll" in (tmp_path / "server.log").read_text()
    pids = [
        int(line.split()[1])
        for line in (tmp_path / "server.log").read_text().splitlines()
        if line.startswith("child ")
    ]
    assert len(pids) == 2
    assert [alive(machine, pid) for pid in pids] == [False, False]
    assert state_of(machine) == before


def test_a_process_survives_its_client_and_the_next_run_cleans_it_up(
    machine: TestHost, by_process: Host, tmp_path: Path
) -> None:
    pid = kill_when_ready(by_process, spec(), tmp_path)
    survived = alive(machine, pid)

    _, service = load(by_process, "healthy", tmp_path / "second")

    assert survived
    assert not alive(machine, pid)
    assert any("took over the lock" in notice for notice in service.facts.notices)


def test_two_nodes_over_ssh_are_one_server_and_leave_nothing(
    machine: TestHost, by_process: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    second = msgspec.structs.replace(by_process, name="second", url="http://127.0.0.1:30001")
    pair = msgspec.structs.replace(by_process, nodes=("second",), node_hosts=(second,))

    _, service = load(pair, "healthy", tmp_path)

    launches = [tmp_path / "launch.json", tmp_path / "node-1" / "launch.json"]
    meeting = [f'"{machine.name}:20000"' in launch.read_text() for launch in launches]
    assert meeting == [True, True]
    assert "ready to roll" in (tmp_path / "node-1" / "server.log").read_text()
    assert service.facts.host_facts["nodes"][0]["hostname"] == machine.name
    assert state_of(machine) == before


def test_a_server_that_specbench_did_not_start_is_left_alone(
    machine: TestHost, by_process: Host, tmp_path: Path
) -> None:
    command = "python3 /opt/fake_server.py --port 30000 --scenario healthy"
    pid = int(machine.run(f"sh -c 'setsid {command} >/dev/null 2>&1 & echo $!'"))
    machine.run("sh -c 'until python3 -c \"import socket; socket.create_connection("
                "(\\\"127.0.0.1\\\", 30000))\" 2>/dev/null; do sleep 0.1; done'")  # fmt: skip
    shell = shell_for(by_process)

    launcher = launcher_for(by_process, patience=PATIENCE)
    try:
        with (
            pytest.raises(HostError, match="port 30000 is in use by pid"),
            launcher.running(spec(), tmp_path),
        ):
            pass
        said = [check.found for check in restore_everything(by_process, shell, break_lock=False)]
        assert not any("stopped the server" in text for text in said)
        assert alive(machine, pid)
    finally:
        launcher.close()
        shell.close()
        machine.run(f"kill {pid}")


def test_a_user_unit_needs_linger_and_then_works(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    machine.run("sh -c 'mkdir -p .config/systemd/user; "
                "cp /etc/systemd/system/sglang-bench.service .config/systemd/user/'")  # fmt: skip
    by_user = msgspec.structs.replace(by_systemd, user_unit=True)
    shell = shell_for(by_user)

    without = {check.name: check.state for check in check_everything(by_user, shell)}
    machine.run("sudo loginctl enable-linger ops")
    machine.run("systemctl --user daemon-reload")
    with_it = {check.name: check.state for check in check_everything(by_user, shell)}
    shell.close()
    progress, _ = load(by_user, "healthy", tmp_path)

    assert without["linger"] == "wrong"
    assert with_it["linger"] == "ok"
    assert with_it["unit"] == "ok"
    assert progress[-1].phase == "checking"
    machine.run("sudo loginctl disable-linger ops")
