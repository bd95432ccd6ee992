"""systemctl and journalctl of one unit, for a system or a user manager."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from specbench.errors import HostError
from specbench.remote.shell import Completed, Shell
from specbench.remote.sudo import Root

_STATE = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "NRestarts",
    "InvocationID",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "CPUUsageNSec",
    "IOReadBytes",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
)
_UNSET = 2**64 - 1
JOURNAL_LINES = 5000


class UnitState(msgspec.Struct, frozen=True, kw_only=True):
    """What systemd says of a unit; `raw` has every property that was asked for."""

    raw: dict[str, str]

    def __getitem__(self, name: str) -> str:
        """Return a property, empty where this systemd has none."""
        return self.raw.get(name, "")

    @property
    def is_up(self) -> bool:
        """Whether its process runs, is about to, or is about to end."""
        return self["ActiveState"] in {"active", "activating", "deactivating", "reloading"}

    @property
    def exit_status(self) -> int:
        """The exit status of the last main process, or minus its signal (ExecMainCode 2, 3)."""
        status = int(self["ExecMainStatus"] or 0)
        return -status if self["ExecMainCode"] in {"2", "3"} else status

    @property
    def work(self) -> float | None:
        """CPU seconds plus megabytes read, None where neither is accounted."""
        nanoseconds, read = (self._number(name) for name in ("CPUUsageNSec", "IOReadBytes"))
        if nanoseconds is None and read is None:
            return None
        return (nanoseconds or 0) / 1e9 + (read or 0) / 1e6

    @property
    def started_at(self) -> str | None:
        """When the main process started, UTC, ISO 8601."""
        text = self["ExecMainStartTimestamp"].replace(" UTC", " +0000")
        try:
            return dt.datetime.strptime(text, "%a %Y-%m-%d %H:%M:%S %z").isoformat()
        except ValueError:
            return None

    def _number(self, name: str) -> int | None:
        text = self[name]
        return int(text) if text.isdigit() and int(text) != _UNSET else None


class Unit:
    """One unit on one host. Changes need root for a system unit; looking does not."""

    def __init__(self, shell: Shell, name: str, *, user: bool) -> None:
        self.name = name
        self.user = user
        self._shell = shell
        self._root = Root(shell)
        self._scope = ["--user"] if user else []

    def state(self) -> UnitState:
        """Ask for the unit's state. Raises HostError where systemd does not answer."""
        words = ["--timestamp=utc", "--no-pager", f"--property={','.join(_STATE)}"]
        done = self._shell.run(["systemctl", *self._scope, "show", *words, "--", self.name])
        if not done.ok:
            raise HostError(
                f"systemctl cannot show {self.name}: {done.complaint}",
                where=self._shell.name,
                hint="a user unit needs a user manager: loginctl enable-linger"
                if self.user
                else "is this host run by systemd?",
            )
        pairs = (line.partition("=") for line in done.stdout.splitlines())
        return UnitState(raw={name: value for name, _, value in pairs})

    def properties(self, *names: str) -> dict[str, str]:
        """Return other properties of the unit."""
        words = ["--no-pager", f"--property={','.join(names)}", "--", self.name]
        shown = self._shell.run(["systemctl", *self._scope, "show", *words]).stdout
        pairs = (line.partition("=") for line in shown.splitlines())
        return {name: value for name, _, value in pairs}

    def control(self, *words: str, timeout_s: float = 30.0) -> Completed:
        """Run a systemctl verb that changes something."""
        argv = ["systemctl", "--no-ask-password", *self._scope, *words]
        if self.user:
            return self._shell.run(argv, timeout_s=timeout_s)
        return self._root.run(argv, timeout_s=timeout_s)

    def must(self, *words: str, timeout_s: float = 30.0) -> None:
        """Run a systemctl verb that has to succeed. Raises HostError."""
        done = self.control(*words, timeout_s=timeout_s)
        if not done.ok:
            raise HostError(
                f"systemctl {' '.join(words)} failed: {done.complaint}", where=self._shell.name
            )

    def as_owner(
        self, argv: Sequence[str], *, content: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        """Run a command with the rights that the unit's files need."""
        if self.user:
            return self._shell.run(argv, input=content, timeout_s=timeout_s)
        return self._root.run(argv, content=content, timeout_s=timeout_s)

    def drop_in_folder(self) -> str:
        """Name the folder of run-time drop-ins: what is left there does not survive a reboot."""
        if not self.user:
            return f"/run/systemd/system/{self.name}.d"
        identity = self._shell.run(["id", "-u"]).stdout.strip()
        return f"/run/user/{identity}/systemd/user/{self.name}.d"

    def journal(self, invocation: str, cursor: str | None) -> tuple[list[str], str | None]:
        """Read the next lines of one invocation, and the cursor to go on from.

        Lines of the manager about the unit are among them: they tell how the process ended.
        """
        match = f"_SYSTEMD_INVOCATION_ID={invocation}"
        about = "USER_INVOCATION_ID" if self.user else "INVOCATION_ID"
        argv = ["journalctl", "--no-pager", "--quiet", "--output=json", "--all"]
        argv += ["--output-fields=MESSAGE", *([f"--after-cursor={cursor}"] if cursor else [])]
        argv += [match, "+", f"{about}={invocation}"]
        done = self._run_journal(argv)
        lines: list[str] = []
        for text in done.stdout.splitlines()[:JOURNAL_LINES]:
            entry = _decode(text)
            if entry is not None:
                lines.append(_message(entry))
                cursor = str(entry.get("__CURSOR", cursor))
        return lines, cursor

    def newest_cursor(self) -> str | None:
        """Return where the journal ends now, so that no reading has to search all of it."""
        argv = ["journalctl", "--no-pager", "--quiet", "--lines=0", "--show-cursor"]
        for line in self._run_journal(argv).stdout.splitlines():
            if line.startswith("-- cursor: "):
                return line.removeprefix("-- cursor: ").strip()
        return None

    def _run_journal(self, argv: list[str]) -> Completed:
        if self.user:
            return self._shell.run(argv)
        done = self._shell.run(argv)
        if done.ok and not done.stdout:
            return self._root.run(argv) if self._hidden() else done
        return done

    def _hidden(self) -> bool:
        """Whether this user may not read the system's journal."""
        groups = self._shell.run(["id", "-nG"]).stdout.split()
        return not {"systemd-journal", "adm", "root"} & set(groups)


def _decode(text: str) -> Mapping[str, Any] | None:
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _message(entry: Mapping[str, Any]) -> str:
    """Return the text; journald gives what is no UTF-8 as a list of bytes."""
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        return bytes(byte for byte in message if isinstance(byte, int)).decode(errors="replace")
    return str(message or "")
