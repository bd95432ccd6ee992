"""The protocol of a launcher, and which one a host names."""

import contextlib
import getpass
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from specbench.errors import HostError, InputError
from specbench.hosts.checks import Check
from specbench.hosts.command import render
from specbench.hosts.deploy import code_hash, deployed, restore
from specbench.hosts.gpus import describe, list_processes, wait_for_memory
from specbench.hosts.lock import HostLock
from specbench.hosts.packages import VARIABLE, path_with, require_first
from specbench.hosts.state import boot_id, facts_of
from specbench.hosts.telemetry import sampled
from specbench.launchers.attach import AttachLauncher
from specbench.launchers.context import LaunchContext, Place
from specbench.launchers.docker import DockerLauncher, check_docker
from specbench.launchers.nodes import NodesLauncher
from specbench.launchers.preflight import FlagCheck
from specbench.launchers.process import ProcessLauncher
from specbench.launchers.service import RunningService, Service
from specbench.launchers.systemd import checks as systemd_checks
from specbench.launchers.systemd.launcher import SystemdLauncher
from specbench.launchers.waiting import Patience
from specbench.model.host import LAUNCHER_TRAITS, Host
from specbench.model.plan import LaunchSpec
from specbench.remote.endpoint import resolve
from specbench.remote.local import LocalShell
from specbench.remote.shell import Shell
from specbench.remote.ssh import SshShell

ATTACH_S = 60.0
"""An attached server is expected to be up: a short wait bridges its restart, no more."""


class Launcher(Protocol):
    """Start servers on one host, one at a time."""

    host: Host

    def running(self, spec: LaunchSpec, block_dir: Path) -> AbstractContextManager[Service]:
        """Start a server; on leaving, stop it and see that it is gone.

        `block_dir` receives launch.json, server.log, server_info.json and model_info.json. Raises
        HostError where the host does not allow a start, LoadFailed where the command cannot run.
        """
        ...

    def close(self) -> None:
        """Give up the connection to the host."""
        ...


class Starter(Protocol):
    """One way to start a service; what surrounds every launch is the guard's, not its own."""

    host: Host

    def running(
        self, spec: LaunchSpec, block_dir: Path, context: LaunchContext
    ) -> AbstractContextManager[RunningService]:
        """Start a server in its context; on leaving, stop it and see that it is gone."""
        ...

    def restore(self) -> tuple[str, ...]:
        """Stop what a killed specbench left running, put back what it changed; say what was done.

        Idempotent.
        """
        ...

    def python_path(self) -> str:
        """Return the PYTHONPATH that a server gets here from elsewhere, empty where it has none."""
        ...

    def close(self) -> None:
        """Give up the connection to the host."""
        ...


class Way(NamedTuple):
    """One way to start a service, and what only it needs of a host."""

    make: Callable[[Place], Starter]
    checks: tuple[Check, ...] = ()


LAUNCHERS = {
    "process": Way(ProcessLauncher),
    "systemd": Way(SystemdLauncher, systemd_checks.CHECKS),
    "docker": Way(DockerLauncher, (check_docker,)),
    "attach": Way(AttachLauncher),
}


class GuardedLauncher:
    """Everything that surrounds a launch on a shared machine, whatever launches it.

    In this order: the host's lock, what an earlier run left or kept, the files of the matrix, the
    flags tried, the GPUs looked at; then the launch, with the host and its GPUs sampled while
    it is up.
    """

    def __init__(self, host: Host, shell: Shell, launcher: Starter) -> None:
        self.host = host
        self._shell = shell
        self._launcher = launcher
        self._lock = HostLock(shell) if host.address is not None or host.gpus else None
        self._flags = FlagCheck(shell)
        self._cleared: tuple[str, ...] = ()

    def clear(self, purpose: str) -> tuple[str, ...]:
        """Take the host's lock and end what an earlier run left or kept; say what was done."""
        taken_over = self._lock.hold(purpose) if self._lock else None
        said = (*self._launcher.restore(), *restore(self._shell))
        self._cleared += (*([taken_over] if taken_over else []), *said)
        return self._cleared

    @contextlib.contextmanager
    def running(self, spec: LaunchSpec, block_dir: Path) -> Iterator[RunningService]:
        """Start a server with all precautions; leave the host as it was."""
        left, self._cleared = self.clear(f"{spec.algorithm} on {self.host.url}"), ()
        block_dir.mkdir(parents=True, exist_ok=True)
        files = (*self.host.files, *spec.files)
        held: list[RunningService] = []

        def kept() -> bool:
            return any(service.kept for service in held)

        with deployed(self._shell, self.host, files, block_dir, kept=kept) as placed:
            libraries = [file.library for file in placed if file.library]
            spec = self._with_packages(spec, libraries)
            launch = render(self.host, spec)
            self._flags.require(launch)
            foreign = list_processes(self._shell)
            context = LaunchContext(
                host_facts=facts_of(self._shell, self.host, launch),
                code_hash=code_hash(placed),
                lock=f"held by {getpass.getuser()}" if self._lock else None,
                libraries=tuple(libraries),
                notices=(*left, *describe(foreign)),
                flags=("foreign_load",) if foreign else (),
                was_rebooted=self._reboot_watch(),
                sampled=lambda pid: sampled(self._shell, self.host, block_dir, server=pid),
            )
            with self._launcher.running(spec, block_dir, context) as service:
                held.append(service)
                yield service
            if not kept():
                wait_for_memory(self._shell, foreign)

    def _reboot_watch(self) -> Callable[[], bool]:
        """Note the present boot of the host; the answer says whether it is another one by then."""
        boot = boot_id(self._shell)
        return lambda: boot_id(self._shell) not in {None, boot}

    def _with_packages(self, spec: LaunchSpec, libraries: Sequence[str]) -> LaunchSpec:
        """Put the folders of packages before all else on the path of the served process."""
        if not libraries:
            return spec
        given = render(self.host, spec).env.get(VARIABLE)
        before = self._launcher.python_path() if given is None else given
        path = (VARIABLE, path_with(libraries, before))
        spec = msgspec.structs.replace(spec, env=(*spec.env, path))
        require_first(self._shell, self.host, render(self.host, spec), libraries)
        return spec

    def close(self) -> None:
        """Give back the lock and the connection."""
        try:
            if self._lock:
                self._lock.release()
        finally:
            self._launcher.close()


