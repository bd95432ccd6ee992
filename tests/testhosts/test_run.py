"""A whole run over two real hosts: a network that fails, a client that is killed, nothing lost."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.recording import Recording, find_recordings
from tests.testhosts.lab import TestHost, lab, require_test_hosts, shared_folders
from tests.testhosts.test_faults import CLOCK, clock_that_steps
from tests.testhosts.test_systemd import state_of

pytestmark = [pytest.mark.ssh, pytest.mark.slow, pytest.mark.timeout(900)]

MATRIX = """\
name: two-hosts
model: {path: embedded, served_name: embedded}
hosts: [h1, h2]
factors: {algorithm: ar, concurrency: [1, 2], temperature: 0.0}
workload: {dataset: builtin:mixed, requests: 8, max_tokens: 16}
spread: every
"""
ONE_HOST = """\
name: one-host
model: {path: embedded, served_name: embedded}
hosts: [h1]
factors: {algorithm: ar, concurrency: [1, 2, 4], temperature: 0.0}
workload: {dataset: builtin:mixed, requests: 16, max_tokens: 24}
"""
HOSTS = """\
defaults:
  launcher: systemd
  unit: sglang-bench.service
  python: /usr/bin/python3
  command: [%s, -m, specbench.engine]
  workdir: /tmp
  stop_timeout_s: 10
hosts: {h1: {address: h1}, h2: {address: h2}}
"""


def sealed(results: Path) -> list[str]:
    """Trials that are sealed, as `status` counts them: one folder each, renamed when complete."""
    return sorted(path.name for path in results.glob("*/trials/[!.]*"))


def test_a_run_over_two_hosts_survives_a_cut_network_and_a_killed_client(tmp_path: Path) -> None:
    require_test_hosts()
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "hosts.yaml").write_text(HOSTS % sys.executable)

    with lab(tmp_path, 2, shared_folders()) as hosts:
        before = [state_of(host) for host in hosts]
        first = _run_until_sealed(tmp_path, hosts[0])
        status = _run(tmp_path).wait(600)
        after = [state_of(host) for host in hosts]

    assert first
    assert status == 0
    assert len(sealed(tmp_path / "results")) == 4
    assert set(first) <= set(sealed(tmp_path / "results"))
    assert after == before


def _run_until_sealed(folder: Path, host: TestHost) -> list[str]:
    """Run; cut one host off while it loads; kill the client once a trial is sealed."""
    client = _run(folder)
    time.sleep(5)
    host.cut()
    # The other host must have something left to do when the client dies: it is killed at once.
    _until_sealed(folder, 12)
    host.heal()
    _until_sealed(folder, 300)
    client.kill()
    client.wait()
    return sealed(folder / "results")


def _until_sealed(folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not sealed(folder / "results") and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_reboot_in_the_middle_of_a_trial_fails_that_trial_alone(
    machine: TestHost, tmp_path: Path
) -> None:
    (tmp_path / "matrix.yaml").write_text(ONE_HOST)
    (tmp_path / "hosts.yaml").write_text(HOSTS % sys.executable)
    (tmp_path / "ssh_config").symlink_to(machine.folder.parent / "ssh_config")
    before = state_of(machine)

    client = _run(tmp_path)
    with clock_that_steps(machine):
        first = _wait_for_rows(tmp_path, set(), client)
        machine.within(f"echo +7200 > {CLOCK}")
        _wait_for(lambda: sealed(tmp_path / "results"), client)
        second = _wait_for_rows(tmp_path, {first}, client)
        machine.power_off()
        machine.boot()
        status = client.wait(300)
    (path,) = find_recordings(tmp_path / "results")
    reasons = {each.trial.trial_id: each.reason for each in Recording(path).sealed}

    assert status == 3
    assert len(reasons) == 3
    assert reasons.pop(second) == "the server died: the host was rebooted while the server ran"
    assert set(reasons.values()) == {""}
    assert state_of(machine) == before


def _wait_for_rows(folder: Path, but: set[str], client: "subprocess.Popen[bytes]") -> str:
    """Wait until a trial is under way, and name it."""
    found: list[str] = []

    def look() -> list[str]:
        for rows in folder.glob("results/*/trials/.*.draft/requests.jsonl"):
            name = rows.parent.name.removeprefix(".").removesuffix(".draft")
            if name not in but and rows.stat().st_size:
                found.append(name)
        return found

    _wait_for(look, client)
    return found[0]


def _wait_for(condition: Callable[[], object], client: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline and client.poll() is None:
        time.sleep(0.02)
    assert condition()


def _run(folder: Path) -> "subprocess.Popen[bytes]":
    words = ["run", str(folder / "matrix.yaml"), "--hosts", str(folder / "hosts.yaml")]
    with (folder / "run.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "specbench", *words, "--results", str(folder / "results")],
            env={**os.environ, "SPECBENCH_SSH_CONFIG": str(folder / "ssh_config")},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
