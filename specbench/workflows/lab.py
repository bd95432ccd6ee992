"""The composition root: everything with an effect that a run uses, in one explicit object."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.model.host import Host
from specbench.model.load import DriveEvent, LoadSpec
from specbench.verify.events import VerifyEvent
from specbench.verify.options import VerifyOptions

if TYPE_CHECKING:
    from specbench.launchers import Launcher

Verify = Callable[[str, VerifyOptions], Iterator[VerifyEvent]]
Drive = Callable[[Host, LoadSpec, Path], Generator[DriveEvent, None, None]]


@dataclass(frozen=True, kw_only=True)
class Lab:
    """How services are launched and how load is driven.

    `launcher(host, history)` opens the host (HostError when it cannot be reached); `history` holds
    the seconds of each load phase in earlier recordings. `drive(host, job, sink)` appends one JSON
    line a request to `sink` and yields progress, then a report; it drives from where the host's
    `drive_from` says. `verify(url, options)` runs the
    losslessness battery.
    """

    launcher: Callable[[Host, Mapping[str, float] | None], "Launcher"]
    drive: Drive
    verify: Verify


def real_lab() -> Lab:
    """Give the lab that touches real hosts and real servers."""
    from specbench.launchers import launcher_for  # noqa: PLC0415 - only a run pays for it
    from specbench.verify.battery import verify_server  # noqa: PLC0415 - as above

    return Lab(
        launcher=lambda host, past: launcher_for(host, history=past),
        drive=drive_for_host,
        verify=verify_server,
    )


def drives_remotely(host: Host) -> bool:
    """Tell whether load comes from the host itself and not from this machine."""
    return host.drive_from == "host" and not host.is_local


def drive_for_host(host: Host, job: LoadSpec, sink: Path) -> Generator[DriveEvent, None, None]:
    """Drive from this machine, or on the host (the driver is carried there as one file).

    Raises HostError when nothing can be reached, InputError for a job that cannot be driven.
    """
    from specbench.loadgen import drive  # noqa: PLC0415 - only a run pays for it

    if not drives_remotely(host):
        yield from drive(job, sink)
        return
    from specbench.launchers.launcher import shell_for  # noqa: PLC0415 - as above
    from specbench.loadgen.remote import Place, drive_from  # noqa: PLC0415 - as above

    with closing(shell_for(host)) as shell:
        yield from drive_from([Place(shell, host.python)], job, sink)
