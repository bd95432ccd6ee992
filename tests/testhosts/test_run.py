"""A whole run over two real hosts: a network that fails, a client that is killed, nothing lost."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.testhosts.lab import TestHost, lab, missing
from tests.testhosts.test_systemd import state_of

pytestmark = [pytest.mark.ssh, pytest.mark.slow, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[2]
MATRIX = """\
name: two-hosts
model: {path: embedded, served_name: embedded}
hosts: [h1, h2]
factors: {algorithm: ar, concurrency: [1, 2], temperature: 0.0}
workload: {dataset: builtin:mixed, requests: 8, max_tokens: 16}
spread: every
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
    reason = missing()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    (tmp_path / "hosts.yaml").write_text(HOSTS % sys.executable)
    shared = {Path(sys.base_prefix), Path(sys.prefix), PROJECT}
    folders = [path for path in shared if not any(up in shared for up in path.parents)]

    with lab(tmp_path, 2, folders) as hosts:
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
    time.sleep(8)
    host.cut()
    time.sleep(15)
    host.heal()
    deadline = time.monotonic() + 300
    while not sealed(folder / "results") and time.monotonic() < deadline:
        time.sleep(0.1)
    client.kill()
    client.wait()
    return sealed(folder / "results")


def _run(folder: Path) -> "subprocess.Popen[bytes]":
    words = ["run", str(folder / "matrix.yaml"), "--hosts", str(folder / "hosts.yaml")]
    return subprocess.Popen(
        [sys.executable, "-m", "specbench", *words, "--results", str(folder / "results")],
        env={**os.environ, "SPECBENCH_SSH_CONFIG": str(folder / "ssh_config")},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
