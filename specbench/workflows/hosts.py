"""Look at the hosts of a file, and put back what specbench left on them; all hosts at once."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from specbench import config
from specbench.errors import HostError, InputError
from specbench.model.host import Host

if TYPE_CHECKING:
    from specbench.hosts.checks import HostCheck

PARALLEL = 16


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on one host, or done to it."""

    host: str
    checks: "tuple[HostCheck, ...]"

    @property
    def is_usable(self) -> bool:
        """Whether a run could start there; warnings do not prevent it."""
        return all(check.state != "wrong" for check in self.checks)


def check_hosts(hosts_file: Path | None, names: Sequence[str] = ()) -> Iterator[HostReport]:
    """Check hosts, all of the file by default; nothing is started or changed.

    Yields a report for each as it is ready. Raises InputError for a file or a name that is wrong.
    """
    from specbench.launchers.launcher import shell_for  # noqa: PLC0415 - only hosts pay for it
    from specbench.launchers.launcher_checks import check_everything  # noqa: PLC0415 - as above

    def look(host: Host) -> "tuple[HostCheck, ...]":
        with contextlib.closing(shell_for(host)) as shell:
            return tuple(check_everything(host, shell))

    return _on_each(_chosen(hosts_file, names), look)


def restore_hosts(
    hosts_file: Path | None, names: Sequence[str] = (), *, break_lock: bool = False
) -> Iterator[HostReport]:
    """Undo what a killed specbench left, and stop what one was told to keep.

    That is: servers, drop-ins, containers, deployed files, locks; on the nodes of a host, too.
    Nothing that specbench did not start is touched. `break_lock` removes the lock of somebody else
    as well.
    """
    from specbench.launchers.launcher import shell_for  # noqa: PLC0415 - only hosts pay for it
    from specbench.launchers.restoring import restore_everything  # noqa: PLC0415 - as above

    def undo(host: Host) -> "tuple[HostCheck, ...]":
        with contextlib.closing(shell_for(host)) as shell:
            return tuple(restore_everything(host, shell, break_lock=break_lock))

    chosen = _chosen(hosts_file, names)
    nodes = (node for host in chosen for node in host.node_hosts)
    return _on_each(list({host.name: host for host in (*chosen, *nodes)}.values()), undo)


def _chosen(hosts_file: Path | None, names: Sequence[str]) -> list[Host]:
    hosts = config.read_hosts(hosts_file)
    unknown = [name for name in names if name not in hosts]
    if unknown:
        raise InputError(
            f"no host named {unknown[0]!r}", hint=f"hosts of the file: {', '.join(sorted(hosts))}"
        )
    return [hosts[name] for name in names or hosts]


def _on_each(
    hosts: list[Host], act: "Callable[[Host], tuple[HostCheck, ...]]"
) -> Iterator[HostReport]:
    from specbench.hosts.checks import wrong  # noqa: PLC0415 - only hosts pay for it

    def report(host: Host) -> HostReport:
        try:
            return HostReport(host=host.name, checks=act(host))
        except (HostError, InputError) as error:
            return HostReport(host=host.name, checks=(wrong("connection", error),))

    with ThreadPoolExecutor(max_workers=PARALLEL) as pool:
        yield from pool.map(report, hosts)
