"""The protocol of a launcher, and which one a host names."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from specbench.errors import InputError
from specbench.launchers.attach import AttachLauncher
from specbench.launchers.process import ProcessLauncher
from specbench.launchers.service import Patience, RunningService
from specbench.launchers.systemd import SystemdLauncher
from specbench.model.host import Host
from specbench.model.plan import LaunchSpec
from specbench.remote.endpoint import resolve
from specbench.remote.local import LocalShell
from specbench.remote.shell import Shell
from specbench.remote.ssh import SshShell


class Launcher(Protocol):
    """Start servers on one host, one at a time."""

    host: Host

    def running(self, spec: LaunchSpec, block_dir: Path) -> AbstractContextManager[RunningService]:
        """Start a server; on leaving, stop it and see that it is gone.

        `block_dir` receives launch.json, server.log, server_info.json and model_info.json. Raises
        HostError where the host does not allow a start, LoadFailed where the command cannot run.
        """
        ...

    def close(self) -> None:
        """Give up the connection to the host."""
        ...


def launcher_for(
    host: Host,
    *,
    shell: Shell | None = None,
    patience: Patience | None = None,
    history: Mapping[str, float] | None = None,
) -> Launcher:
    """Make the launcher that a host names, over a shell to it.

    `history` gives the seconds that each phase of a load took before on this host and model.
    Raises HostError when the host cannot be reached, InputError for a launcher not built yet.
    """
    shell = shell or shell_for(host)
    match host.launcher:
        case "process":
            return ProcessLauncher(host, shell, patience=patience, history=history)
        case "attach":
            return AttachLauncher(host, shell, patience=patience, history=history)
        case "systemd":
            return SystemdLauncher(host, shell, patience=patience, history=history)
        case "docker" | "slurm" as name:
            raise InputError(
                f"launcher {name!r} of host {host.name!r} is not available",
                hint="available: process, systemd, attach",
            )


def shell_for(host: Host) -> Shell:
    """Open a shell on a host."""
    if host.address is None:
        return LocalShell(host.name)
    endpoint = resolve(host.address, user=host.user, port=host.port)
    return SshShell(endpoint, name=host.name)
