"""A server as a systemd unit of the user's, changed by a drop-in for as long as a block lasts."""

import contextlib
import json
import posixpath
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from specbench.errors import HostError, InputError, LoadFailed
from specbench.hosts.command import Launch, address_of, render
from specbench.hosts.packages import VARIABLE, sees
from specbench.hosts.state import STATE_DIR, holders_of, require_free_port, wait_until_free
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.service import RunningService
from specbench.launchers.serving import serving, write_launch
from specbench.launchers.systemd.drop_in import render_drop_in
from specbench.launchers.systemd.not_started import not_started
from specbench.launchers.systemd.systemctl import Unit, UnitState
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.model.service import END_UNKNOWN
from specbench.recording.durable import write_private
from specbench.remote.shell import FileMissing, Shell

DROP_IN = "zz-specbench.conf"
SECRETS = "zz-specbench.env"
START_S = 20.0


class SystemdLauncher:
    """Install a drop-in, start the unit, and put everything back as it was.

    What is changed is written down on the host first, so that `restore` can undo it after a crash
    of specbench.
    """

    def __init__(self, place: Place) -> None:
        host = place.host
        if not host.unit:
            raise InputError(
                f"host {host.name!r} has launcher: systemd and no unit",
                hint="name the unit to run servers in: unit: server-bench.service",
            )
        self.host = host
        self._shell = place.shell
        self._place = place
        self._unit = Unit(place.shell, host.unit, user=host.user_unit)

    @contextlib.contextmanager
    def running(
        self, spec: LaunchSpec, block_dir: Path, context: LaunchContext
    ) -> Iterator[RunningService]:
        """Run the server of a specification in the unit; restore the unit on leaving.

        Raises HostError where the unit, root's rights or the port cannot be had.
        """
        launch = render(self.host, spec)
        write_launch(self._place, block_dir, launch)
        self.restore()
        before = self._require_unit()
        held: list[RunningService] = []
        with self._changed(launch, before, block_dir, lambda: any(s.kept for s in held)):
            require_free_port(self._shell, self.host, launch.address)
            process = self._start(launch.engine)
            with serving(self._place, spec, block_dir, process, context) as service:
                held.append(service)
                yield service

    def restore(self) -> tuple[str, ...]:
        """Undo what an earlier, killed specbench left; say what was done. Idempotent."""
        try:
            record = json.loads(self._shell.read_file(self._record_path()))
        except (FileMissing, ValueError):
            return ()
        self._stop_unit()
        self._undo(was_up=bool(record.get("was_up")), made_folder=bool(record.get("made_folder")))
        again = " and started it again" if record.get("was_up") else ""
        return (f"took the drop-in of {record.get('since')} off {self._unit.name}{again}",)

    def python_path(self) -> str:
        """Return what the unit itself sets."""
        words = shlex.split(self._unit.properties("Environment").get("Environment", ""))
        pairs = dict(word.partition("=")[::2] for word in words)
        return pairs.get(VARIABLE, "")

    def close(self) -> None:
        """Give up the connection to the host."""
        self._shell.close()

    def _require_unit(self) -> UnitState:
        state = self._unit.state()
        if state["LoadState"] != "loaded":
            raise HostError(
                f"unit {self._unit.name} is {state['LoadState'] or 'unknown'}",
                where=self._shell.name,
                hint="create it once: any service will do, specbench sets its ExecStart; "
                "user_unit: true looks among the units of the user",
            )
        return state

    @contextlib.contextmanager
    def _changed(
        self, launch: Launch, before: UnitState, block_dir: Path, kept: Callable[[], bool]
    ) -> Iterator[None]:
        """Stop the unit, install the drop-in; on leaving, take it off and restart what was up.

        Where the service is kept, all that is left to `restore`.
        """
        folder = self._unit.drop_in_folder()
        secrets_path = posixpath.join(folder, SECRETS)
        texts = render_drop_in(
            launch, secrets_path=secrets_path, stop_timeout_s=self.host.stop_timeout_s
        )
        made_folder = not self._unit.as_owner(["test", "-d", folder]).ok
        record = {
            "unit": self._unit.name,
            "was_up": before.is_up,
            "made_folder": made_folder,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._shell.write_file(self._record_path(), msgspec.json.encode(record), mode=0o600)
        keep = False
        try:
            self._stop_unit()
            wait_until_free(self._shell, self.host, address_of(self.host))
            self._install(folder, DROP_IN, texts.unit)
            if texts.secrets:
                self._install(folder, SECRETS, texts.secrets)
            self._unit.must("daemon-reload")
            self._require_drop_in(folder)
            shown = self._place.secrets.hide(texts.unit)
            write_private(block_dir / "unit.conf", shown.encode())
            yield
            keep = kept()
        finally:
            if not keep:
                self._undo(was_up=before.is_up, made_folder=made_folder)

    def _install(self, folder: str, name: str, text: str) -> None:
        """Write a file of root's as one step; a full disk would leave an empty drop-in behind."""
        path, aside = posixpath.join(folder, name), posixpath.join(folder, f".{name}")
        owner = self._unit.as_owner
        content = text.encode()
        done = owner(["install", "-D", "-m", "600", "/dev/stdin", aside], content=content)
        written = owner(["cat", aside]).stdout if done.ok else ""
        if written != text:
            owner(["rm", "-f", aside])
            raise HostError(
                f"cannot write {path}: {done.complaint if not done.ok else 'is the disk full?'}",
                where=self._shell.name,
            )
        moved = owner(["mv", "-f", aside, path])
        if not moved.ok:
            raise HostError(f"cannot write {path}: {moved.complaint}", where=self._shell.name)

    def _require_drop_in(self, folder: str) -> None:
        state = self._unit.state()
        if posixpath.join(folder, DROP_IN) not in state["DropInPaths"].split():
            raise HostError(
                f"systemd did not take the drop-in of {self._unit.name}: "
                f"it has {state['DropInPaths'] or 'none'}",
                where=self._shell.name,
            )

    def _start(self, engine: str) -> "UnitProcess":
        cursor = self._unit.newest_cursor()
        self._unit.control("reset-failed", self._unit.name)  # fails on a unit that never ran
        self._unit.must("start", "--no-block", self._unit.name)
        deadline = time.monotonic() + START_S
        while True:
            state = self._unit.state()
            if state["InvocationID"] and state["MainPID"] not in {"", "0"}:
                return UnitProcess(self._shell, self.host, self._unit, state, cursor)
            if state["ActiveState"] == "failed":
                raise self._not_started(state, cursor, engine)
            if time.monotonic() > deadline:
                raise self._not_started(state, cursor, engine)
            time.sleep(0.1)

    def _not_started(self, state: UnitState, cursor: str | None, engine: str) -> LoadFailed:
        lines, _ = self._unit.journal(state["InvocationID"], cursor)
        shown = self._place.secrets.hide_in(lines)
        return not_started(self._unit.name, state, shown, engine=engine, where=self._shell.name)

    def _stop_unit(self) -> None:
        """Stop the unit within a bound; kill what ignores that."""
        bound = self.host.stop_timeout_s + 20.0
        with contextlib.suppress(HostError):
            self._unit.control("stop", self._unit.name, timeout_s=bound)
        if self._unit.state().is_up:
            self._unit.control("kill", "--signal=KILL", self._unit.name)
            self._unit.control("stop", self._unit.name, timeout_s=bound)

    def _undo(self, *, was_up: bool, made_folder: bool) -> None:
        folder = self._unit.drop_in_folder()
        files = [posixpath.join(folder, name) for name in (DROP_IN, SECRETS, f".{DROP_IN}")]
        self._unit.as_owner(["rm", "-f", *files])
        if made_folder:
            self._unit.as_owner(["rmdir", "--ignore-fail-on-non-empty", folder])
        self._unit.must("daemon-reload")
        self._unit.control("reset-failed", self._unit.name)
        if was_up:
            self._unit.must("start", "--no-block", self._unit.name)
        self._shell.remove(self._record_path())

    def _record_path(self) -> str:
        scope = "user" if self.host.user_unit else "system"
        return f"{STATE_DIR}/unit-{scope}-{self._unit.name}.json"


class UnitProcess:
    """The main process of one invocation of the unit."""

    def __init__(
        self, shell: Shell, host: Host, unit: Unit, state: UnitState, cursor: str | None
    ) -> None:
        self._shell = shell
        self._host = host
        self._unit = unit
        self._first = state
        self._finished = False
        self.log = JournalLog(unit, state["InvocationID"], cursor)

    @property
    def pid(self) -> int | None:
        """MainPID."""
        return int(self._first["MainPID"])

    @property
    def started_at(self) -> str | None:
        """ExecMainStartTimestamp."""
        return self._first.started_at

    def ended(self) -> int | None:
        """Return the exit status once this invocation is over, also where systemd began anew."""
        state = self._unit.state()
        same = all(state[key] == self._first[key] for key in ("InvocationID", "MainPID"))
        if same and state["ActiveState"] in {"active", "activating", "reloading"}:
            return None
        # systemd forgets the status of a unit that ended well and that nobody refers to, and
        # that of this invocation where the unit was started again.
        same = state["InvocationID"] == self._first["InvocationID"] and state["ExecMainCode"] != "0"
        return state.exit_status if same else END_UNKNOWN

    def work(self) -> float | None:
        """Return what systemd accounts: CPU seconds and megabytes read."""
        return self._unit.state().work

    def listens(self) -> bool | None:
        """Return whether the port's holder runs in the unit's control group."""
        holders = holders_of(self._shell, self._host, address_of(self._host))
        groups = [str(holder["cgroup"]) for holder in holders if holder.get("cgroup")]
        return any(f"/{self._unit.name}" in group for group in groups) if groups else None

    def environment(self) -> Mapping[str, str]:
        """Read the process's real environment: units, drop-ins and files all end there."""
        done = self._unit.as_owner(["cat", f"/proc/{self.pid}/environ"])
        pairs = (text.partition("=") for text in done.stdout.split("\0") if "=" in text)
        return {name: value for name, _, value in pairs}

    def sees(self, folders: Sequence[str]) -> bool | None:
        """Whether it has the folders on its path, and nothing hides them from the unit."""
        return sees(self._unit.as_owner, self.pid, folders)

    def stop(self, wait_s: float) -> None:
        """Stop the unit; a second call does nothing."""
        if self._finished:
            return
        with contextlib.suppress(HostError):
            self._unit.control("stop", self._unit.name, timeout_s=wait_s + 20.0)
        if self._unit.state().is_up:
            self._unit.control("kill", "--signal=KILL", self._unit.name)
        self._finished = True

    def let_go(self) -> None:
        """Leave it to systemd, which ends no unit with specbench."""
        self._finished = True


class JournalLog:
    """The journal of one invocation, read by cursor: nothing is lost between two readings."""

    def __init__(self, unit: Unit, invocation: str, cursor: str | None) -> None:
        self._unit = unit
        self._invocation = invocation
        self._cursor = cursor

    def read(self) -> bytes:
        """Return the next lines."""
        lines, self._cursor = self._unit.journal(self._invocation, self._cursor)
        return "".join(f"{line}\n" for line in lines).encode()
