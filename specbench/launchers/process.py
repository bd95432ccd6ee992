"""A server as an ordinary process, under a supervisor on its host."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from specbench.errors import HostError, LoadFailed
from specbench.hosts.command import Launch, address_of, render
from specbench.hosts.packages import VARIABLE, sees
from specbench.hosts.state import (
    ask,
    log_path,
    owner_of,
    require_free_port,
    state_path,
    wait_until_free,
)
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.service import RunningService
from specbench.launchers.serving import serving, write_launch
from specbench.model.host import Address, Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import END_UNKNOWN
from specbench.remote.shell import FileMissing, Shell

READ_BYTES = 4 * 2**20


class ProcessLauncher:
    """Start a server as a process of its own session; end it with everything that it started."""

    def __init__(self, place: Place) -> None:
        self.host = place.host
        self._shell = place.shell
        self._place = place

    @contextlib.contextmanager
    def running(
        self, spec: LaunchSpec, block_dir: Path, context: LaunchContext
    ) -> Iterator[RunningService]:
        """Start the server of a specification; stop it and free its port on leaving.

        Raises HostError before anything is started when the port is taken, LoadFailed when the
        command cannot be run.
        """
        launch = self.launch(spec)
        write_launch(self._place, block_dir, launch)
        self.restore()
        require_free_port(self._shell, self.host, launch.address)
        process = self._start(launch, label=spec.fingerprint)
        with serving(self._place, spec, block_dir, process, context) as service:
            yield service
        if not service.kept:
            self._forget(launch.address)

    def launch(self, spec: LaunchSpec) -> Launch:
        """Say what is run; a launcher that only wraps the command overrides this alone."""
        return render(self.host, spec)

    def restore(self) -> tuple[str, ...]:
        """Stop what an earlier, killed specbench left on this port; touch nothing else.

        Raises HostError where a living specbench of this machine runs it.
        """
        address = address_of(self.host)
        state = state_path(address)
        left = ask(self._shell, self.host, {"do": "look", "state": state, "port": address.port})
        if left.get("owned") and left.get("supervised"):
            raise HostError(
                f"another specbench (pid {left['owner']['pid']}) runs a server on port "
                f"{address.port} since {left['started_at']}",
                where=self._shell.name,
                hint="wait for it, or take another port in url",
            )
        if not (left.get("alive") or left.get("supervised")):
            return ()
        _stop(self._shell, self.host, state, wait_s=self.host.stop_timeout_s)
        wait_until_free(self._shell, self.host, address)
        return (f"stopped the server that was left on port {address.port} (pid {left['pid']})",)

    def python_path(self) -> str:
        """Return what this user's processes have on the host."""
        return self._shell.run(["printenv", VARIABLE]).stdout.strip()

    def close(self) -> None:
        """Give up the connection to the host."""
        self._shell.close()

    def _forget(self, address: Address) -> None:
        """Leave nothing behind of a server that was stopped in good order."""
        self._shell.remove(state_path(address))
        self._shell.remove(log_path(address))

    def _start(self, launch: Launch, *, label: str) -> "ServerProcess":
        state = state_path(launch.address)
        log = log_path(launch.address)
        self._shell.write_file(log, b"", mode=0o600)  # as the server writes it, secrets and all
        request = {
            "do": "start",
            "argv": launch.argv,
            "env": launch.env,
            "cwd": launch.workdir,
            "path": launch.path,
            "log": log,
            "state": state,
            "grace_s": self.host.stop_timeout_s,
            "owner": owner_of(self.host),
            "label": label,
        }
        answer = ask(self._shell, self.host, request)
        if "error" in answer:
            raise LoadFailed(
                f"cannot start {launch.argv[0]!r}: {answer['error']}",
                where=self._shell.name,
                hint="correct command or python in hosts.yaml",
                pattern="cannot_start",
            )
        return ServerProcess(self._shell, self.host, launch.address, answer)


class ServerProcess:
    """The process of one launch, seen through the state that its supervisor keeps."""

    def __init__(
        self, shell: Shell, host: Host, address: Address, state: Mapping[str, Any]
    ) -> None:
        self._shell = shell
        self._host = host
        self._address = address
        self._state = dict(state)
        self._finished = False
        self.log = FileLog(shell, str(state["log"]))

    @property
    def pid(self) -> int | None:
        """The server's process id on its host."""
        return int(self._state["pid"])

    @property
    def started_at(self) -> str | None:
        """When it started, UTC."""
        return str(self._state["started_at"])

    def ended(self) -> int | None:
        """Return the exit status once it ended; two small reads, no command on the host."""
        state = self._read_state()
        if state.get("pid") != self.pid or state.get("started_at") != self.started_at:
            return END_UNKNOWN  # another start has this port, or the state is gone or elsewhere
        if state.get("ended"):
            return int(state["status"])
        return None if self._exists() else END_UNKNOWN

    def work(self) -> float | None:
        """Return CPU seconds and megabytes read, of the whole process tree."""
        work = self._look().get("work")
        return float(work) if work is not None else None

    def listens(self) -> bool | None:
        """Return whether the port is held by one of its processes."""
        listens = self._look().get("listens")
        return None if listens is None else bool(listens)

    def environment(self) -> Mapping[str, str]:
        """Nothing beyond the environment that the launch itself sets."""
        return {}

    def sees(self, folders: Sequence[str]) -> bool | None:
        """Whether it has the folders on its path."""
        return sees(self._shell.run, self.pid, folders)

    def stop(self, wait_s: float) -> None:
        """SIGTERM, wait, then SIGKILL to the whole group; a second call does nothing."""
        if not self._finished:
            _stop(self._shell, self._host, state_path(self._address), wait_s=wait_s)
            self._finished = True

    def let_go(self) -> None:
        """Take this specbench out of the state: the supervisor no longer ends the server with it.

        Raises HostError where the server is gone already or the state cannot be written.
        """
        if self.ended() is not None:
            raise HostError("the server that was to be kept has ended", where=self._shell.name)
        state = self._read_state() | {"owner": None}
        self._shell.write_file(state_path(self._address), msgspec.json.encode(state), mode=0o600)
        self._finished = True

    def _look(self) -> Any:
        state = state_path(self._address)
        request = {"do": "look", "state": state, "port": self._address.port}
        return ask(self._shell, self._host, request)

    def _read_state(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._shell.read_file(state_path(self._address))))
        except (FileMissing, ValueError):
            return {}

    def _exists(self) -> bool:
        """Whether the supervisor lives: it outlives its server, unless someone killed it."""
        try:
            stat = self._shell.read_file(f"/proc/{self._state['supervisor']}/stat")
        except FileMissing:
            return False
        fields = stat.rpartition(b")")[2].split()
        return fields[19] == str(self._state["supervisor_ticks"]).encode()


class FileLog:
    """A log file on a host, read by byte offset."""

    def __init__(self, shell: Shell, path: str) -> None:
        self._shell = shell
        self._path = path
        self._offset = 0

    def read(self) -> bytes:
        """Return the next bytes."""
        try:
            piece = self._shell.read_file(self._path, offset=self._offset, limit=READ_BYTES)
        except FileMissing:
            return b""
        self._offset += len(piece)
        return piece


def _stop(shell: Shell, host: Host, state: str, *, wait_s: float) -> None:
    # The supervisor itself waits `grace_s` before it kills; it gets a little longer than that.
    request = {"do": "stop", "state": state, "wait_s": wait_s + 15.0}
    deadline = time.monotonic() + wait_s + 45.0
    ask(shell, host, request, timeout_s=deadline - time.monotonic())
