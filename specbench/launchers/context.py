"""What surrounds one launch and is known before the server starts."""

import contextlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from specbench.hosts.telemetry import Telemetry
from specbench.launchers.waiting import Patience
from specbench.model.host import Host
from specbench.model.secrets import Secrets, secrets_of
from specbench.remote.shell import Shell


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A host that a launcher works on, and how long to wait for what there.

    `history` gives the seconds that each phase of a load took before on this host and model.
    """

    host: Host
    shell: Shell
    patience: Patience
    history: Mapping[str, float] | None = None

    @property
    def secrets(self) -> Secrets:
        """What must be neither written nor shown of a server there."""
        return secrets_of([self.host], environ=os.environ)

    @property
    def tunnelled(self) -> bool:
        """Whether load from here has to go through a tunnel."""
        return not self.host.is_local and self.host.drive_from == "here"


def _never() -> bool:
    return False


def _not_sampled(server: int | None) -> AbstractContextManager[Telemetry | None]:
    del server
    return contextlib.nullcontext()


@dataclass(frozen=True, kw_only=True)
class LaunchContext:
    """The guard's part of a launch, handed to the service when it is made.

    `libraries` are the folders of packages that the process must serve. `notices` and `flags` hold
    for everything measured on the launch. `was_rebooted` asks whether the host went down since.
    `sampled` watches host and GPUs for as long as its context lasts; it is given the server's pid.
    """

    host_facts: dict[str, Any] = field(default_factory=dict)
    code_hash: str | None = None
    lock: str | None = None
    libraries: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    was_rebooted: Callable[[], bool] = _never
    sampled: Callable[[int | None], AbstractContextManager[Telemetry | None]] = _not_sampled
