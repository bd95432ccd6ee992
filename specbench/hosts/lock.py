"""One benchmark at a time on a host: a lock that says who holds it, for what, and since when."""

import getpass
import os
import secrets
import socket
import time
from pathlib import Path

import msgspec

from specbench.errors import HostError
from specbench.model.json_text import NOT_JSON
from specbench.remote.shell import FileMissing, Shell

LOCK_PATH = "/tmp/specbench.lock"  # noqa: S108 - every user of the host must see the same file
LIMIT = 65536


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a host: a user on a machine, the process there, and why since when (UTC)."""

    user: str
    machine: str
    pid: int
    started: str
    purpose: str
    since: str
    since_unix_s: float
    token: str

    @property
    def age(self) -> str:
        """How long it has been held, for people."""
        minutes = max(0, int(time.time() - self.since_unix_s)) // 60
        return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"

    @property
    def is_this_process(self) -> bool:
        """Whether this very process holds it."""
        return self.machine == socket.gethostname() and (self.pid, self.started) == _self()

    @property
    def is_dead(self) -> bool:
        """Whether it can be proved here that the holder is gone: same machine, no such process."""
        return self.machine == socket.gethostname() and _started(self.pid) != self.started


class HostLock:
    """The lock of one host. It is taken once for a run, and given back at its end."""

    def __init__(self, shell: Shell, *, path: str = LOCK_PATH) -> None:
        self._shell = shell
        self._path = path
        self._held = False

    def hold(self, purpose: str) -> str | None:
        """Take the lock, or see that this process has it already.

        Returns a notice where a lock was taken over from a specbench of this machine that is
        provably gone. Raises HostError that names the holder of any other lock: a stale lock of
        somebody else is explained, not broken.
        """
        if self._held:
            return None
        if self._create(purpose):
            return None
        holder = self.holder()
        if holder is not None and holder.is_this_process:
            self._held = True
            return None
        if holder is None or not holder.is_dead:
            raise self._refused(holder)
        self._shell.remove(self._path)
        if not self._create(purpose):
            raise self._refused(self.holder())
        return f"took over the lock of a run that was killed ({holder.purpose}, {holder.since})"

    def release(self) -> None:
        """Give the lock back, if it is this process's."""
        holder = self.holder() if self._held else None
        if holder is not None and holder.is_this_process:
            self._shell.remove(self._path)
        self._held = False

    def break_lock(self) -> Holder | None:
        """Remove the lock whoever holds it; return who did."""
        holder = self.holder()
        self._shell.remove(self._path)
        return holder

    def holder(self) -> Holder | None:
        """Return who holds the lock; None where nobody does, or the file cannot be understood."""
        try:
            content = self._shell.read_file(self._path, limit=LIMIT)
            return msgspec.json.decode(content, type=Holder)
        except (FileMissing, *NOT_JSON):
            return None

    def exists(self) -> bool:
        """Whether there is a lock, understood or not."""
        return self._shell.exists(self._path)

    def _create(self, purpose: str) -> bool:
        """Write the file aside and link it into place: complete or not at all, and never twice.

        Raises HostError where nothing can be written.
        """
        pid, started = _self()
        holder = Holder(
            user=getpass.getuser(),
            machine=socket.gethostname(),
            pid=pid,
            started=started,
            purpose=purpose,
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            since_unix_s=time.time(),
            token=secrets.token_hex(8),
        )
        aside = f"{self._path}.{holder.token}"
        script = 'umask 022; set -C; cat > "$2" && ln -T "$2" "$1"; s=$?; rm -f "$2"; exit $s'
        argv = ["sh", "-c", script, "sh", self._path, aside]
        done = self._shell.run(argv, input=msgspec.json.encode(holder))
        if not done.ok and not self._is_there():
            raise HostError(
                f"cannot write the lock {self._path}: {done.complaint}", where=self._shell.name
            )
        self._held = done.ok
        return done.ok

    def _is_there(self) -> bool:
        """Whether the name is taken, if only by a link that leads nowhere."""
        return self._shell.run(["ls", "-d", self._path]).ok

    def _refused(self, holder: Holder | None) -> HostError:
        if holder is None:
            return HostError(
                f"cannot take the lock {self._path}",
                where=self._shell.name,
                hint="a damaged or foreign file; if nobody measures here: "
                "specbench hosts restore --break-lock",
            )
        return HostError(
            f"{holder.user}@{holder.machine} (pid {holder.pid}) has been using this host for "
            f"{holder.age}: {holder.purpose}",
            where=self._shell.name,
            hint="wait, or ask; if that run is dead: specbench hosts restore --break-lock",
        )


def _self() -> tuple[int, str]:
    pid = os.getpid()
    return pid, _started(pid) or ""


def _started(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]