def launcher_for(
    host: Host,
    *,
    shell: Shell | None = None,
    patience: Patience | None = None,
    history: Mapping[str, float] | None = None,
) -> Launcher:
    """Make the launcher that a host names, over a shell to it.

    `history` gives the seconds that each phase of a load took before on this host and model.
    Raises HostError when the host or one of its nodes cannot be reached, InputError for a launcher
    not built yet.
    """
    if host.nodes:
        return _nodes_launcher(host, patience=patience, history=history)
    shell = shell or shell_for(host)
    started = starter_for(host, shell, patience=patience, history=history)
    if not LAUNCHER_TRAITS[host.launcher].starts:
        return UnguardedLauncher(host, shell, started)
    return GuardedLauncher(host, shell, started)


class UnguardedLauncher:
    """A server of somebody else's: looked at and sampled, with no lock and nothing put in place."""

    def __init__(self, host: Host, shell: Shell, launcher: Starter) -> None:
        self.host = host
        self._shell = shell
        self._launcher = launcher

    @contextlib.contextmanager
    def running(self, spec: LaunchSpec, block_dir: Path) -> Iterator[RunningService]:
        """Hand out the running server with what can be seen of its host."""
        facts: dict[str, Any] = {}
        with contextlib.suppress(HostError):  # a host without Python serves all the same
            facts = facts_of(self._shell, self.host, None)
        context = LaunchContext(
            host_facts=facts,
            sampled=lambda pid: sampled(self._shell, self.host, block_dir, server=pid),
        )
        with self._launcher.running(spec, block_dir, context) as service:
            yield service

    def close(self) -> None:
        """Give up the connection to the host."""
        self._launcher.close()


def _nodes_launcher(
    host: Host, *, patience: Patience | None, history: Mapping[str, float] | None
) -> NodesLauncher:
    """Make a launcher over a host and its nodes, connected to all of them or to none."""
    if host.nodes != tuple(node.name for node in host.node_hosts):
        raise InputError(
            f"nodes of host {host.name!r} are not known: {', '.join(host.nodes)}",
            hint="describe them in the same hosts.yaml",
        )
    nodes: list[GuardedLauncher] = []
    with contextlib.ExitStack() as connected:
        for each in (host, *host.node_hosts):
            shell = shell_for(each)
            connected.callback(shell.close)
            starter = starter_for(each, shell, patience=patience, history=history)
            nodes.append(GuardedLauncher(each, shell, starter))
        connected.pop_all()
    return NodesLauncher(host, nodes)


def starter_for(
    host: Host,
    shell: Shell,
    *,
    patience: Patience | None = None,
    history: Mapping[str, float] | None = None,
) -> Starter:
    """Make the bare launcher that starts servers on a host, without what surrounds a launch."""
    traits = LAUNCHER_TRAITS[host.launcher]
    if traits.missing is not None:
        what, hint = traits.missing
        raise InputError(f"launcher {host.launcher!r} of host {host.name!r}: {what}", hint=hint)
    load_s = host.load_timeout_s if traits.starts else min(ATTACH_S, host.load_timeout_s)
    usual = Patience(load_timeout_s=load_s, poll_s=traits.poll_s)
    place = Place(host=host, shell=shell, patience=patience or usual, history=history)
    return LAUNCHERS[host.launcher].make(place)


def shell_for(host: Host) -> Shell:
    """Open a shell on a host."""
    if host.address is None:
        return LocalShell(host.name)
    endpoint = resolve(host.address, user=host.user, port=host.port)
    return SshShell(endpoint, name=host.name)
