"""Each way to have a host set up wrongly is found, named, and comes with what to do."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specbench.hosts import deploy
from specbench.hosts.checks import HostCheck
from specbench.hosts.lock import Holder, HostLock
from specbench.hosts.state import STATE_DIR
from specbench.launchers.launcher_checks import check_everything
from specbench.model.host import Host
from tests.launchers.scripted import Answer, ScriptedShell

pytestmark = pytest.mark.process

HEALTHY_UNIT = "LoadState=loaded\nFragmentPath=/etc/systemd/system/b.service\n"
GPU_ROW = "0, NVIDIA H200, 570.1, 143771\n"

# A host with nothing wrong, whatever machine the tests run on.
HEALTHY: dict[str, Answer] = {
    "df -Pm": (0, "Filesystem M Used Avail\n/dev/x 100000 1 90000 1% /\n", ""),
    "cat /proc/loadavg": (0, "0.10 0.10 0.10 1/100 1\n", ""),
    "nproc": (0, "64\n", ""),
    "nvidia-smi --query-gpu": (0, GPU_ROW * 8, ""),
    "nvidia-smi --query-compute-apps": (0, "", ""),
    "systemctl --version": (0, "systemd 252\n", ""),
    "systemctl show": (0, HEALTHY_UNIT, ""),
    "sudo": (0, "", ""),
    "id -u": (0, "1000\n", ""),
    "id -un": (0, "bench\n", ""),
    "id -nG": (0, "bench systemd-journal\n", ""),
    "loginctl": (0, "Linger=yes\n", ""),
    "docker version": (0, "28.0\n", ""),
    "docker image inspect": (0, "[]\n", ""),
}


@pytest.fixture
def host(local: Host) -> Host:
    """A remote host, as far as the checks can tell, that runs the tests' own interpreter."""
    return msgspec.structs.replace(
        local,
        address="b300",
        gpus=8,
        python=sys.executable,
        command=("{python}", "-m", "pytest"),
    )


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lock"
    monkeypatch.setattr(HostLock.__init__, "__kwdefaults__", {"path": str(path)})
    return path


def doubts(host: Host, answers: dict[str, Answer] | None = None, **more: Any) -> list[HostCheck]:
    shell = ScriptedShell({**HEALTHY, **(answers or {})})
    for name, value in more.items():
        setattr(shell, name, value)
    return [check for check in check_everything(host, shell) if check.state != "ok"]


def systemd(host: Host, **changes: Any) -> Host:
    return msgspec.structs.replace(host, launcher="systemd", unit="b.service", **changes)


@pytest.mark.parametrize("launcher", ["process", "systemd", "docker"])
def test_nothing_is_said_of_a_host_with_nothing_wrong(host: Host, launcher: str) -> None:
    changed = msgspec.structs.replace(host, launcher=launcher, unit="b.service", image="x")

    assert doubts(changed) == []


