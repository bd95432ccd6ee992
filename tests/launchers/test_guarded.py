"""What surrounds a launch: files put in place and taken back, facts and flags in the recording."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from specbench.hosts.lock import HostLock
from specbench.launchers import launcher_for
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from tests.launchers.conftest import PATIENCE

pytestmark = pytest.mark.process

NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *index,name*) echo '0, NVIDIA H200, 570.1, 143771' ;;
  *compute-apps*) echo '4711, python train.py, 80000' ;;
  *--loop*) while :; do echo '0, 97, 70000, 650.5, 71, 1980, 0x0'; sleep 0.05; done ;;
esac
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.fixture
def gpu_host(local: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with a GPU that somebody else uses: a script stands in for nvidia-smi."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(HostLock.__init__, "__kwdefaults__", {"path": str(tmp_path / "lock")})
    return msgspec.structs.replace(local, gpus=1)


def test_a_launch_on_a_shared_gpu_is_locked_flagged_and_sampled(
    gpu_host: Host, spec_of: Callable[..., LaunchSpec], tmp_path: Path
) -> None:
    launcher = launcher_for(gpu_host, patience=PATIENCE)

    with launcher.running(spec_of(), tmp_path / "block") as service:
        list(service.until_ready())
        locked = json.loads((tmp_path / "lock").read_text())
        wait_for((tmp_path / "block" / "gpu.csv").exists)
    launcher.close()

    assert locked["pid"] == os.getpid()
    assert service.facts.lock == f"held by {locked['user']}"
    assert not (tmp_path / "lock").exists()
    assert service.facts.flags == ("foreign_load",)
    assert any("pid 4711 (python train.py)" in text for text in service.facts.notices)
    assert service.facts.host_facts["gpus"] == ("NVIDIA H200",)
    assert (tmp_path / "block" / "gpu.csv").read_text().startswith("unix_s,gpu,")


def test_files_are_in_place_while_the_server_runs_and_their_hash_is_recorded(
    local: Host, spec_of: Callable[..., LaunchSpec], tmp_path: Path
) -> None:
    (tmp_path / "patch.py").write_text("x = 2\n")
    target = tmp_path / "worker.py"
    target.write_text("x = 1\n")
    entries = (f"{tmp_path / 'patch.py'}:{target}",)
    spec = msgspec.structs.replace(spec_of(), files=entries)

    with launcher_for(local, patience=PATIENCE).running(spec, tmp_path / "block") as service:
        list(service.until_ready())
        during = target.read_text()

    assert during == "x = 2\n"
    assert target.read_text() == "x = 1\n"
    assert service.facts.code_hash is not None
    assert (tmp_path / "block" / "files.json").exists()
