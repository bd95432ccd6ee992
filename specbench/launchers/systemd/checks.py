"""What only a unit of systemd needs of a host."""

from collections.abc import Iterator

from specbench.backends.products import contamination_of
from specbench.errors import HostError
from specbench.hosts.checks import Check, HostCheck
from specbench.launchers.systemd.launcher import DROP_IN
from specbench.launchers.systemd.systemctl import Unit
from specbench.model.host import Host
from specbench.remote.shell import Shell
from specbench.remote.sudo import Root


def check_unit(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the unit is there, is as systemd has read it, and has nothing left over."""
    if not host.unit:
        yield HostCheck(
            name="unit",
            state="wrong",
            found="launcher: systemd has no unit",
            hint="name the unit to run servers in: unit: server-bench.service",
        )
        return
    unit = Unit(shell, host.unit, user=host.user_unit)
    state = unit.state()
    if state["LoadState"] != "loaded":
        yield HostCheck(
            name="unit",
            state="wrong",
            found=f"unit {host.unit} is {state['LoadState'] or 'unknown'}",
            hint="create it once, with any ExecStart; user_unit: true looks among the user's units",
        )
        return
    yield HostCheck(name="unit", state="ok", found=f"{host.unit}: {state['FragmentPath']}")
    if state["NeedDaemonReload"] == "yes":
        yield HostCheck(
            name="unit_reload",
            state="warning",
            found=f"the files of {host.unit} have changed since systemd read them",
            hint="systemctl daemon-reload, and look whether the change is meant",
        )
    if any(path.endswith(DROP_IN) for path in state["DropInPaths"].split()):
        yield HostCheck(
            name="unit_leftover",
            state="wrong",
            found=f"{host.unit} still has a drop-in of specbench",
            hint="specbench hosts restore takes it off",
        )
    yield from _unit_settings(unit, host.unit)


def _unit_settings(unit: Unit, name: str) -> Iterator[HostCheck]:
    shown = unit.properties("Restart", "Environment")
    if shown.get("Restart", "no") not in {"no", ""}:
        yield HostCheck(
            name="unit_restart",
            state="warning",
            found=f"{name} has Restart={shown['Restart']}",
            hint="specbench sets Restart=no while it measures; outside of it a failed load loops",
        )
    pairs = (word.partition("=") for word in shown.get("Environment", "").split())
    for finding in contamination_of({key: value for key, _, value in pairs}):
        yield HostCheck(
            name="unit_environment",
            state="wrong",
            found=f"{name}: {finding.explanation}",
            hint="take it out of the unit",
        )


def check_sudo(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that a system unit can be changed."""
    if host.user_unit:
        return
    done = Root(shell).run(["systemctl", "--version"])
    if not done.ok:
        raise HostError(
            f"sudo does not allow systemctl: {done.complaint}",
            hint="allow it in sudoers, or use a user unit (user_unit: true)",
        )
    yield HostCheck(name="sudo", state="ok", found="root's rights can be had")


def check_journal(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that the unit's log can be read without root."""
    if host.user_unit or shell.run(["id", "-u"]).stdout.strip() == "0":
        return
    groups = set(shell.run(["id", "-nG"]).stdout.split())
    readable = bool(groups & {"systemd-journal", "adm", "wheel"})
    yield HostCheck(
        name="journal",
        state="ok" if readable else "warning",
        found="the journal can be read" if readable else "this user may not read the journal",
        hint="" if readable else "usermod -aG systemd-journal USER; until then it is read by sudo",
    )


def check_linger(host: Host, shell: Shell) -> Iterator[HostCheck]:
    """Check that a user unit outlives the connection."""
    if not host.user_unit:
        return
    user = shell.run(["id", "-un"]).stdout.strip()
    shown = shell.run(["loginctl", "show-user", user, "--property=Linger"]).stdout.strip()
    lingers = shown == "Linger=yes"
    yield HostCheck(
        name="linger",
        state="ok" if lingers else "wrong",
        found="user units outlive a login" if lingers else "user units end with the last login",
        hint="" if lingers else f"loginctl enable-linger {user}: else a lost connection ends it",
    )


CHECKS: tuple[Check, ...] = (check_unit, check_sudo, check_journal, check_linger)