@pytest.mark.parametrize(
    ("name", "changes", "answers", "found"),
    [
        ("python", {"python": "/bin/echo"}, {}, "gave no answer"),
        ("python", {"python": "/no/python"}, {}, "No such file"),
        ("command", {"command": ("/no/such/server",)}, {}, "no program '/no/such/server'"),
        ("command", {"command": ("{python}", "-m", "no_such_engine")}, {}, "no package"),
        ("workdir", {"workdir": "/no/such/folder"}, {}, "does not exist"),
        ("disk", {}, {"df -Pm": (0, "F M U A\n/dev/x 9 9 12 99% /\n", "")}, "12 MiB are free"),
        ("gpus", {}, {"nvidia-smi --query-gpu": (9, "", "failed")}, "does not answer"),
        ("gpus", {}, {"nvidia-smi --query-gpu": (0, GPU_ROW * 7, "")}, "7 GPUs (NVIDIA H200)"),
        (
            "gpu_memory",
            {},
            {"nvidia-smi --query-compute-apps": (0, "4711, python train.py, 80000\n", "")},
            "pid 4711 (python train.py)",
        ),
        ("load", {}, {"nproc": (0, "0\n", "")}, "on 0 processors"),
        ("clock", {}, {"date": (0, "1000.0\n", "")}, "from this machine's"),
        ("environment", {"env": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, {}, "accept_len is an input"),
        ("files", {"files": ("no-colon",)}, {}, "is not FROM:TO"),
        ("files", {"files": ("/no/such/file.py:~/x.py",)}, {}, "No such file"),
    ],
)
def test_what_is_wrong_with_any_host_is_found(
    host: Host, name: str, changes: dict[str, Any], answers: dict[str, Answer], found: str
) -> None:
    checks = doubts(msgspec.structs.replace(host, **changes), answers)

    matching = [check for check in checks if check.name == name and found in check.found]
    assert matching
    assert matching[0].hint


@pytest.mark.parametrize(
    ("name", "changes", "answers", "found"),
    [
        ("unit", {"unit": None}, {}, "has no unit"),
        ("unit", {}, {"systemctl show": (0, "LoadState=not-found\n", "")}, "is not-found"),
        (
            "unit_reload",
            {},
            {"systemctl show": (0, HEALTHY_UNIT + "NeedDaemonReload=yes\n", "")},
            "have changed",
        ),
        (
            "unit_leftover",
            {},
            {"systemctl show": (0, HEALTHY_UNIT + "DropInPaths=/run/x/zz-specbench.conf\n", "")},
            "still has a drop-in",
        ),
        (
            "unit_restart",
            {},
            {"systemctl show --no-pager": (0, "Restart=always\n", "")},
            "Restart=always",
        ),
        (
            "unit_environment",
            {},
            {"systemctl show --no-pager": (0, "Environment=A=1 SGLANG_SIMULATE_ACC_LEN=2\n", "")},
            "SGLANG_SIMULATE_ACC_LEN=2",
        ),
        ("unit", {}, {"systemctl show": (1, "", "Failed to connect to bus")}, "cannot show"),
        ("sudo", {}, {"sudo -n": (1, "", "a password is required")}, "wants a password"),
        ("journal", {}, {"id -nG": (0, "bench\n", "")}, "may not read the journal"),
        (
            "linger",
            {"user_unit": True},
            {"loginctl": (0, "Linger=no\n", ""), "systemctl --user": (0, HEALTHY_UNIT, "")},
            "end with the last login",
        ),
        ("command", {"command": ("env",)}, {}, "is no absolute path"),
    ],
)
def test_what_is_wrong_with_a_systemd_host_is_found(
    host: Host, name: str, changes: dict[str, Any], answers: dict[str, Answer], found: str
) -> None:
    checks = doubts(msgspec.structs.replace(systemd(host), **changes), answers)

    assert [check.name for check in checks if found in check.found] == [name]
    assert all(check.hint for check in checks)


@pytest.mark.parametrize(
    ("name", "answers", "found"),
    [
        ("docker", {"docker version": (127, "", "not found")}, "no docker command"),
        ("docker", {"docker version": (1, "", "permission denied")}, "permission denied"),
        ("docker", {"docker version": (1, "", "Cannot connect")}, "Cannot connect"),
        ("image", {"docker image inspect": (1, "", "no such image")}, "is not on the host"),
    ],
)
def test_what_is_wrong_with_a_docker_host_is_found(
    host: Host, name: str, answers: dict[str, Answer], found: str
) -> None:
    checks = doubts(msgspec.structs.replace(host, launcher="docker", image="x"), answers)

    assert [(check.name, found in check.found) for check in checks] == [(name, True)]


def test_a_port_in_use_is_found_with_its_holder(host: Host) -> None:
    with socket.create_server(("127.0.0.1", int(host.url.rpartition(":")[2]))):
        checks = doubts(host)

    assert [check.name for check in checks] == ["port"]
    assert f"pid {os.getpid()}" in checks[0].found


def test_a_state_folder_that_cannot_be_written_is_found(host: Host, own_home: Path) -> None:
    (own_home / ".local").write_text("a file where a folder should be")

    assert next(iter(doubts(host))).name == "folders"


@pytest.mark.parametrize("seen", [(1, "", "No such file"), (0, "of another run", "")])
def test_files_that_commands_of_the_host_do_not_see_are_found(host: Host, seen: Answer) -> None:
    checks = doubts(host, {"sh -c cat": seen})

    assert [check.name for check in checks] == ["folders"]
    assert "do not see the same" in checks[0].found
    assert checks[0].hint


def test_the_lock_of_somebody_else_is_found_with_its_owner(host: Host, own_lock: Path) -> None:
    holder = Holder(
        user="mo", machine="elsewhere", pid=1, started="1", purpose="ddtree", token="t",
        since="2026-01-01T00:00:00Z", since_unix_s=time.time() - 7200,
    )  # fmt: skip
    own_lock.write_bytes(msgspec.json.encode(holder))

    checks = doubts(host)

    assert [check.name for check in checks] == ["lock"]
    assert "mo@elsewhere has it for 2 h: ddtree" in checks[0].found


def test_a_lock_that_cannot_be_read_is_found(host: Host, own_lock: Path) -> None:
    own_lock.write_text("{")

    assert [check.name for check in doubts(host)] == ["lock"]


def test_files_left_deployed_are_found(host: Host, own_home: Path) -> None:
    record = Path(deploy.RECORD.replace("~", str(own_home)))
    record.parent.mkdir(parents=True)
    record.write_text("[]")

    assert [check.name for check in doubts(host)] == ["files"]


def test_forbidden_tunnels_are_found(host: Host) -> None:
    assert [check.name for check in doubts(host, forbids_tunnels=True)] == ["forwarding"]
    driven_there = msgspec.structs.replace(host, drive_from="host")
    assert doubts(driven_there, forbids_tunnels=True) == []


def test_checking_leaves_nothing_behind(host: Host, own_home: Path) -> None:
    doubts(host)

    folder = Path(STATE_DIR.replace("~", str(own_home)))
    assert list(folder.iterdir()) == []


def test_the_command_prints_one_json_document_and_exits_with_4(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts:\n  gone: {address: no-such-host.invalid}\n")
    words = ["-m", "specbench", "hosts", "check", "gone", "--json", "--hosts", str(file)]

    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)

    document = json.loads(done.stdout)
    assert done.returncode == 4
    assert document["hosts"][0]["usable"] is False
    assert "does not resolve" in document["hosts"][0]["checks"][0]["found"]
