"""The systemd launcher on a real host: what it starts is watched, what it changes comes back."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError, LoadFailed
from specbench.launchers import Service, launcher_for
from specbench.launchers.launcher import shell_for
from specbench.launchers.restoring import restore_everything
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import LoadFailure, LoadProgress
from tests.launchers.clients import kill_when_ready
from tests.testhosts.conftest import PATIENCE
from tests.testhosts.image import ADMIN_PASSWORD
from tests.testhosts.lab import TestHost

pytestmark = pytest.mark.ssh

SNAPSHOT = (
    "sudo find /etc/systemd /run/systemd/system /home/ops /opt /var/tmp -type f"
    " -exec sha256sum {} + | sort;"
    "systemctl is-active sglang-bench.service"
)


def spec(scenario: str = "healthy", *words: str) -> LaunchSpec:
    return LaunchSpec(
        fingerprint="f", algorithm="ar", speculative=False, model_path="/m/a b'c$(id)%h",
        served_name="tiny",
        command=("{python}", "/opt/fake_server.py", "--scenario", scenario, *words),
    )  # fmt: skip


def state_of(machine: TestHost) -> str:
    """Every unit, and every file of the user's, with its hash."""
    return machine.run(f"sh -c '{SNAPSHOT.replace(chr(39), '')}' || true")


def load(host: Host, scenario: str, folder: Path) -> tuple[list[LoadProgress], Service]:
    launcher = launcher_for(host, patience=PATIENCE)
    try:
        with launcher.running(spec(scenario), folder) as service:
            return list(service.until_ready()), service
    finally:
        launcher.close()


def wait_for(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def test_a_unit_is_borrowed_for_a_launch_and_given_back_as_it_was(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    machine.run("sudo systemctl start sglang-bench.service")
    before = state_of(machine)

    progress, service = load(by_systemd, "healthy", tmp_path)

    log = (tmp_path / "server.log").read_text()
    assert progress[-1].phase == "checking"
    assert 'environment: it\'s "100%" $HOME\\ ü' in log
    assert "server_args=ServerArgs(model_path='/m/a b'c$(id)%h')" in log
    assert service.facts.pid is not None
    assert service.facts.started_at is not None
    assert service.url != by_systemd.url
    assert 'a"b' not in (tmp_path / "unit.conf").read_text()
    wait_for(lambda: state_of(machine) == before)
    machine.run("sudo systemctl stop sglang-bench.service")


@pytest.mark.parametrize(
    ("scenario", "pattern"),
    [
        ("oom", "cuda_oom"),
        ("exits-silently", "exited"),
        ("fatal-line-but-lives", "scheduler_exception"),
    ],
)
def test_a_failed_load_is_explained_once_and_not_repeated(
    scenario: str, pattern: str, machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)

    with pytest.raises(LoadFailed) as failure:
        load(by_systemd, scenario, tmp_path)

    assert failure.value.pattern == pattern
    assert (tmp_path / "server.log").read_text().count("Load weight begin") == 1
    assert state_of(machine) == before


def test_a_server_that_ignores_sigterm_is_killed_with_its_children(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    load(by_systemd, "ignores-sigterm", tmp_path)

    lines = (tmp_path / "server.log").read_text().splitlines()
    pids = [line.split()[1] for line in lines if line.startswith("child ")]
    assert len(pids) == 2
    assert machine.run(f"ps -o pid= -p {','.join(pids)} || true").strip() == ""


def test_a_program_that_is_not_there_is_said_with_systemds_reason(
    by_systemd: Host, tmp_path: Path
) -> None:
    nowhere = msgspec.structs.replace(by_systemd, python="/no/such/python", load_timeout_s=20.0)

    with pytest.raises((LoadFailed, HostError), match=r"could not start|gave no answer"):
        load(nowhere, "healthy", tmp_path)


def test_a_kept_unit_stays_up_until_restore_gives_it_back_as_it_was(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    launcher = launcher_for(by_systemd, patience=PATIENCE)
    with closing(launcher), launcher.running(spec(), tmp_path) as service:
        list(service.until_ready())
        service.keep()
    during = state_of(machine)

    with closing(shell_for(by_systemd)) as shell:
        said = [check.found for check in restore_everything(by_systemd, shell, break_lock=False)]

    assert during.splitlines()[-1] == "active"
    assert "zz-specbench.conf" in during
    assert any("took the drop-in" in text for text in said)
    assert state_of(machine) == before


def test_after_a_kill_restore_gives_the_unit_back_as_it_was(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    kill_when_ready(by_systemd, spec(), tmp_path)
    during = state_of(machine)

    shell = shell_for(by_systemd)
    said = [check.found for check in restore_everything(by_systemd, shell, break_lock=False)]
    again = [check.found for check in restore_everything(by_systemd, shell, break_lock=False)]
    shell.close()

    assert during != before
    assert "zz-specbench.conf" in during
    assert any("took the drop-in" in text for text in said)
    assert any("removed the lock" in text for text in said)
    assert again == ["nothing was left behind"]
    assert state_of(machine) == before


def test_a_full_disk_is_said_and_changes_nothing(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    machine.fill_disk()

    try:
        with pytest.raises(HostError) as error:
            load(by_systemd, "healthy", tmp_path)
    finally:
        machine.free_disk()

    assert "No space left on device" in str(error.value)
    assert state_of(machine) == before


def test_a_cut_and_healed_network_interrupts_a_load_and_does_not_end_it(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    launcher = launcher_for(by_systemd, patience=PATIENCE)
    healed = threading.Timer(6.0, machine.heal)

    with launcher.running(spec("slow", "--seconds", "6"), tmp_path) as service:
        loading = service.until_ready()
        seen = [next(loading) for _ in range(3)]
        machine.cut()
        healed.start()
        seen.extend(loading)
        trouble = service.check()
    launcher.close()

    assert seen[-1].phase == "checking"
    assert trouble is None


def test_a_power_cut_is_noticed_when_the_host_is_back(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    launcher = launcher_for(by_systemd, patience=PATIENCE)

    def measured() -> list[LoadFailure]:
        found: list[LoadFailure] = []
        with launcher.running(spec(), tmp_path) as service:
            list(service.until_ready())
            machine.power_off()
            machine.boot()

            def looked() -> list[LoadFailure]:
                death = service.check()
                found.extend([death] if death and not found else [])
                return found

            wait_for(looked, 60.0)
        return found

    found = measured()
    launcher.close()

    assert found[0].pattern == "host_rebooted"
    assert "zz-specbench" not in state_of(machine)


def test_sudo_with_a_password_works_and_a_wrong_one_is_said(
    by_systemd: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = msgspec.structs.replace(by_systemd, user="admin")

    monkeypatch.setenv("SPECBENCH_SUDO_PASSWORD", ADMIN_PASSWORD)
    progress, _ = load(admin, "healthy", tmp_path)
    monkeypatch.setenv("SPECBENCH_SUDO_PASSWORD", "wrong")
    with pytest.raises(HostError, match="sudo refused the password"):
        load(admin, "healthy", tmp_path)

    assert progress
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert ADMIN_PASSWORD not in json.dumps(launch)
