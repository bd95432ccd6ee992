"""Throw-away hosts in namespaces of this machine: real systemd, journald, sshd and sudo.

Each has an address, a disk in memory and boots of its own. Needs root, Linux, mmdebstrap and
iproute2. The namespaces keep tests tidy; they are no security boundary.
"""

import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from tests.testhosts.image import image

NETWORK = "10.214"
BOOT_S = 60.0
NEEDED = ("mmdebstrap", "ip", "tc", "nsenter", "unshare", "ssh", "ssh-keygen", "chroot", "mount")

CLIENT = """\
Host {name}
    HostName {address}
    User ops
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
"""


@functools.cache
def missing() -> str | None:
    """Say why test hosts cannot run here, or None where they can."""
    if os.uname().sysname != "Linux" or os.geteuid() != 0:
        return "test hosts need root on Linux"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"test hosts need {', '.join(absent)} (Debian: mmdebstrap iproute2 openssh-client)"
    namespaces = ("--pid", "--fork", "--mount", "--uts", "--ipc", "--cgroup", "--net")
    try:
        _run("unshare", *namespaces, "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    except RuntimeError as error:
        return f"test hosts need namespaces and mounts of their own, refused here: {error}"
    return None


def require_test_hosts() -> None:
    """Skip the test where test hosts cannot run; fail it there under CI."""
    if reason := missing():
        give_up(reason)


def give_up(reason: str) -> NoReturn:
    """Skip a test whose rig cannot work on this machine; fail it under CI, where it has to."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class TestHost:
    """One host. `cut` makes it vanish from the network: packets to it are lost without a word."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(self, folder: Path, number: int, shared: Sequence[Path] = ()) -> None:
        self.name = f"h{number}"
        self.folder = folder / self.name
        self.address = ""  # known once the network is made: hosts of several labs live side by side
        self._link = ""
        self._netns = f"specbench-{uuid.uuid4().hex[:12]}"
        self._init: subprocess.Popen[bytes] | None = None
        self._lab = folder
        self._shared = [str(path) for path in shared]

    def create(self) -> None:
        """Make network, disk and keys."""
        self._make_network()
        disk = self.folder / "disk"
        disk.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", str(disk))
        for name in ("upper/etc/ssh", "upper/home/ops/.ssh", "upper/home/admin/.ssh", "work"):
            (disk / name).mkdir(parents=True)
        (disk / "upper/etc/hostname").write_text(f"{self.name}\n")
        key = disk / "upper/etc/ssh/ssh_host_ed25519_key"
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        for number, user in ((1000, "ops"), (1001, "admin")):
            home = disk / f"upper/home/{user}"
            shutil.copy(self._lab / "key.pub", home / ".ssh/authorized_keys")
            for path in (home, home / ".ssh", home / ".ssh/authorized_keys"):
                os.chown(path, number, number)
        public = key.with_suffix(".pub").read_text()
        with (self._lab / "known_hosts").open("a") as known:
            known.write(f"{self.address} {public}")
        with (self._lab / "ssh_config").open("a") as config:
            config.write(CLIENT.format(name=self.name, address=self.address, folder=self._lab))

    def boot(self) -> None:
        """Boot, and wait until sshd answers."""
        groups = _cgroups(self._netns)
        for group in groups:
            group.mkdir(parents=True, exist_ok=True)
        enter = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
        script = str(Path(__file__).with_name("boot.sh"))
        words = ["ip", "netns", "exec", self._netns, "unshare", "--pid", "--fork"]
        words += ["--kill-child", "--mount", "--uts", "--ipc", "--cgroup", "sh", script]
        words += [self.name, str(image()), str(self.folder), str(uuid.uuid4())]
        words += self._shared
        with (self.folder / "console.log").open("ab") as console:
            self._init = subprocess.Popen(
                ["sh", "-c", enter + 'exec "$@"', "sh", *words],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + BOOT_S
        while not self._answers():
            if time.monotonic() > deadline or self._init.poll() is not None:
                log = (self.folder / "console.log").read_text(errors="replace")
                raise RuntimeError(f"{self.name} did not boot:\n{log[-3000:]}")
            time.sleep(0.1)

    def power_off(self) -> None:
        """Pull the plug."""
        if self._init is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._init.pid, signal.SIGKILL)
            self._init.wait()
            self._init = None

    def cut(self) -> None:
        """Lose every packet to the host, by sending them to nobody's hardware address."""
        nobody = "02:00:00:00:00:01"
        _run("ip", "neigh", "replace", self.address, "lladdr", nobody, "dev", self._link,
             "nud", "permanent")  # fmt: skip

    def heal(self) -> None:
        """End a cut."""
        _run("ip", "neigh", "del", self.address, "dev", self._link)

    def slow_down(self) -> None:
        """Make the network slow and lossy in both directions: 1 Mbit/s, and a queue of 12 KB.

        What comes faster is dropped. The kernel's own emulator of delay and loss (netem) is not in
        every kernel; a token bucket (tbf) is, and its short queue loses packets just as well.
        """
        bucket = ("root", "tbf", "rate", "1mbit", "burst", "4kb", "limit", "12kb")
        _run("tc", "qdisc", "replace", "dev", self._link, *bucket)
        _run("tc", "-n", self._netns, "qdisc", "replace", "dev", "eth0", *bucket)

    def speed_up(self) -> int:
        """End a slow-down; return how many packets it has lost."""
        there, inside = ("-s", "qdisc", "show", "dev", self._link), ("dev", "eth0")
        told = [_run("tc", *there), _run("tc", "-n", self._netns, "-s", "qdisc", "show", *inside)]
        _run("tc", "qdisc", "del", "dev", self._link, "root")
        _run("tc", "-n", self._netns, "qdisc", "del", *inside, "root")
        return sum(int(count) for text in told for count in re.findall(r"dropped (\d+)", text))

    def fill_disk(self) -> None:
        """Leave no space on the host's disk."""
        with contextlib.suppress(OSError), (self.folder / "disk/upper/filler").open("wb") as filler:
            while True:
                filler.write(bytes(2**20))

    def free_disk(self) -> None:
        """Give the space back."""
        (self.folder / "disk/upper/filler").unlink()

    def run(self, *words: str, user: str = "ops") -> str:
        """Run a command by the ordinary ssh client; return its output."""
        ssh = ["ssh", "-F", str(self._lab / "ssh_config"), "-l", user, self.name, "--", *words]
        done = subprocess.run(ssh, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{words} on {self.name}: {done.returncode}: {done.stderr}")
        return done.stdout

    def within(self, command: str) -> str:
        """Run a shell command as root inside the host, not over the network."""
        assert self._init is not None
        words = ["nsenter", f"--target={_child_of(self._init.pid)}", "--mount", "--uts", "--ipc"]
        words += ["--net", "--pid", "--cgroup", "--root", "--wd", "sh", "-c", command]
        return _run(*words)

    def destroy(self) -> None:
        """Take everything down."""
        self.power_off()
        _run("umount", "-l", str(self.folder / "disk"), check=False)
        _run("ip", "netns", "del", self._netns, check=False)
        if self._link:
            _run("ip", "link", "del", self._link, check=False)
        deadline = time.monotonic() + 5.0
        for group in _cgroups(self._netns):
            # The last processes are still being buried; their folder is busy until then.
            while group.exists() and time.monotonic() < deadline:
                for folder in sorted([group, *group.rglob("*/")], reverse=True):
                    with contextlib.suppress(OSError):
                        folder.rmdir()
                time.sleep(0.02)

    def _make_network(self) -> None:
        inside = ("ip", "-n", self._netns)
        _run("ip", "netns", "add", self._netns)
        number = self._add_link()
        self.address = f"{NETWORK}.{number}.2"
        _run("ip", "addr", "add", f"{NETWORK}.{number}.1/30", "dev", self._link)
        _run("ip", "link", "set", self._link, "up")
        _run(*inside, "addr", "add", f"{self.address}/30", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run(*inside, "link", "set", device, "up")

    def _add_link(self) -> int:
        """Take the first number that no other lab of this machine has; the kernel is the judge."""
        refused = ""
        for number in range(1, 255):
            link = f"sbt{number}"
            words = ("ip", "link", "add", link, "type", "veth")
            try:
                _run(*words, "peer", "eth0", "netns", self._netns)
            except RuntimeError as error:
                refused = str(error)
                if "File exists" in refused:
                    continue
                raise
            self._link = link
            return number
        raise RuntimeError(f"no number is left for a test host: {refused}")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, 22), 1) as probe:
            return probe.recv(4) == b"SSH-"
        return False


def shared_folders() -> list[Path]:
    """Name the folders with this project and its Python: a host that sees them needs no setup."""
    shared = {Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]}
    return [path for path in shared if not any(up in shared for up in path.parents)]


@contextlib.contextmanager
def lab(folder: Path, count: int, shared: Sequence[Path] = ()) -> Iterator[list[TestHost]]:
    """Run hosts that see the `shared` folders of this machine; nothing of them stays."""
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    hosts = [TestHost(folder, number, shared) for number in range(1, count + 1)]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            stack.callback(host.destroy)
            host.create()
            host.boot()
        yield hosts


def _child_of(parent: int) -> int:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                return int(stat.parent.name)
    raise RuntimeError(f"process {parent} has no child")


def _cgroups(name: str) -> list[Path]:
    """Folders of a host in each hierarchy that boot.sh mounts, below this process's own."""
    base = Path("/sys/fs/cgroup")
    if (base / "cgroup.controllers").exists():
        own = next(line[3:] for line in _own_groups() if line.startswith("0::"))
        return [base / own.strip("/") / name]
    return [base / hierarchy / name for hierarchy in ("systemd", "cpuacct", "unified")]


def _own_groups() -> list[str]:
    return Path("/proc/self/cgroup").read_text().splitlines()


def _run(*words: str, check: bool = True) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__" and (why := missing()):
    sys.stderr.write(f"the tests marked ssh are skipped: {why}\n")
