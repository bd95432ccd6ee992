"""Faults injected for real on a host while a server loads: lines lost, links slow, clocks wrong."""

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from specbench.errors import HostError
from specbench.launchers import launcher_for
from specbench.launchers.launcher import shell_for
from specbench.launchers.restoring import restore_everything
from specbench.model.host import Host
from specbench.model.service import LoadFailure
from tests.testhosts.conftest import PATIENCE
from tests.testhosts.lab import TestHost, give_up
from tests.testhosts.test_systemd import spec, state_of

pytestmark = pytest.mark.ssh

STEPS = 4
CLOCK = "/run/specbench-clock"
LOADING = ("--seconds", str(STEPS))
# A process that sees another time of day than the kernel's, and the same monotonic clock. Only what
# is under test gets these variables: the server, and what specbench runs on the host. The host's
# own services (journald, sshd, systemd) keep the kernel's clock, whatever they make of a preload.
STEPPED = {
    "LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1",
    "FAKETIME_TIMESTAMP_FILE": CLOCK,
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
}
SESSIONS = "/etc/ssh/sshd_config.d/clock.conf"


def load_with(host: Host, fault: threading.Thread, folder: Path) -> list[str]:
    """Load a server that tells of five steps; start the fault after the first of them."""
    with (
        closing(launcher_for(host, patience=PATIENCE)) as launcher,
        launcher.running(spec("slow", *LOADING), folder) as service,
    ):
        for progress in service.until_ready():
            if progress.phase == "graphs" and fault.ident is None:
                fault.start()
        assert service.check() is None
    fault.join(30)
    return (folder / "server.log").read_text().splitlines()


def lines_of(log: list[str]) -> tuple[int, list[int]]:
    """How often the server was started, and the steps that it told of."""
    steps = [int(found[1]) for line in log if (found := re.search(r"\|#\| (\d)/10", line))]
    return sum("Load weight begin" in line for line in log), steps


def test_over_a_slow_and_lossy_link_a_load_is_followed_and_no_line_is_lost(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    lost = 0

    machine.slow_down()
    try:
        log = load_with(by_systemd, threading.Thread(target=str), tmp_path)
    finally:
        lost = machine.speed_up()

    assert lost > 0
    assert lines_of(log) == (1, list(range(STEPS)))
    assert state_of(machine) == before


def test_a_killed_sshd_interrupts_a_load_and_does_not_end_it(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    fault = threading.Thread(target=machine.within, args=("pkill -KILL -x sshd",))

    log = load_with(by_systemd, fault, tmp_path)

    assert lines_of(log) == (1, list(range(STEPS)))
    assert state_of(machine) == before


def test_a_rotated_and_vacuumed_journal_ends_no_load_and_repeats_no_line(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    rotate = "journalctl --rotate; sleep 1.5; journalctl --vacuum-time=1s"
    fault = threading.Thread(target=machine.within, args=(rotate,))

    log = load_with(by_systemd, fault, tmp_path)

    kept = machine.within("journalctl --unit=sglang-bench --lines=40").split("ready to roll")[-2]
    started, steps = lines_of(log)
    assert "Load weight begin" not in kept  # the lines that were read before are gone from there
    assert started == 1
    assert steps == sorted(set(steps))
    assert steps[-1] == STEPS - 1
    assert any("ready to roll" in line for line in log)


@contextmanager
def clock_that_steps(machine: TestHost) -> Iterator[None]:
    """Let every command that specbench runs on the host see the time of day that a file sets."""
    variables = " ".join(f"{name}={value}" for name, value in STEPPED.items())
    again = "systemctl restart ssh"  # a reload is over before sshd listens again
    machine.within(f"echo +0 > {CLOCK}; chmod 644 {CLOCK}")
    machine.within(f"printf 'Match User ops\\nSetEnv %s\\n' '{variables}' > {SESSIONS}; {again}")
    try:
        _require_stepped(machine)
        yield
    finally:
        machine.within(f"rm -f {SESSIONS} {CLOCK}; {again}")


def _require_stepped(machine: TestHost) -> None:
    machine.within(f"echo +7200 > {CLOCK}")
    ahead_s = int(machine.run("date", "+%s")) - int(machine.within("date +%s"))
    machine.within(f"echo +0 > {CLOCK}")
    if ahead_s < 3600:
        give_up(f"libfaketime shows no process of {machine.name} another time of day")


def preloaded(machine: TestHost) -> set[str]:
    """Name the host's processes that see the stepped clock."""
    maps = "grep -ls libfaketime /proc/[0-9]*/maps"
    found = machine.within(
        f"for map in $({maps}); do cat ${{map%maps}}comm; done 2>/dev/null; true"
    )
    return set(found.split())


def test_a_host_whose_clock_is_set_during_a_load_is_followed_without_a_lost_line(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    host = msgspec.structs.replace(by_systemd, env=STEPPED)
    seen: set[str] = set()

    def step() -> None:
        machine.within(f"echo +7200 > {CLOCK}; sleep 2; echo -7200 > {CLOCK}")
        seen.update(preloaded(machine))

    with clock_that_steps(machine):
        log = load_with(host, threading.Thread(target=step), tmp_path)

    hours = {line[12:14] for line in log if re.match(r"\[\d{4}-", line)}
    assert len(hours) > 2
    assert lines_of(log) == (1, list(range(STEPS)))
    assert "python3" in seen
    assert not {name for name in seen if name.startswith(("systemd", "sshd", "dbus"))}


def test_a_host_that_comes_back_with_another_key_is_refused_at_once_and_told_of(
    machine: TestHost, by_systemd: Host, tmp_path: Path
) -> None:
    before = state_of(machine)
    key = "/etc/ssh/ssh_host_ed25519_key"
    other = (
        f"cp -p {key} {key}.kept; ssh-keygen -q -t ed25519 -N '' -f {key}.new; cp {key}.new {key}"
    )
    again = "systemctl restart ssh; pkill -KILL -u ops -x sshd"
    found: list[LoadFailure | None] = []

    def measured() -> None:
        with launcher.running(spec(), tmp_path) as service:
            list(service.until_ready())
            machine.within(f"{other}; {again}")
            found.append(service.check())

    launcher = launcher_for(by_systemd, patience=PATIENCE)
    try:
        with pytest.raises(HostError, match="has changed") as error:
            measured()
    finally:
        machine.within(f"mv {key}.kept {key}; rm {key}.new*; {again}; true")
        launcher.close()

    with closing(shell_for(by_systemd)) as shell:
        said = [check.found for check in restore_everything(by_systemd, shell, break_lock=False)]
    assert found[0] is not None
    assert found[0].pattern == "host_key"
    assert "ssh-keygen -R" in (error.value.hint or "")
    assert any("took the drop-in" in text for text in said)
    assert state_of(machine) == before
