"""An sshd of the tests' own on 127.0.0.1, with keys and the SSH configuration to reach it."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CONFIG = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
Subsystem sftp internal-sftp
MaxStartups 100:30:200
"""

CLIENT = """\
Host near
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
Host jumped
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    ProxyJump near
"""


class Sshd:
    """A running sshd. `config` is for `ssh -F`."""

    def __init__(self, folder: Path, port: int, program: str) -> None:
        self.folder = folder
        self.port = port
        self.config = folder / "ssh_config"
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ["-D", "-E", str(self.folder / "sshd.log"), "-f", str(self.folder / "sshd_config")]
        self._process = subprocess.Popen(
            [self._program, *words], stdin=subprocess.DEVNULL, start_new_session=True
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise AssertionError((self.folder / "sshd.log").read_text())

    def stop(self) -> None:
        """End the listener and every session, as a crash would."""
        if self._process is not None:
            for pid in [self._process.pid, *_sessions_of(self._process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            self._process.wait()
            self._process = None

    def rekey(self) -> None:
        """Give the host another key."""
        for path in self.folder.glob("host_key*"):
            path.unlink()
        _keygen(self.folder / "host_key")


def _sessions_of(root: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, check=True)
    children: dict[int, list[int]] = {}
    for line in listing.stdout.splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found[1:]


def _keygen(path: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """Run an sshd; where none is installed the test is skipped, except under CI=true."""
    program = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if program is None or shutil.which("ssh-keygen") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no OpenSSH server here; CI must have one (Debian: openssh-server)")
        pytest.skip("no OpenSSH server here (Debian: openssh-server)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for name in ("host_key", "user_key"):
        _keygen(folder / name)
    (folder / "sshd_config").write_text(CONFIG.format(folder=folder, port=port))
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder, port=port))
    key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}")
    server = Sshd(folder, port, program)
    server.start()
    try:
        yield server
    finally:
        server.stop()
