"""A real server or load worker, killed when a trial begins: one failed trial, one more launch."""

import os
import signal
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from specbench.loadgen import drive
from specbench.model.event import BlockFailed, HostFailed
from specbench.model.host import Host
from specbench.model.load import DriveEvent, DriveProgress, LoadSpec
from specbench.workflows.lab import real_lab
from specbench.workflows.prepare import RunOptions
from tests.e2e.command import engines_on, only_recording, write_files
from tests.workflows.fakes import finish, run

pytestmark = pytest.mark.e2e

MATRIX = """\
name: kills
model: {path: embedded, served_name: embedded}
hosts: [here]
factors: {algorithm: ar, temperature: 0.0, concurrency: [1, 2, 4]}
server:
  command: ["{python}", -m, specbench.engine]
  flags: {time-scale: 1.0, load-seconds: 0.1}
workload: {requests: 8, max_tokens: 64}
"""


def children_of(parent: int, word: bytes) -> list[int]:
    """Processes of a parent whose command line holds a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and word in words:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("victim", ["server", "worker"])
def test_one_kill_as_a_trial_begins_costs_that_trial_alone(tmp_path: Path, victim: str) -> None:
    host = f", python: '{sys.executable}', stop_timeout_s: 5"
    port = write_files(tmp_path, MATRIX, host=host)
    killed: list[int] = []

    def kill(pids: list[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed.extend(pids)

    def deadly(_: Host, job: LoadSpec, sink: Path) -> Generator[DriveEvent, None, None]:
        if victim == "server" and not killed:
            kill(engines_on(port))
        for event in drive(job, sink):
            if victim == "worker" and not killed and isinstance(event, DriveProgress):
                kill(children_of(os.getpid(), b"hotpath.worker"))
            yield event

    options = RunOptions(
        matrix=tmp_path / "m.yaml", hosts=tmp_path / "hosts.yaml", results=tmp_path / "R"
    )
    events = run(options, replace(real_lab(), drive=deadly))

    finished = finish(events)
    (failed,) = [event for event in events if isinstance(event, BlockFailed)]
    assert killed
    assert [event for event in events if isinstance(event, HostFailed)] == []
    assert (finished.measured, finished.failed, finished.exit_status) == (2, 1, 3)
    assert failed.failure.evidence
    reasons = [each.reason for each in only_recording(tmp_path).sealed if each.status == "failed"]
    assert len(reasons) == 1
    assert ("killed by SIGKILL" in reasons[0]) == (victim == "worker")
    assert reasons[0].startswith("the server died: ") == (victim == "server")
    assert engines_on(port) == []
